"""Small attention sublayers with random weights, and the views they are tried under."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from clearhead.layers.attention import Attention, Dimensions
from clearhead.layers.masks import View
from clearhead.layers.similarity import SIMILARITIES

B, N, M, H, D, D_MEMORY, D_K, D_V = 2, 5, 7, 3, 10, 14, 4, 6


def randomise(module: nn.Module, seed: int = 1) -> nn.Module:
    """Gives every weight a random value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / weight.shape[-1] ** 0.5)
    return module


def some(*shape: int, seed: int = 1) -> Tensor:
    """Random numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def make_attention(
    similarity: str = "scaled_dot",
    h: int = H,
    g: int | None = None,
    d_v: int = D_V,
    kept: tuple[int, ...] | None = None,
    projections: str = "linear",
    bias: str = "",
    d: int = D,
    d_memory: int = D_MEMORY,
    d_k: int = D_K,
) -> Attention:
    """An attention sublayer with random weights."""
    kind = SIMILARITIES[similarity]
    size = Dimensions(d, d_memory, h, g or h, d_k if kind.uses_content else 0, d_v, kept)
    similar = kind(len(size.heads), size.d_k, None)
    attention = Attention(size, similar, projections, bias)
    randomise(attention)
    return attention.eval()


def attend(attention: Attention, X: Tensor, memory: Tensor, view: View) -> Tensor:
    """The output of the sublayer, from tokens and what they look at."""
    return attention(X, *attention.keys_values(memory, view.angles), view)


def crossed(n: int, m: int) -> View:
    """Queries 0..n that may look at keys 0..m."""
    return View(torch.arange(n)[None], torch.arange(m)[None])


def square(n: int) -> View:
    """Tokens that may look at each other."""
    at = torch.arange(n)[None]
    return View(at, at, aligned=True)


def blind(view: View) -> View:
    """The view with nothing at all for the second sequence."""
    real = torch.ones(B, view.to.shape[1], dtype=torch.bool)
    real[1] = False
    return replace(view, real=real)


def padded(view: View) -> View:
    """The view with padding on the right."""
    m = view.to.shape[1]
    return replace(view, real=torch.arange(m) < torch.tensor([[m - 1], [m - 4]]))


def with_bias(view: View, h: int) -> View:
    """The view with a number for each head, query and key."""
    return replace(view, bias=some(1, h, view.at.shape[1], view.to.shape[1], seed=3))


DOCUMENTS = torch.tensor([[1, 1, 1, 2, 2, 3, 3], [1, 2, 2, 2, 2, 2, 3]])
VIEWS: dict[str, Callable[[], View]] = {
    "open": lambda: square(M),
    "triangle": lambda: replace(square(M), causal=True),
    "chunk": lambda: View(torch.arange(2, M)[None], torch.arange(M)[None], causal=True),
    "cross": lambda: crossed(N, M),
    "padded": lambda: padded(square(M)),
    "padded triangle": lambda: padded(replace(square(M), causal=True)),
    "window": lambda: replace(square(M), window=4),
    "narrow window": lambda: replace(square(M), window=2),
    "window of one": lambda: replace(square(M), window=1, causal=True),
    "narrow causal window": lambda: replace(square(M), window=3, causal=True),
    "padded window": lambda: padded(replace(square(M), window=2)),  # padding far away sees nothing
    "documents": lambda: replace(square(M), causal=True, documents=(DOCUMENTS, DOCUMENTS)),
    "documents in a window": lambda: replace(square(M), window=2, documents=(DOCUMENTS, DOCUMENTS)),
    "blind": lambda: blind(square(M)),
    "blind triangle": lambda: blind(replace(square(M), causal=True)),
    "blind window": lambda: blind(replace(square(M), window=2)),
}
