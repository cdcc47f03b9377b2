"""Compiles the kernels: into the cache folder as a program, `python -m … MARKER`, or for the process that asks.

It imports no PyTorch, so that it takes little memory beside the program that started it.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
from numba import typeof

from clearhead.decoding.steppers.kernels import choice, step

NICENESS = 5  # the program that started it goes first


def compile_all(marker: Path | None) -> None:
    """Compiles the step for the types that it is called with, and then writes the marker."""
    counts, rows, Z = np.zeros(1, np.int64), np.zeros((1, 5), np.int64), np.zeros((1, 1), np.float32)
    tables = np.zeros(1, step.MODEL), np.zeros(1, step.SUBLAYER), np.zeros(1, step.PLACE)
    step.step.compile(tuple(map(typeof, (*tables, rows, rows, 1, counts, 1, counts, Z, rows, Z))))
    for best in (choice.best, choice.best_alone):
        best.compile(tuple(map(typeof, (Z, rows, Z, Z[0]))))
    if marker is not None:
        marker.touch()


if __name__ == "__main__":
    with suppress(AttributeError, OSError):
        os.nice(NICENESS)
    compile_all(Path(sys.argv[1]))
