"""x ↦ W x + b for one row x or a few, as fast as the machine allows.

PyTorch multiplies with W as it lies in memory. A copy that is made for the purpose is faster: for one row, W with
its columns one after the other (about 1.15 ×); for several, oneDNN's own order, which comes with PyTorch (1.3 to
2.2 × with 8 rows). A copy costs memory, and as much time as some dozen products, so it is for matrices that are
used again and again.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Product = Callable[[Tensor], Tensor]  # (b, d_in) -> (b, d_out)
Order = Literal[
    "own", "for a row", "for rows"
]  # how the numbers of a matrix lie; all serve any number of rows


def product_of(*matrices: nn.Module, order: Order) -> Product:
    """The product with a linear layer, or with several that have the same inputs: one costs less than three."""
    weights = [(matrix.weight, matrix.bias) for matrix in matrices if isinstance(matrix, nn.Linear)]
    assert len(weights) == len(matrices)
    return product(*(weights[0] if len(weights) == 1 else together(weights)), order)


def product(W: Tensor, b: Tensor | None, order: Order) -> Product:
    """x ↦ W x + b."""
    if order == "for a row":
        columns = W.t().contiguous()
        return (lambda X: torch.mm(X, columns)) if b is None else (lambda X: torch.addmm(b, X, columns))
    if order == "for rows" and can_pack(W):
        packed = torch.ops.mkldnn._reorder_linear_weight(W)
        multiply = torch.ops.mkldnn._linear_pointwise.default
        return lambda X: multiply(X, packed, b, "none", [], "")
    return lambda X: F.linear(X, W, b)


def can_pack(W: Tensor) -> bool:
    """Whether oneDNN is there for a matrix; its operators are PyTorch's own, but not promised to stay."""
    has_operators = hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    return W.device.type == "cpu" and W.dtype == torch.float32 and has_operators


def together(weights: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Some W and b above each other, a copy."""
    rows = torch.cat([W for W, _ in weights])
    if all(b is None for _, b in weights):
        return rows, None
    return rows, torch.cat([W.new_zeros(len(W)) if b is None else b for W, b in weights])


def stamp(model: nn.Module) -> list[tuple[int, int, float]]:
    """Changes when a weight does.

    PyTorch counts changes, but not those of a fused optimizer or through `.data`: some numbers are looked at too.
    """
    return [
        (weight.data_ptr(), version(weight), float(some_of(weight).sum(dtype=torch.float64)))
        for weight in model.parameters()
    ]


def version(weight: Tensor) -> int:
    """How often PyTorch saw it change; what was made in inference mode has no count."""
    return 0 if weight.is_inference() else weight._version


def some_of(weight: Tensor) -> Tensor:
    """Up to a hundred or so of its numbers, from all over it."""
    flat = weight.detach().flatten()
    return flat[:: max(1, len(flat) // 64)]
