"""The settings of a convolutional model: filters that weigh neighbours by their relative position (N44).

A decoder is causal, dilated, gated and residual, as WaveNet (van den Oord et al., 2016); an encoder has filters of
several widths side by side, whose maximum over the text a classifier reads (Kim, 2014).
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from clearhead.config.model_base import MOST_POSITIONS, AnyModelConfig, Family, Pool
from clearhead.errors import ConfigError

Width = Annotated[int, Field(gt=0, le=1024)]


class ConvolutionalConfig(AnyModelConfig):
    """One convolutional model of the notes, as settings."""

    family: Family = Field("convolutional", description="what the blocks are made of")
    encoder_blocks: int = Field(1, ge=1, le=1024, description="blocks of filters of the encoder")
    decoder_blocks: int = Field(4, ge=1, le=1024, description="blocks of filters of the decoder")
    widths: tuple[Width, ...] | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="tokens under a filter; d is divided among several widths. If omitted, 3 in a decoder, "
        "and 3, 4 and 5 in an encoder",
    )
    dilation: int = Field(
        2,
        ge=1,
        le=1024,
        description="how many times further apart a filter's tokens are than in the block below, in a decoder",
    )
    pool: Pool = Field("max", description="which token vectors a classifier reads")

    @property
    def filter_widths(self) -> tuple[int, ...]:
        """Tokens under each filter of a block."""
        return self.widths or ((3,) if self.shape == "decoder" else (3, 4, 5))

    @property
    def dilations(self) -> list[int]:
        """How far apart the tokens under a filter are, in each block."""
        return (
            [self.dilation**i for i in range(self.decoder_blocks)]
            if self.shape == "decoder"
            else [1] * self.encoder_blocks
        )

    @property
    def reach(self) -> int:
        """How many tokens an output depends on."""
        return 1 + (max(self.filter_widths) - 1) * sum(self.dilations)

    @property
    def trait(self) -> str:
        """Its filters."""
        widths = " + ".join(map(str, self.filter_widths))
        return f"filters over {widths} tokens, {self.reach:,} in reach"

    def _checks(self) -> list[Callable[[], None]]:
        return [self._check_filters, *super()._checks()]

    def _check_filters(self) -> None:
        if self.shape == "encoder-decoder":
            raise ConfigError(
                "model.family = 'convolutional' has no shape = 'encoder-decoder': a filter sees neighbours, and the "
                "translation of a word is not among them.\nUse family = 'recurrent' or 'transformer' for a translator."
            )
        if len(self.filter_widths) > self.d:
            raise ConfigError(
                f"model.widths names {len(self.filter_widths)} widths, but there are only d = {self.d} filters.\n"
                "Use a larger d, or fewer widths."
            )
        if self.reach > MOST_POSITIONS:
            raise ConfigError(
                f"model.dilation = {self.dilation} with {self.decoder_blocks} blocks reaches more than "
                f"{MOST_POSITIONS:,} tokens.\nUse fewer blocks, or a smaller dilation."
            )
