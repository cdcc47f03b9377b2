"""A recipe enters; a run folder with a trained model leaves, and records on the way.

run.py             the run from its first step or its latest checkpoint to its scores
start.py           random weights, or those of a model to fine-tune
plan.py            steps, memory, disk and time, before the first step
requirements.py    the bytes that a run needs, and those that are free
trial_steps.py     a few steps on a copy of the model, to measure them
observers.py       what the first rank writes while all ranks train
folder.py          the files of a run folder
disk.py            free space, speed and the lock of the run folder
"""
