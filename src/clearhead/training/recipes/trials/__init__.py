"""Trials: a recipe that the rules chose enters; the best of a few recipes on held-out training data leaves.

candidates.py   the recipes to try
unlabelled.py   word vectors from texts without labels, for candidates that start from them
folds.py        a part of the training data to learn from, another to judge by
trial.py        one candidate trained on one fold, and judged on its other part
floor.py        a bag of n-grams, which every model should beat
budget.py       who is tried in the time, and on what share of the texts
halving.py      who is tried again, until the spread or the time decides
choosing.py     the whole: a task and files -> the recipe that won, and the table of trials
"""
