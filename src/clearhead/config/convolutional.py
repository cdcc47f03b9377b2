"""The settings of a convolutional model: filters that weigh neighbours by their relative position (N44).

A decoder is causal, dilated, gated and residual, as WaveNet (van den Oord et al., 2016); an encoder has filters of
several widths side by side, whose maximum over the text a classifier reads (Kim, 2014). Without blocks, and with
vectors for runs of tokens, it is a bag of n-grams (Joulin et al., 2016).
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from clearhead.config.model_base import MOST_POSITIONS, MOST_TOKENS, WIDEST, AnyModelConfig, Family, Pool
from clearhead.config.settings import listed
from clearhead.errors import ConfigError

FilterPositions = Literal["none", "learned"]
Repeats = Literal["all", "log"]
Width = Annotated[int, Field(gt=0, le=1024)]


class ConvolutionalConfig(AnyModelConfig):
    """One convolutional model of the notes, as settings."""

    family: Family = Field("convolutional", description="what the blocks are made of")
    encoder_blocks: int = Field(
        1,
        ge=0,
        le=1024,
        description="blocks of filters of the encoder; with none, a classifier reads the tokens alone",
    )
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
    token_d: int | None = Field(
        None, gt=0, le=WIDEST, description="width of the token vectors under the first filters; d if omitted"
    )
    positions: FilterPositions = Field(
        "none",
        description="how an encoder knows where a token is: not at all, or by a learned vector per position",
    )
    period: int | None = Field(
        None,
        gt=0,
        le=1024,
        description="half of each token vector, and all of a run's, is not under the first filters but summed over the "
        "tokens that are this many apart, in an encoder: 3 for codons. No half is if omitted",
    )
    ngrams: Annotated[tuple[Width, ...], BeforeValidator(listed)] = Field(
        (),
        max_length=64,
        description="lengths of the runs of tokens that have vectors of their own, in an encoder",
    )
    ngram_words: int = Field(
        0,
        ge=0,
        le=64,
        description="up to how many whole words have vectors of their own, if tokens are letters",
    )
    word_breaks: tuple[int, ...] = Field(
        (), description="the tokens between words; the tokenizer decides them"
    )
    ngram_repeats: Repeats = Field(
        "all",
        description="how often a run counts that a text has c times: c times, or 1 + ln c times (sublinear TF-IDF)",
    )
    ngram_rows: int = Field(
        1 << 16, gt=0, le=MOST_TOKENS, description="rows of the table into which runs of tokens are hashed"
    )
    pool: Pool = Field("max", description="which token vectors a classifier reads")

    @property
    def width_tokens(self) -> int:
        """Width of the token vectors."""
        return self.token_d or self.d

    @property
    def width_summed(self) -> int:
        """How many numbers of each token vector are summed over the tokens in phase, instead of under the filters."""
        return self.width_tokens // 2 if self.period is not None else 0

    @property
    def has_position_table(self) -> bool:
        """Whether nothing longer than the context can be read."""
        return self.positions == "learned"

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
        """Its filters, or its n-grams."""
        if not self.dilations:
            tokens = f"runs of {' + '.join(map(str, self.ngrams))} tokens" if self.ngrams else "no filters"
            return tokens + (f", up to {self.ngram_words} words" if self.ngram_words else "")
        widths = " + ".join(map(str, self.filter_widths))
        return f"filters over {widths} tokens, {self.reach:,} in reach"

    def _checks(self) -> list[Callable[[], None]]:
        return [self._check_tokens, self._check_filters, *super()._checks()]

    def _check_tokens(self) -> None:
        names = [
            key
            for key, unused in (
                ("token_d", None),
                ("positions", "none"),
                ("period", None),
                ("ngrams", ()),
                ("ngram_words", 0),
            )
            if getattr(self, key) != unused
        ]
        if names and self.shape == "decoder":
            raise ConfigError(
                f"model.{names[0]} = {getattr(self, names[0])!r} is for a convolutional encoder.\n"
                "Omit it, or use task = 'classify'."
            )
        if self.positions == "learned" and self.context is None:
            raise ConfigError(
                "model.positions = 'learned' needs one vector per position.\nSet model.context."
            )
        if self.period is not None and (
            self.width_tokens < 2 or self.width_summed >= self.d or not self.dilations
        ):
            raise ConfigError(
                f"model.period = {self.period} sums half of each token vector of width {self.width_tokens}, and "
                f"filters make the rest of d = {self.d}.\nUse a model.token_d of at least 2 and less than 2 d, and "
                "encoder_blocks = 1, or omit the period."
            )
        if self.width_tokens != self.d and not self.dilations:
            raise ConfigError(
                f"model.token_d = {self.token_d} with no block that makes d = {self.d} of it.\n"
                "Omit token_d, or use encoder_blocks = 1."
            )

    def _check_filters(self) -> None:
        if self.shape == "encoder-decoder":
            raise ConfigError(
                "model.family = 'convolutional' has no shape = 'encoder-decoder': a filter sees neighbours, and the "
                "translation of a word is not among them.\nUse family = 'recurrent' or 'transformer' for a translator."
            )
        filters = self.d - self.width_summed
        if len(self.filter_widths) > filters:
            raise ConfigError(
                f"model.widths names {len(self.filter_widths)} widths, but there are only {filters} filters.\n"
                "Use a larger d, or fewer widths."
            )
        if self.reach > MOST_POSITIONS:
            raise ConfigError(
                f"model.dilation = {self.dilation} with {self.decoder_blocks} blocks reaches more than "
                f"{MOST_POSITIONS:,} tokens.\nUse fewer blocks, or a smaller dilation."
            )
