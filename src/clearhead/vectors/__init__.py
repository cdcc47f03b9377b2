"""Texts or files of vectors enter; words as vectors leave, with what can be asked of them (N3 to N6).

sentences.py     a source -> its words, sentence by sentence, on disk
training.py      sentences -> vectors, by word2vec
importing.py     files of word2vec and GloVe -> vectors
words.py         nearest words, similarity, analogies
contextual.py    the same questions about a word in a sentence, answered by a trained model
evaluation.py    analogy questions and similarity judgements -> scores
drawing.py       a map of words, as SVG or HTML
files.py         the lines and bytes of a file
"""
