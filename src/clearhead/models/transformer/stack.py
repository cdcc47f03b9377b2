"""A stack: ids (b, n), or vectors in their place, become vectors (b, n, d) through embeddings and blocks."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.blocks import Block
from clearhead.layers.cache import Cache, Chunk, Memory
from clearhead.layers.dropout import Dropout
from clearhead.layers.masks import View
from clearhead.layers.norms import NORMS, Norm
from clearhead.layers.positions import POSITIONS
from clearhead.layers.sites import site


def make_table(rows: int, d: int) -> nn.Embedding:
    """A table of vectors, all zero until `initialise` or a file fills it.

    PyTorch's own initial values are never used, and drawing them for a model on the meta device would cost 2 s of
    imports at every load.
    """
    return nn.Embedding.from_pretrained(torch.zeros(rows, d), freeze=False)


class Stack(nn.Module):
    """Embeddings, blocks, and a norm at the end; `name` is 'encoder' or 'decoder'."""

    def __init__(
        self, config: ModelConfig, name: str, tokens: nn.Embedding, blocks: int, d_memory: int | None = None
    ) -> None:
        super().__init__()
        d = tokens.embedding_dim
        self.causal, self.window, self.scale = name == "decoder", config.window, config.embedding_scale
        kind = config.norm if self.causal else config.norm_encoder

        def norm(is_wanted: bool) -> Norm:
            return NORMS[kind if is_wanted else "none"](d, config.norm_epsilon, config.norm_bias)

        self.tokens = tokens
        self.types = make_table(config.token_types, d) if config.token_types else None
        self.positions = POSITIONS[config.positions](config, d, self.causal)
        self.embedding_norm = norm(config.embedding_norm)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, f"{name}.{i}", d, kind, d_memory) for i in range(blocks))
        self.norm = norm(config.has_final_norm)
        self.sites = (
            "embeddings.tokens",
            *(["embeddings.positions"] if self.positions.is_added else []),
            "embeddings.out",
            "norm",
        )

    def embed(self, tokens: Tensor, at: Tensor, real: Tensor | None, types: Tensor | None) -> Tensor:
        """x_i = E t_i + P p_i, and the vector of the token's type where there are types: (b, n, d)."""
        E = self.tokens
        X = tokens.to(E.weight.dtype) if tokens.is_floating_point() else E(tokens)
        X = site(self, "embeddings.tokens", X * self.scale if self.scale != 1 else X)
        P = self.positions.embed(at)
        if P is not None:
            X = X + site(self, "embeddings.positions", P.to(X.dtype))
        if self.types is not None:
            X = X + self.types(torch.zeros_like(at) if types is None else types)
        return site(self, "embeddings.out", self.dropout(self.embedding_norm(X, real)))

    def forward(
        self,
        tokens: Tensor,
        view: View,
        real: Tensor | None = None,
        types: Tensor | None = None,
        chunk: Chunk | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """The vectors after the last block and norm: (b, n, d)."""
        view = self.view(view)
        view_of_source = None if memory is None else memory.view(view.at)
        X = self.embed(tokens, view.at, real, types)
        for i, block in enumerate(self.blocks):
            past = None if chunk is None else (chunk, i)
            source = None if memory is None else (*memory.keys_values[i], view_of_source)
            X = block(X, view, real, past, source)
        return site(self, "norm", self.norm(X, real))

    def view(self, view: View) -> View:
        """What the tokens of this stack see: by its mask, its window and its positions."""
        angles, bias = self.positions.angles(view.at), self.positions.bias(view.at, view.to)
        return replace(view, causal=self.causal, window=self.window, angles=angles, bias=bias)

    def remember(self, X: Tensor, real: Tensor | None) -> Memory:
        """The keys and values that this stack's cross-attention makes from an encoder's output X."""
        crosses = [
            block.cross for block in self.blocks if isinstance(block, Block) and block.cross is not None
        ]
        return Memory([cross.keys_values(X) for cross in crosses], real, *X.shape[:2])

    def cache(self, batch: int, capacity: int) -> Cache:
        """An empty cache for this stack."""
        sizes = [block.self.size for block in self.blocks if isinstance(block, Block)]
        return Cache(sizes, batch, capacity, self.window, self.tokens.weight.detach())
