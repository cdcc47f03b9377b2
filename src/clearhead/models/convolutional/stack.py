"""Convolutional stacks: vectors (b, n, d) pass blocks of filters, each of which sees neighbours only (N44)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.config.model import ModelConfig
from clearhead.layers.convolution import Convolution, in_phase, latest
from clearhead.layers.ngrams import Ngrams
from clearhead.layers.positions import Learned
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
    """relu(f ∗ x): filters of several widths side by side, each centred on its token (Kim, 2014).

    The last `summed` numbers of x are not under the filters: they are summed over all tokens in phase.
    """

    sites = ("filters",)

    def __init__(self, d_in: int, d: int, widths: tuple[int, ...], summed: int = 0, period: int = 1) -> None:
        super().__init__()
        self.sizes, self.period = (d_in - summed, summed), period
        self.filters = Convolution(d_in - summed, d - summed, widths)

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """(b, n, d_in) -> (b, n, d)."""
        X, summed = X.split(self.sizes, -1)
        Y = F.relu(self.filters(X, counts))
        Y = torch.cat([Y, in_phase(summed, self.period, counts)], -1) if summed.shape[-1] else Y
        return site(self, "filters", Y)


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
    """Embeddings, with positions and runs of tokens if wanted, and blocks of filters."""

    def __init__(self, config: ConvolutionalConfig, tokens: nn.Embedding) -> None:
        super().__init__(config, "encoder", tokens)
        d_in = tokens.embedding_dim
        self.positions = (
            Learned(ModelConfig(positions="learned", context=config.context), d_in, causal=False)
            if config.positions == "learned"
            else None
        )
        c, has_runs = config, bool(config.ngrams or config.ngram_words)
        self.ngrams = (
            Ngrams(
                c.ngrams,
                c.ngram_rows,
                c.width_summed or d_in,
                c.token_dropout,
                c.ngram_words,
                c.word_breaks,
                c.ngram_repeats,
            )
            if has_runs
            else None
        )
        widths = [d_in, *(config.d for _ in config.dilations)]
        first = (c.width_summed, c.period or 1)
        self.blocks = nn.ModuleList(
            FilterBlock(d, c.d, c.filter_widths, *(() if i else first)) for i, d in enumerate(widths[:-1])
        )
        self.norm = nn.Identity()
        self.sites = (
            "embeddings.tokens",
            *(["embeddings.ngrams"] if self.ngrams is not None else []),
            *(["embeddings.positions"] if self.positions is not None else []),
            "embeddings.out",
        )

    def embed(self, tokens: Tensor) -> Tensor:
        """x_i = E t_i + P p_i, and the vectors of the runs that end there; vectors given for ids have no runs."""
        X = self.look_up(tokens)
        if self.ngrams is not None and not tokens.is_floating_point():
            runs = site(self, "embeddings.ngrams", self.ngrams(tokens).to(X.dtype))
            X = X + F.pad(
                runs, (X.shape[-1] - runs.shape[-1], 0)
            )  # those of a period are not under the filters
        if self.positions is not None:
            at = torch.arange(X.shape[1], device=X.device)[None]
            X = X + site(self, "embeddings.positions", self.positions.embed(at).to(X.dtype))
        return site(self, "embeddings.out", self.dropout(X))

    @property
    def parts_before(self) -> list[nn.Module]:
        """The parts with weights that come before the first block."""
        return [part for part in (self.tokens, self.ngrams, self.positions) if part is not None]

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """(b, n, token_d) -> (b, n, d); what leaves the last block is dropped by the head, after pooling."""
        for i, block in enumerate(self.blocks):
            X = block(self.dropout(X) if i else X, counts)
        return X

    def carried(self, block: nn.Module) -> tuple[str, ...]:
        """What the filters find."""
        return ("filters",)
