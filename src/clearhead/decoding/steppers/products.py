"""x ↦ W x + b for some rows x, as fast as PyTorch allows.

PyTorch multiplies with W as it is in memory. For several rows, a copy in oneDNN's own order, which comes with PyTorch,
is faster (1.3 to 2.2 × with 8 rows). It costs memory and as much time as some dozen products, so it is for matrices
that are used again and again.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Product = Callable[[Tensor], Tensor]  # (b, d_in) -> (b, d_out)
# How a matrix is made ready; each way serves any number of rows.
Order = Literal["own", "for rows"]


def product_of(*matrices: nn.Module, order: Order) -> Product:
    """The product with a linear layer, or with several that have the same inputs: one costs less than three."""
    weights = [(matrix.weight, matrix.bias) for matrix in matrices if isinstance(matrix, nn.Linear)]
    assert len(weights) == len(matrices)
    return product(*(weights[0] if len(weights) == 1 else together(weights)), order)


def product(W: Tensor, b: Tensor | None, order: Order) -> Product:
    """x ↦ W x + b."""
    is_usual = W.device.type == "cpu" and W.dtype == torch.float32
    if order == "for rows" and is_usual and can_pack():
        packed = torch.ops.mkldnn._reorder_linear_weight(
            W.contiguous()
        )  # reads non-contiguous weights wrongly
        bias, multiply = None if b is None else b.contiguous(), torch.ops.mkldnn._linear_pointwise.default
        return lambda X: multiply(X, packed, bias, "none", [], "")
    return lambda X: F.linear(X, W, b)


def can_pack() -> bool:
    """Whether oneDNN's operators exist: PyTorch has them, but does not promise to keep them."""
    return hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def together(weights: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Some W and b above each other, a copy."""
    rows = torch.cat([W for W, _ in weights])
    if all(b is None for _, b in weights):
        return rows, None
    return rows, torch.cat([W.new_zeros(len(W)) if b is None else b for W, b in weights])


Stamp = list[tuple[int, int]]


def stamp(model: nn.Module) -> Stamp:
    """Changes when a weight is replaced, and when PyTorch sees it change: not through `.data` or a fused optimizer."""
    return [(weight.data_ptr(), version(weight)) for weight in model.parameters()]


def version(weight: Tensor) -> int:
    """How often PyTorch saw it change; what was made in inference mode has no count."""
    return 0 if weight.is_inference() else weight._version
