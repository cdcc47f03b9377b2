"""Convolutional stacks: vectors (b, n, d) pass blocks of filters, each of which sees neighbours only (N44)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.layers.convolution import Convolution, latest
from clearhead.layers.sites import site
from clearhead.models.stack import Stack


class GatedBlock(nn.Module):
    """x + W (tanh(f ∗ x) σ(g ∗ x)): a causal filter, a gate for it, and the stream (van den Oord et al., 2016)."""

    sites = ("signal", "gate", "out", "residual.0")

    def __init__(self, d: int, widths: tuple[int, ...], dilation: int) -> None:
        super().__init__()
        self.signal = Convolution(d, d, widths, dilation, causal=True)
        self.gate = Convolution(d, d, widths, dilation, causal=True)
        self.W_o = nn.Linear(d, d)

    def forward(self, X: Tensor, past: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d); `past` are the vectors before."""
        signal = site(self, "signal", torch.tanh(self.signal(X, past=past)))
        gate = site(self, "gate", torch.sigmoid(self.gate(X, past=past)))
        return site(self, "residual.0", X + site(self, "out", self.W_o(signal * gate)))


class FilterBlock(nn.Module):
    """relu(f ∗ x): filters of several widths side by side, each centred on its token (Kim, 2014)."""

    sites = ("filters",)

    def __init__(self, d: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.filters = Convolution(d, d, widths)

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        return site(self, "filters", F.relu(self.filters(X, counts)))


class CausalStack(Stack):
    """Embeddings, and gated blocks whose filters reach further from block to block."""

    def __init__(self, config: ConvolutionalConfig, tokens: nn.Embedding) -> None:
        super().__init__(config, "decoder", tokens)
        self.blocks = nn.ModuleList(
            GatedBlock(config.d, config.filter_widths, apart) for apart in config.dilations
        )
        self.norm = nn.Identity()

    def forward(
        self, X: Tensor, pasts: list[Tensor] | None = None, counts: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """What leaves the last block (b, n, d), and the last vectors before each once `counts` tokens are read."""
        after = []
        for i, block in enumerate(self.blocks):
            past = None if pasts is None else pasts[i]
            after += [] if past is None or counts is None else [latest(past, X, counts)]
            X = self.dropout(block(X, past))
        return X, after

    def empty(self, batch: int) -> list[Tensor]:
        """The vectors before the first token: nothing."""
        E, gated = self.tokens.weight, [block for block in self.blocks if isinstance(block, GatedBlock)]
        return [E.new_zeros(batch, block.signal.reach, E.shape[1]) for block in gated]

    def carried(self, block: nn.Module) -> tuple[str, ...]:
        """The stream."""
        return ("residual.0",)


class FilterStack(Stack):
    """Embeddings, and blocks of filters."""

    def __init__(self, config: ConvolutionalConfig, tokens: nn.Embedding) -> None:
        super().__init__(config, "encoder", tokens)
        self.blocks = nn.ModuleList(FilterBlock(config.d, config.filter_widths) for _ in config.dilations)
        self.norm = nn.Identity()

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        for block in self.blocks:
            X = self.dropout(block(X, counts))
        return X

    def carried(self, block: nn.Module) -> tuple[str, ...]:
        """What the filters find."""
        return ("filters",)
