"""The block that repeats: self-attention, cross-attention where there is a source, feed-forward.

Each is added to the stream. The shape (b, n, d) is kept, so that blocks can be stacked.
"""

from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.attention import Attention, Dimensions
from clearhead.layers.cache import Chunk
from clearhead.layers.feedforward import FEEDFORWARDS
from clearhead.layers.masks import View
from clearhead.layers.residual import PLACEMENTS, Residual
from clearhead.layers.similarity import SIMILARITIES
from clearhead.layers.sites import site


def make_attention(config: ModelConfig, name: str, d: int, d_memory: int) -> Attention:
    """The attention sublayer of this name, such as 'decoder.2.cross'."""
    kind = SIMILARITIES[config.cross_similarity if name.endswith("cross") else config.similarity]
    d_k = config.width_k if kind.uses_content else 0
    size = Dimensions(d, d_memory, config.h, config.groups, d_k, config.width_v, config.kept_heads.get(name))
    return Attention(
        size,
        kind(len(size.heads), d_k, config.scale),
        config.projections,
        config.attention_bias,
        config.norm_epsilon if config.query_key_norm else None,
        config.attention_dropout,
    )


def make_residual(config: ModelConfig, d: int, norm: str) -> Residual:
    """The connection around one sublayer."""
    return PLACEMENTS[config.norm_placement](d, norm, config.norm_epsilon, config.norm_bias, config.dropout)


class Block(nn.Module):
    """One block of the stack `name`; with `d_memory` it also looks at an encoder's output of that width."""

    def __init__(
        self, config: ModelConfig, name: str, d: int, norm: str, d_memory: int | None = None
    ) -> None:
        super().__init__()
        self.self = make_attention(config, f"{name}.self", d, d)
        self.add_self = make_residual(config, d, norm)
        self.cross = None if d_memory is None else make_attention(config, f"{name}.cross", d, d_memory)
        self.add_cross = None if d_memory is None else make_residual(config, d, norm)
        kind, activation = FEEDFORWARDS[config.feedforward]
        self.ffn = kind(d, config.units(f"{name}.ffn"), activation, config.feedforward_bias)
        self.add_ffn = make_residual(config, d, norm)
        self.sites = (
            ("residual.0", "residual.1") if d_memory is None else ("residual.0", "residual.1", "residual.2")
        )

    def forward(
        self,
        X: Tensor,
        view: View,
        real: Tensor | None = None,
        past: tuple[Chunk, int] | None = None,
        memory: tuple[Tensor, Tensor, View] | None = None,
    ) -> Tensor:
        """(b, n, d) -> (b, n, d); `past` is a cache and our place in it, `memory` the source's K and V."""

        def look_at_self(Y: Tensor) -> Tensor:
            K, V = self.self.keys_values(Y, view.angles)
            if past is not None:
                K, V = past[0].extend(past[1], K, V)
            return self.self(Y, K, V, view)

        X = site(self, "residual.0", self.add_self(X, look_at_self, real))
        if self.cross is not None and self.add_cross is not None and memory is not None:
            K, V, view_of_source = memory
            cross = self.cross
            X = site(self, "residual.1", self.add_cross(X, lambda Y: cross(Y, K, V, view_of_source), real))
        return site(self, self.sites[-1], self.add_ffn(X, self.ffn, real))
