"""Position-wise feed-forward: the same two matrices for every token vector, X (b, n, d) -> (b, n, d)."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from clearhead.layers.sites import site


def relu2(X: Tensor) -> Tensor:
    """max(0, x)² (So et al., 2021)."""
    return SquaredReLU.apply(X)  # type: ignore[no-untyped-call]


class SquaredReLU(torch.autograd.Function):
    """max(0, x)² with its gradient 2 max(0, x) written out: one pass where PyTorch takes three."""

    @staticmethod
    def forward(ctx: Any, X: Tensor) -> Tensor:
        """(…) -> (…)."""
        positive = F.relu(X)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> Tensor:
        """The gradient of X."""
        (positive,) = ctx.saved_tensors
        return (G * positive).mul_(2)


def gelu_tanh(X: Tensor) -> Tensor:
    """The approximation of gelu that GPT-2 uses."""
    return F.gelu(X, approximate="tanh")


class FeedForward(nn.Module):
    """W_2 f(W_1 x + b_1) + b_2."""

    sites = ("hidden", "out")

    def __init__(self, d: int, d_ff: int, activation: Callable[[Tensor], Tensor], bias: bool) -> None:
        super().__init__()
        self.activation = activation
        self.W_1 = nn.Linear(d, d_ff, bias)
        self.W_2 = nn.Linear(d_ff, d, bias)

    def hidden(self, X: Tensor) -> Tensor:
        """f(W_1 x + b_1), the units between the two matrices."""
        return self.activation(self.W_1(X))

    def forward(self, X: Tensor) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        H = site(self, "hidden", self.hidden(X))  # (b, n, d_ff)
        return site(self, "out", self.W_2(H))


class Gated(FeedForward):
    """W_2 (f(W_g x) ∘ W_1 x) (Shazeer, 2020)."""

    def __init__(self, d: int, d_ff: int, activation: Callable[[Tensor], Tensor], bias: bool) -> None:
        super().__init__(d, d_ff, activation, bias)
        self.W_g = nn.Linear(d, d_ff, bias)

    def hidden(self, X: Tensor) -> Tensor:
        """f(W_g x) ∘ W_1 x."""
        return self.activation(self.W_g(X)) * self.W_1(X)


FEEDFORWARDS: dict[str, tuple[type[FeedForward], Callable[[Tensor], Tensor]]] = {
    "relu": (FeedForward, F.relu),
    "gelu": (FeedForward, F.gelu),
    "gelu_tanh": (FeedForward, gelu_tanh),
    "silu": (FeedForward, F.silu),
    "relu2": (FeedForward, relu2),
    "swiglu": (Gated, F.silu),
    "geglu": (Gated, F.gelu),
    "geglu_tanh": (Gated, gelu_tanh),
}
