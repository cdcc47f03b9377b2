"""The library in Python: `clearhead.load` and `clearhead.train`, and what notebooks show.

model.py        the object that `load` returns
loading.py      load, train
arguments.py    texts, ids and paths, checked
figures.py      what a notebook shows: the explorer, attention, heads, attribution, training curves, data reports
"""

from clearhead.api.figures import Figure, data_report, training_curves
from clearhead.api.loading import load, train
from clearhead.api.model import Model, TextTrace

__all__ = ["Figure", "Model", "TextTrace", "data_report", "load", "train", "training_curves"]
