"""Attention: token vectors X (b, n, d) look at keys and values made from a memory, and leave as (b, n, d).

The plain formula is `plain`; `fused` is the same in one kernel that never stores all scores. Which one runs is
decided in one place, `Attention.forward`: the fused one whenever the similarity is a dot product of something,
no capture wants the scores or the weights, and there are enough of them.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.layers.masks import Angles, View, lazily, masked_softmax
from clearhead.layers.norms import RMSNorm
from clearhead.layers.positions import rotate
from clearhead.layers.similarity import Similarity
from clearhead.layers.sites import is_watched, rows_at_once, site

SHORT = 32 * 32  # scores of a text for which the fused kernel's set-up costs more than it saves, on a CPU


@dataclass(frozen=True)
class Dimensions:
    """The sizes of one attention sublayer."""

    d: int  # width of the tokens that look
    d_memory: int  # width of the tokens looked at
    h: int  # heads
    g: int  # heads of keys and values; equal groups of heads share one
    d_k: int  # width of a head's queries and keys; 0 where the similarity ignores them
    d_v: int  # width of a head's values
    kept: tuple[int, ...] | None = None  # the heads that pruning left, by number, even none; all if omitted

    @lazily
    def heads(self) -> tuple[int, ...]:
        """The numbers of the heads that are kept."""
        return tuple(range(self.h)) if self.kept is None else self.kept

    @lazily
    def key_heads(self) -> tuple[int, ...]:
        """The numbers of the heads of keys and values that some kept head reads."""
        return tuple(sorted({head * self.g // self.h for head in self.heads}))

    @lazily
    def reads(self) -> list[int]:
        """For each kept head, which of `key_heads` it reads."""
        return [self.key_heads.index(head * self.g // self.h) for head in self.heads]


def split(X: Tensor, h: int, d_k: int = 0) -> Tensor:
    """(b, n, h · d_k) -> (b, h, n, d_k); d_k is only asked for if there are no heads."""
    return X.unflatten(-1, (h, X.shape[-1] // h if h else d_k)).transpose(1, 2)


def join(X: Tensor) -> Tensor:
    """(b, h, n, d_v) -> (b, n, h · d_v)."""
    return X.transpose(1, 2).flatten(2)


class Nothing(nn.Module):
    """The projection to no numbers at all, for a similarity that ignores queries and keys."""

    def forward(self, X: Tensor) -> Tensor:
        """(b, n, d) -> (b, n, 0)."""
        return X[..., :0]


class Constant(nn.Module):
    """The W_o of no heads: its bias alone, if it has one."""

    def __init__(self, d: int, bias: bool) -> None:
        super().__init__()
        self.d, self.bias = d, nn.Parameter(torch.zeros(d)) if bias else None

    def forward(self, X: Tensor) -> Tensor:
        """(b, n, 0) -> (b, n, d)."""
        Y = F.pad(X, (0, self.d))  # which gives the norm before it a gradient of zero, as several ranks need
        return Y if self.bias is None else Y + self.bias


class Attention(nn.Module):
    """softmax(sim(Q, K)) V for each head, joined by W_o; Q from X, K and V from a memory of any width."""

    sites = ("q", "k", "v", "scores", "weights", "heads", "out")

    def __init__(
        self,
        size: Dimensions,
        similarity: Similarity,
        projections: str = "linear",
        bias: str = "",
        norm_epsilon: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.size, self.similarity, self.dropout = size, similarity, dropout
        self.h, self.g = len(size.heads), len(size.key_heads)

        def matrix(letter: str, wide: int, to: int) -> nn.Module:
            if to == 0:
                return Nothing()
            if wide == 0:
                return Constant(to, letter in bias)
            return nn.Identity() if projections == "none" else nn.Linear(wide, to, letter in bias)

        self.W_q = matrix("q", size.d, self.h * size.d_k)
        self.W_k = matrix("k", size.d_memory, self.g * size.d_k)
        self.W_v = matrix("v", size.d_memory, self.g * size.d_v)
        self.W_o = matrix("o", self.h * size.d_v, size.d)
        self.activation = nn.ReLU() if projections == "relu" else nn.Identity()
        self.norm_q = nn.Identity() if norm_epsilon is None else RMSNorm(size.d_k, norm_epsilon)
        self.norm_k = nn.Identity() if norm_epsilon is None else RMSNorm(size.d_k, norm_epsilon)

    def queries(self, X: Tensor, angles: Angles | None = None) -> Tensor:
        """Q = X W_q, turned to its positions: (b, h, n, d_k)."""
        Q = self.norm_q(split(self.activation(self.W_q(X)), self.h, self.size.d_k))
        return site(self, "q", rotate(Q, angles))

    def keys_values(self, memory: Tensor, angles: Angles | None = None) -> tuple[Tensor, Tensor]:
        """K = X W_k, turned to its positions, and V = X W_v: (b, g, m, d_k) and (b, g, m, d_v)."""
        K = self.norm_k(split(self.activation(self.W_k(memory)), self.g, self.size.d_k))
        V = split(self.activation(self.W_v(memory)), self.g, self.size.d_v)
        return site(self, "k", rotate(K, angles)), site(self, "v", V)

    def forward(self, X: Tensor, K: Tensor, V: Tensor, view: View) -> Tensor:
        """A V for each head, joined by W_o: (b, n, d)."""
        Q = self.queries(X, view.angles)  # (b, h, n, d_k)
        can_fuse = self.similarity.is_dot and not is_watched(self, "scores", "weights")
        is_short = not self.h or (Q.device.type == "cpu" and Q.shape[2] * K.shape[2] <= SHORT)
        attend = fused if can_fuse and not is_short else plain
        H = site(self, "heads", attend(self, Q, K, V, view))  # (b, h, n, d_v)
        return site(self, "out", self.W_o(join(H)))

    def spread(self, K: Tensor) -> Tensor:
        """Gives every head the keys or values it reads: (b, g, m, d_k) -> (b, h, m, d_k)."""
        return K if self.h == self.g else K[:, self.size.reads]

    def select(self, bias: Tensor | None) -> Tensor | None:
        """The biases of the heads that are kept, from those of all heads: (b or 1, h, n, m)."""
        return bias if bias is None or self.size.kept is None else bias[:, list(self.size.heads)]


def plain(attention: Attention, Q: Tensor, K: Tensor, V: Tensor, view: View) -> Tensor:
    """softmax(sim(Q, K) + bias) V, with scores and weights in full: (b, h, n, d_v)."""
    if (rows := rows_at_once()) is not None and rows < Q.shape[2]:
        some = [slice(first, first + rows) for first in range(0, Q.shape[2], rows)]
        parts = [plain(attention, Q[:, :, i], K, V, view.part(i, slice(None))) for i in some]
        return torch.cat(parts, 2)
    S = attention.similarity(Q, attention.spread(K), view)  # (b, h, n, m)
    bias = attention.select(view.bias)
    S = site(attention, "scores", S if bias is None else S + bias.to(S.dtype))
    A = site(attention, "weights", masked_softmax(S, view.mask, view.is_triangle))
    A = F.dropout(A, attention.dropout, attention.training)
    return A @ attention.spread(V)


def fused(attention: Attention, Q: Tensor, K: Tensor, V: Tensor, view: View) -> Tensor:
    """The same in one kernel that stores one tile of the scores at a time: (b, h, n, d_v)."""
    if view.is_band:  # n · window scores instead of n · n
        parts = [fused(attention, Q[:, :, i], K[:, :, j], V[:, :, j], band) for i, j, band in view.bands()]
        return torch.cat(parts, 2)
    if attention.size.kept is not None:  # pruning leaves groups of unequal size
        K, V = attention.spread(K), attention.spread(V)
    d_v = V.shape[-1]
    Q, K, V = same_width(*attention.similarity.as_dot(Q, K), V)
    H = F.scaled_dot_product_attention(
        Q,
        K,
        V,
        attn_mask=explicit_mask(attention, view, Q.dtype),
        is_causal=view.is_triangle and view.bias is None,
        scale=attention.similarity.scale,
        dropout_p=attention.dropout if attention.training else 0.0,
        enable_gqa=Q.shape[1] != K.shape[1],
    )
    return H[..., :d_v]


def explicit_mask(attention: Attention, view: View, dtype: torch.dtype) -> Tensor | None:
    """The mask as a tensor, only where the kernel cannot derive it."""
    if view.bias is not None:
        return attention.select(view.biased_mask.to(dtype))
    return None if view.is_open or view.is_triangle else view.mask


def same_width(Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros to the right of the narrower: they change no product, and the kernel wants d_k = d_v."""
    gap = Q.shape[-1] - V.shape[-1]
    if gap > 0:
        V = F.pad(V, (0, gap))
    elif gap < 0:
        Q, K = F.pad(Q, (0, -gap)), F.pad(K, (0, -gap))
    return Q, K, V
