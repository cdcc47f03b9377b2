"""Norms: token vectors X (b, n, d) leave with a fixed size.

Every kind takes `real` (b, n), the tokens that exist; only `whole` uses it.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Norm(nn.Module):
    """No norm: X as it is."""

    def __init__(self, d: int, epsilon: float, bias: bool = True) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, X: Tensor, real: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        return X


class LayerNorm(Norm):
    """γ (x − μ) / √(σ² + ε) + β, with μ and σ² over the features of one token."""

    def __init__(self, d: int, epsilon: float, bias: bool = True) -> None:
        super().__init__(d, epsilon)
        self.weight = nn.Parameter(torch.ones(d))
        self.bias = nn.Parameter(torch.zeros(d)) if bias else None

    def forward(self, X: Tensor, real: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        return F.layer_norm(X, X.shape[-1:], self.weight, self.bias, self.epsilon)


class RMSNorm(Norm):
    """γ x / √(mean x² + ε): the layer norm without centring (Zhang and Sennrich, 2019)."""

    def __init__(self, d: int, epsilon: float, bias: bool = True) -> None:
        super().__init__(d, epsilon)
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, X: Tensor, real: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        if X.is_cpu and X.dtype == torch.float32 and torch.is_grad_enabled():
            return Rooted.apply(X, self.weight, self.epsilon)  # type: ignore[no-untyped-call]
        return F.rms_norm(X, X.shape[-1:], self.weight.to(X.dtype), self.epsilon)


class Rooted(torch.autograd.Function):
    """The same norm with its gradient written out: on a CPU PyTorch computes both in twice as many passes.

    With r = 1 / √(mean x² + ε) and y = x r:   ∂γ = Σ g y   and   ∂x = r (γ g − y mean(γ g y)).
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """(…, d) -> (…, d)."""
        squares = torch.linalg.vector_norm(X, dim=-1, keepdim=True).square_()
        r = squares.div_(X.shape[-1]).add_(epsilon).rsqrt_()
        Y = X * r
        ctx.save_for_backward(Y, r, weight)
        return Y * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, Tensor, None]:
        """The gradients of X and γ."""
        Y, r, weight = ctx.saved_tensors
        GY = G * Y
        means = (GY @ weight)[..., None] / len(weight)
        return torch.addcmul(G * weight, Y, means, value=-1).mul_(r), GY.flatten(0, -2).sum(0), None


class WholeNorm(Norm):
    """(x − μ) / √(σ² + ε), with μ and σ² over the whole (n, d) matrix of a sequence: it mixes tokens."""

    def forward(self, X: Tensor, real: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        Y = X.to(torch.promote_types(X.dtype, torch.float32))  # n · d overflows what float16 can count
        weight = Y.new_ones(Y.shape[:2]) if real is None else real.to(Y.dtype)
        weight = weight[..., None]  # (b, n, 1)
        size = weight.sum((1, 2), keepdim=True) * Y.shape[-1]
        mean = (Y * weight).sum((1, 2), keepdim=True) / size
        variance = ((Y - mean).square() * weight).sum((1, 2), keepdim=True) / size
        return ((Y - mean) * (variance + self.epsilon).rsqrt()).to(X.dtype)


NORMS: dict[str, type[Norm]] = {"layer": LayerNorm, "rms": RMSNorm, "whole": WholeNorm, "none": Norm}
