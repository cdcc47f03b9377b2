"""Checkpoints: a trainer becomes a folder `checkpoints/step-N`, and the latest undamaged one a trainer again.

save.py          writes a checkpoint so that a kill at any moment leaves only complete ones; removes old ones
background.py    copies the state between two steps and saves the copy in a thread
restore.py       finds the latest checkpoint, checks it, skips damaged ones, restores a trainer
state.py         which tensors a checkpoint contains
metadata.py      what it contains besides: counts, the position in the data, settings
identity.py      what must be equal to resume a run, and what may change its bits
sharded.py       tensors in several files, of which each rank writes one
group.py         the ranks that write or read one checkpoint together
files.py         the names of its files
"""
