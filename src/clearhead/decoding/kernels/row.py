"""y = W x + b for one x, compiled: each thread reads its rows of W once, as fast as the memory gives them.

PyTorch's own product of a matrix and a row keeps to one thread. Importing this file compiles it, which takes a
second or two; the machine code is kept in the user's cache folder for the next process.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
import torch.nn.functional as F
from numba import njit, prange, set_num_threads
from torch import Tensor

from clearhead.data.cache import cache_folder
from clearhead.decoding.products import Product

config: Any = numba.config
TYPES = "(f4[:, ::1], f4[:, ::1], f4[::1], f4[:, ::1])"
Numbers = np.ndarray[Any, np.dtype[np.float32]]


def multiply(W, x, b, y):  # type: ignore[no-untyped-def]  # TYPES
    """Writes W x + b into y: (n, k), (1, k), (n), (1, n)."""
    for i in prange(W.shape[0]):
        s = np.float32(0)
        for j in range(W.shape[1]):
            s += W[i, j] * x[0, j]
        y[0, i] = s + b[i]


def compiled() -> Callable[[Numbers, Numbers, Numbers, Numbers], None]:
    """`multiply` in machine code, from the cache folder where it is there."""
    config.THREADING_LAYER = "threadsafe"  # another one ends the process when two threads call at once
    stated, config.CACHE_DIR = config.CACHE_DIR, str(cache_folder() / "kernels")
    try:
        return njit(TYPES, parallel=True, fastmath=True, nogil=True, cache=True)(multiply)
    finally:
        config.CACHE_DIR = stated


kernel = compiled()


def product_with_row(W: Tensor, b: Tensor | None) -> Product:
    """x ↦ W x + b; the kernel is for one row, several are PyTorch's."""
    W_array = W.detach().contiguous().numpy()
    b_array = np.zeros(len(W), np.float32) if b is None else b.detach().contiguous().numpy()

    def multiplied(X: Tensor) -> Tensor:
        if len(X) != 1:
            return F.linear(X, W, b)
        set_num_threads(min(torch.get_num_threads(), config.NUMBA_NUM_THREADS))
        Y = X.new_empty(1, len(W))
        kernel(W_array, X.contiguous().numpy(), b_array, Y.numpy())
        return Y

    return multiplied
