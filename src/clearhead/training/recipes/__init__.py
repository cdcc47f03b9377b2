"""A task and files enter; a recipe that fits them and the machine leaves, with a reason for each choice.

suggest.py        the whole recipe
choices.py        settings that are stated or chosen, and the reasons
data_sample.py    the first megabytes of the data
labelling.py      what labels are about: texts, pairs of texts, or words
columns.py        the columns of a table
held_out.py       what is held out to measure the model
tokens.py         the tokenizer
sizing.py         the size of the model, its context, and the length of training
trials/           other recipes, tried on parts of the training data
"""
