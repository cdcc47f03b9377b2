"""Heads: what a model makes of the vectors X (b, n, d) at the top of a stack."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import InputError
from clearhead.layers.dropout import Dropout
from clearhead.layers.masks import real_tokens
from clearhead.layers.sites import site

# Of vectors (…, d) with a table (vocabulary, d), and a bias.
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]


class LanguageHead(nn.Module):
    """Logits over the vocabulary: z = E x for a tied head, W x for an own one."""

    def __init__(self, config: AnyModelConfig, table: nn.Embedding) -> None:
        super().__init__()
        self.scale, self.soft_cap = config.head_scale, config.soft_cap
        is_tied = config.tied and table.embedding_dim == config.width_top
        self.table = table if is_tied else nn.Linear(config.width_top, config.vocabulary, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary)) if config.head_bias else None
        self.product: Product = F.linear  # another one if only some rows of the table are trained

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, vocabulary)."""
        Z = self.product(X * self.scale if self.scale != 1 else X, self.table.weight, self.bias)
        return Z if self.soft_cap is None else self.soft_cap * torch.tanh(Z / self.soft_cap)


def pool_first(X: Tensor, real: Tensor) -> Tensor:
    """The first token's vector: (b, d)."""
    return X[:, 0]


def pool_mean(X: Tensor, real: Tensor) -> Tensor:
    """The mean of the real tokens' vectors: (b, d)."""
    weight = real.to(X.dtype)[..., None]
    return (X * weight).sum(1) / weight.sum(1)


def pool_root(X: Tensor, real: Tensor) -> Tensor:
    """The sum of the real tokens' vectors over the root of their number, so that long texts say more: (b, d)."""
    weight = real.to(X.dtype)[..., None]
    return (X * weight).sum(1) / weight.sum(1).sqrt()


def pool_last(X: Tensor, real: Tensor) -> Tensor:
    """The last real token's vector: (b, d)."""
    return X[torch.arange(len(X), device=X.device), real.sum(1) - 1]


def pool_max(X: Tensor, real: Tensor) -> Tensor:
    """The largest value of each feature over the real tokens: (b, d)."""
    return X.masked_fill(~real[..., None], -torch.inf).amax(1)


POOLS = {"first": pool_first, "mean": pool_mean, "root": pool_root, "last": pool_last, "max": pool_max}
POOL_DENSE = {"none": None, "tanh": torch.tanh, "relu": F.relu, "gelu": F.gelu}


def pool(X: Tensor, counts: Tensor | None, kind: str) -> Tensor:
    """One vector for each sequence: (b, n, d) -> (b, d)."""
    real = real_tokens(counts, X.shape[1])
    return POOLS[kind](X, X.new_ones(X.shape[:2], dtype=torch.bool) if real is None else real)


class ClassifierHead(nn.Module):
    """Logits over the classes, from one vector for the whole sequence, or from that of each token."""

    sites = ("pooled",)

    def __init__(self, config: AnyModelConfig) -> None:
        super().__init__()
        assert config.classes is not None
        d = config.width_top
        self.pool, self.activation = config.pool, POOL_DENSE[config.pool_dense]
        self.is_pooled = config.labels != "each-word"
        self.dense = None if self.activation is None else nn.Linear(d, d)
        self.dropout = Dropout(config.dropout)
        self.out = nn.Linear(d, config.classes, bias=config.class_bias)

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, classes), or (b, n, classes) if each word has a label."""
        P = pool(X, counts, self.pool) if self.is_pooled else X
        if self.dense is not None and self.activation is not None:
            P = self.activation(self.dense(P))
        return self.out(self.dropout(site(self, "pooled", P)))


def choices(logits: Tensor, wanted: Tensor) -> Tensor:
    """The logits with a row for each thing that is wanted.

    Where several labels may fit, each is a choice of two by the logits 0 and z: P(it fits) = 1 / (1 + e^−z).
    """
    return torch.stack([torch.zeros_like(logits), logits], -1) if wanted.shape == logits.shape else logits


class NoHead(nn.Module):
    """The head of a model that returns vectors only."""

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """Raises: there are no logits."""
        raise InputError("This model has no head, so it has no logits.\nCall its vectors instead.")


def make_head(config: AnyModelConfig, table: nn.Embedding) -> nn.Module:
    """The head that the config names, on top of a stack whose tokens are in `table`."""
    if config.head == "language":
        return LanguageHead(config, table)
    return ClassifierHead(config) if config.head == "classifier" else NoHead()
