"""x ↦ W x + b for one row x or a few, as fast as the machine allows.

PyTorch multiplies with W as it is in memory, and, where there is one row, on some processors by one thread. There a
kernel of our own reads the same numbers with all threads (2.4 × on two cores). For several rows, a copy in oneDNN's own
order, which comes with PyTorch, is faster (1.3 to 2.2 × with 8 rows). The kernel must be compiled, the copy costs
memory and as much time as some dozen products: both are for matrices that are used again and again.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

log = logging.getLogger(__name__)

TRIED = (3072, 1024)  # the size of a matrix that shows which product is faster
TRIES = 7  # of each

Product = Callable[[Tensor], Tensor]  # (b, d_in) -> (b, d_out)
# How a matrix is made ready; each way serves any number of rows.
Order = Literal["own", "for a row", "for rows"]


def product_of(*matrices: nn.Module, order: Order) -> Product:
    """The product with a linear layer, or with several that have the same inputs: one costs less than three."""
    weights = [(matrix.weight, matrix.bias) for matrix in matrices if isinstance(matrix, nn.Linear)]
    assert len(weights) == len(matrices)
    return product(*(weights[0] if len(weights) == 1 else together(weights)), order)


def product(W: Tensor, b: Tensor | None, order: Order) -> Product:
    """x ↦ W x + b."""
    is_usual = W.device.type == "cpu" and W.dtype == torch.float32
    if order == "for a row" and is_usual and (by_kernel := row_kernel()):
        return by_kernel(W, b)
    if order == "for rows" and is_usual and can_pack():
        packed = torch.ops.mkldnn._reorder_linear_weight(
            W.contiguous()
        )  # reads non-contiguous weights wrongly
        bias, multiply = None if b is None else b.contiguous(), torch.ops.mkldnn._linear_pointwise.default
        return lambda X: multiply(X, packed, bias, "none", [], "")
    return lambda X: F.linear(X, W, b)


@cache
def row_kernel() -> Callable[[Tensor, Tensor | None], Product] | None:
    """The compiled product with one row, where numba can compile it and it is faster than PyTorch's own."""
    try:
        from clearhead.decoding.steppers.kernels.row import product_with_row
    except Exception:  # whatever is wrong with the compiler, PyTorch can still multiply
        log.warning("The kernel for one row could not be compiled; decoding is slower.", exc_info=True)
        return None
    W = torch.zeros(TRIED)
    ours, theirs = product_with_row(W, None), product(W, None, "own")
    return product_with_row if is_faster(ours, theirs, torch.zeros(1, TRIED[1])) else None


def is_faster(one: Product, other: Product, X: Tensor) -> bool:
    """Whether one product takes less time than another, of a few tries in turn."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(TRIES):
        for taken, multiply in zip(seconds, (one, other), strict=True):
            start = time.perf_counter()
            multiply(X)
            taken.append(time.perf_counter() - start)
    return min(seconds[0]) < min(seconds[1])


def can_pack() -> bool:
    """Whether oneDNN's operators exist: PyTorch has them, but does not promise to keep them."""
    return hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def together(weights: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Some W and b above each other, a copy."""
    rows = torch.cat([W for W, _ in weights])
    if all(b is None for _, b in weights):
        return rows, None
    return rows, torch.cat([W.new_zeros(len(W)) if b is None else b for W, b in weights])


Stamp = tuple[list[tuple[int, int]], list[int]]
MANY = 10_000_000  # numbers that take longer to add than threads to start


def stamp(model: nn.Module, copied: Sequence[Tensor]) -> Stamp:
    """Changes when a weight is replaced, and when a number of one that was copied changes.

    PyTorch counts changes, but not those of a fused optimizer or through `.data`. Weights that are read in place
    need no more than their address.
    """
    places = [(weight.data_ptr(), version(weight)) for weight in model.parameters()]
    if sum(weight.numel() for weight in copied) < MANY:
        return places, list(map(checksum, copied))
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # NumPy adds with one thread
        return places, list(pool.map(checksum, copied))


def version(weight: Tensor) -> int:
    """How often PyTorch saw it change; what was made in inference mode has no count."""
    return 0 if weight.is_inference() else weight._version


def checksum(weight: Tensor) -> int:
    """The sum of its bytes, eight at a time: exact, so that any one number changes it."""
    flat = weight.detach().cpu().reshape(-1).view(torch.uint8).numpy()
    whole, rest = np.split(flat, [len(flat) // 8 * 8])
    return int(whole.view(np.int64).sum()) + int(rest.sum())  # NumPy adds these 10 times as fast as PyTorch
