"""What the stacks of every family have in common: ids (b, n) enter, vectors (b, n, d) leave.

Whoever trains or shows a model asks its stacks for their blocks, and for the sites between them.
"""

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.config.model_base import AnyModelConfig
from clearhead.layers.dropout import Dropout
from clearhead.layers.sites import site


def make_table(rows: int, d: int) -> nn.Embedding:
    """A table of vectors, all zero until `initialise` or a file fills it.

    PyTorch's own initial values are never used, and drawing them for a model on the meta device would cost 2 s of
    imports at every load.
    """
    return nn.Embedding.from_pretrained(torch.zeros(rows, d), freeze=False)


class Stack(nn.Module):
    """Embeddings, blocks, and a norm at the end, if any; `name` is 'encoder' or 'decoder'."""

    sites: tuple[str, ...] = ("embeddings.tokens", "embeddings.out")
    window: int | None = None
    sublayers: tuple[str, ...] = ()  # what each block adds to a stream, if there is one
    blocks: nn.ModuleList
    norm: nn.Module  # at the end; the identity if there is none

    def __init__(self, config: AnyModelConfig, name: str, tokens: nn.Embedding) -> None:
        super().__init__()
        self.causal, self.scale = name == "decoder", config.embedding_scale
        self.tokens = tokens
        self.dropout, self.token_dropout = Dropout(config.dropout), Dropout(config.token_dropout)

    def look_up(self, tokens: Tensor) -> Tensor:
        """E t_i, times the scale; vectors in the place of ids are scaled too: (b, n, d)."""
        E = self.tokens
        X = tokens.to(E.weight.dtype) if tokens.is_floating_point() else E(tokens)
        if self.training and self.token_dropout.p:  # all numbers of a token together
            X = X * self.token_dropout(torch.ones_like(X[..., :1]))
        return site(self, "embeddings.tokens", X * self.scale if self.scale != 1 else X)

    def embed(self, tokens: Tensor) -> Tensor:
        """What enters the first block: (b, n, d)."""
        return site(self, "embeddings.out", self.dropout(self.look_up(tokens)))

    @property
    def parts_before(self) -> list[nn.Module]:
        """The parts with weights that come before the first block."""
        return [self.tokens]

    @property
    def stream(self) -> list[str]:
        """The sites, without the stack's name, of the vectors that pass from block to block."""
        return [
            "embeddings.out",
            *(f"{i}.{key}" for i, block in enumerate(self.blocks) for key in self.carried(block)),
        ]

    def carried(self, block: nn.Module) -> tuple[str, ...]:
        """The sites of a block whose vectors the next one reads, or adds to."""
        raise NotImplementedError

    @property
    def facts(self) -> dict[str, Any]:
        """What a drawing of the stack says."""
        return {
            "blocks": len(self.blocks),
            "d": self.tokens.embedding_dim,
            "causal": self.causal,
            "window": self.window,
            "sublayers": list(self.sublayers),
            "scale": self.scale,
        }
