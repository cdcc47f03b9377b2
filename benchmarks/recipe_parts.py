"""Parts that others report to help small models and that are no settings here, put into a model for an experiment.

Each is a context in which models are built and trained with the part, on one thread: blocks keep what all of them read.

- embedding skips: before each block x <- a x + b x_0, with learned a = 1 and b = 0 at first, x_0 the embeddings;
- value embeddings: in each block V + W_e t, with a table W_e of its own, zero at first;
- cautious decay: Muon lets a weight decay only where its step also makes it smaller (Liang et al., 2024).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from clearhead.layers.attention import Attention, split
from clearhead.layers.blocks import Block
from clearhead.models.transformer.stack import TransformerStack
from clearhead.training.loop.optimizers import Muon, orthogonal


@contextmanager
def embedding_skips() -> Iterator[None]:
    """Two learned numbers for each block."""
    make, embed, forward = TransformerStack.__init__, TransformerStack.embed_at, Block.forward

    def make_with_skips(self: Any, *args: Any, **settings: Any) -> None:
        make(self, *args, **settings)
        for block in self.blocks:
            block.skip = nn.Parameter(torch.tensor([1.0, 0.0]))

    def embed_and_keep(self: Any, *args: Any) -> Tensor:
        X = embed(self, *args)
        for block in self.blocks:
            object.__setattr__(block, "first", X)
        return X

    def forward_with_skip(self: Any, X: Tensor, *args: Any) -> Tensor:
        a, b = self.skip
        return forward(self, a * X + b * self.first, *args)

    with (
        patch.object(TransformerStack, "__init__", make_with_skips),
        patch.object(TransformerStack, "embed_at", embed_and_keep),
        patch.object(Block, "forward", forward_with_skip),
    ):
        yield


@contextmanager
def value_embeddings() -> Iterator[None]:
    """A table of values for each block."""
    make, embed, values = TransformerStack.__init__, TransformerStack.embed_at, Attention.keys_values

    def make_with_tables(self: Any, *args: Any, **settings: Any) -> None:
        make(self, *args, **settings)
        wide = [block.self.W_v.out_features for block in self.blocks]
        # Outside the blocks, as matrices inside are Muon's.
        self.values = nn.ModuleList(nn.Embedding(self.tokens.num_embeddings, d) for d in wide)
        for table in self.values:
            nn.init.zeros_(table.weight)

    def embed_and_look_up(self: Any, tokens: Tensor, *args: Any) -> Tensor:
        for block, table in zip(self.blocks, self.values, strict=True):
            object.__setattr__(block.self, "added", table(tokens))
        return embed(self, tokens, *args)

    def values_with_table(self: Any, *args: Any) -> tuple[Tensor, Tensor]:
        K, V = values(self, *args)
        return K, V + split(self.added, self.g, self.size.d_v)

    with (
        patch.object(TransformerStack, "__init__", make_with_tables),
        patch.object(TransformerStack, "embed_at", embed_and_look_up),
        patch.object(Attention, "keys_values", values_with_table),
    ):
        yield


@contextmanager
def cautious_decay() -> Iterator[None]:
    """Decay where the step has the sign of the weight."""

    def change(self: Muon, jobs: Any) -> None:
        with torch.no_grad():
            for group, weights in jobs:
                M = torch.stack([self.momentum_of(weight, group["momentum"]) for weight in weights])
                rows, columns = weights[0].shape
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                for weight, step in zip(weights, orthogonal(M, self.dtype), strict=True):
                    agrees = (step * weight > 0).to(weight.dtype)
                    weight.sub_(group["lr"] * group["weight_decay"] * agrees * weight)
                    weight.add_(step, alpha=-rate)

    with patch.object(Muon, "change", change):
        yield
