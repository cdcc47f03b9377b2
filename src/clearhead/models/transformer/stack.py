"""A stack: ids (b, n), or vectors in their place, become vectors (b, n, d) through embeddings and blocks."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.blocks import Block
from clearhead.layers.cache import Cache, Chunk
from clearhead.layers.convolution import Convolution
from clearhead.layers.masks import View, each_document
from clearhead.layers.memory import Memory
from clearhead.layers.norms import NORMS, Norm
from clearhead.layers.positions import POSITIONS
from clearhead.layers.sites import site
from clearhead.models.stack import Stack, make_table


class TransformerStack(Stack):
    """Embeddings, blocks of attention, and a norm at the end."""

    norm: Norm

    def __init__(
        self, config: ModelConfig, name: str, tokens: nn.Embedding, blocks: int, d_memory: int | None = None
    ) -> None:
        super().__init__(config, name, tokens)
        d = tokens.embedding_dim
        self.window = config.window
        self.sublayers = ("self", "ffn") if d_memory is None else ("self", "cross", "ffn")
        kind = config.norm if self.causal else config.norm_encoder

        def norm(is_wanted: bool) -> Norm:
            return NORMS[kind if is_wanted else "none"](d, config.norm_epsilon, config.norm_bias)

        self.types = make_table(config.token_types, d) if config.token_types else None
        self.positions = POSITIONS[config.positions](config, d, self.causal)
        self.embedding_norm = norm(config.embedding_norm)
        self.convolution = (
            None
            if config.convolution is None
            else Convolution(d, d, (config.convolution,), causal=self.causal)
        )
        self.blocks = nn.ModuleList(Block(config, f"{name}.{i}", d, kind, d_memory) for i in range(blocks))
        self.norm = norm(config.has_final_norm)
        self.sites = (
            "embeddings.tokens",
            *(["embeddings.positions"] if self.positions.is_added else []),
            *(["embeddings.convolution"] if self.convolution is not None else []),
            "embeddings.out",
            "norm",
        )

    def embed_at(
        self, tokens: Tensor, view: View, real: Tensor | None, types: Tensor | None, chunk: Chunk | None
    ) -> Tensor:
        """x_i = E t_i + P p_i, and the vector of the token's type where there are types: (b, n, d)."""
        X = self.look_up(tokens)
        P = self.positions.embed(view.at)
        if P is not None:
            X = X + site(self, "embeddings.positions", P.to(X.dtype))
        if self.types is not None:
            X = X + self.types(torch.zeros_like(view.at) if types is None else types)
        X = self.embedding_norm(X, real)
        return site(self, "embeddings.out", self.dropout(self.filter(X, view, real, chunk)))

    def filter(self, X: Tensor, view: View, real: Tensor | None, chunk: Chunk | None) -> Tensor:
        """x_i + gelu(Σ_j W_j x_{i+j}), where there is a convolution: (b, n, d)."""
        convolution = self.convolution
        if convolution is None:
            return X
        documents = None if view.documents is None else view.documents[0]
        counts = None if real is None else real.sum(1)
        past = None if chunk is None else chunk.pass_by(X)
        Y = each_document(X, documents, lambda Z: convolution(Z, counts, past))
        return X + site(self, "embeddings.convolution", F.gelu(Y))

    @property
    def parts_before(self) -> list[nn.Module]:
        """The parts with weights that come before the first block."""
        parts = (self.tokens, self.types, self.positions, self.embedding_norm, self.convolution)
        return [part for part in parts if part is not None]

    def carried(self, block: nn.Module) -> tuple[str, ...]:
        """The stream after each sublayer."""
        assert isinstance(block, Block)
        return block.sites

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
        X = self.embed_at(tokens, view, real, types, chunk)
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
        E, convolution = self.tokens.weight.detach(), self.convolution
        past = None if convolution is None else E.new_zeros(batch, convolution.reach, E.shape[1])
        return Cache(sizes, batch, capacity, self.window, E, past)
