"""A model and held-out examples enter; scores, samples and attention weights leave.

evaluate.py    loss, perplexity and the scores of each kind of model, over a stream of examples
scores.py      BLEU, chrF, exact match, accuracy, F1, confusion matrix
calibration.py the temperature of a classifier, fitted on validation data
samples.py     what a model makes of a few examples while it is trained
"""
