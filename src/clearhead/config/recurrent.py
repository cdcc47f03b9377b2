"""The settings of a recurrent model: what came before the transformer (N41 to N43, N45).

A state of width d is carried from token to token: s_i = f(s_{i−1}, x_i). Elman's RNN (1990), the LSTM of Hochreiter and
Schmidhuber (1997), the GRU of Cho et al. (2014); the attention of Bahdanau, Cho and Bengio (2014).
"""

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from clearhead.config.model_base import AnyModelConfig, Family
from clearhead.errors import ConfigError

Cell = Literal["rnn", "gru", "lstm"]
LookBack = Literal["additive", "none"]


class RecurrentConfig(AnyModelConfig):
    """One recurrent model of the notes, as settings."""

    deepest: ClassVar[int] = 2
    family: Family = Field("recurrent", description="what the blocks are made of")
    encoder_blocks: int = Field(1, ge=1, le=1024, description="recurrent blocks of the encoder")
    decoder_blocks: int = Field(1, ge=1, le=1024, description="recurrent blocks of the decoder")
    cell: Cell = Field("lstm", description="how a state and a token become the next state")
    bidirectional: bool = Field(
        True, description="the encoder also reads from right to left; half of d for each direction"
    )
    attention: LookBack = Field(
        "additive",
        description="how a translator's decoder looks back at the encoder's states; "
        "with none it starts from the last of them",
    )

    @property
    def trait(self) -> str:
        """Its cell, and what is around it."""
        reads_both_ways = self.bidirectional and self.shape != "decoder"
        looks_back = " with attention" if self.attentions() else ""
        return f"{'bidirectional ' * reads_both_ways}{self.cell.upper()}{looks_back}"

    def attentions(self) -> list[str]:
        """The attention of 2014, in the first block of a translator's decoder."""
        return ["decoder.0.cross"] if self.shape == "encoder-decoder" and self.attention != "none" else []

    def _checks(self) -> list[Callable[[], None]]:
        return [self._check_directions, *super()._checks()]

    def _check_directions(self) -> None:
        if self.bidirectional and self.shape != "decoder" and self.d % 2:
            raise ConfigError(
                f"model.bidirectional = true gives each direction half of model.d = {self.d}, which is odd.\n"
                f"Use an even d, such as {self.d + 1}, or bidirectional = false."
            )
