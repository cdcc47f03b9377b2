"""y = W x + b for one x, compiled: each thread reads its rows of W once, as fast as the memory gives them.

PyTorch's own product of a matrix and a row keeps to one thread. Importing this file compiles it, in a second or two.
Numba could keep the machine code for the next process, as pickle in a folder that must then be trusted: it saves less
than a second.
"""

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
import torch.nn.functional as F
from numba import njit, prange, set_num_threads
from torch import Tensor

config: Any = numba.config
config.THREADING_LAYER = "threadsafe"  # for the process: another layer ends it when two threads call at once
compiled_by = os.getpid()


@njit("(f4[:, ::1], f4[:, ::1], f4[::1], f4[:, ::1])", parallel=True, fastmath=True, nogil=True)
def multiply(W, x, b, y):  # type: ignore[no-untyped-def]
    """Writes W x + b into y: (n, k), (1, k), (n), (1, n)."""
    for i in prange(W.shape[0]):
        s = np.float32(0)
        for j in range(W.shape[1]):
            s += W[i, j] * x[0, j]
        y[0, i] = s + b[i]


def product_with_row(W: Tensor, b: Tensor | None) -> Callable[[Tensor], Tensor]:
    """x ↦ W x + b; the kernel is for one row, several are PyTorch's."""
    W_array = W.detach().contiguous().numpy()
    b_array = np.zeros(len(W), np.float32) if b is None else b.detach().contiguous().numpy()

    def multiplied(X: Tensor) -> Tensor:
        if len(X) != 1 or X.dtype != torch.float32 or os.getpid() != compiled_by:  # its threads end at a fork
            return F.linear(X, W, b)
        set_num_threads(min(torch.get_num_threads(), config.NUMBA_NUM_THREADS))
        Y = X.new_empty(1, len(W))
        multiply(W_array, X.contiguous().numpy(), b_array, Y.numpy())
        return Y

    return multiplied
