"""What the page may ask, checked at the border: JSON enters; frozen settings leave, or an error with the limit."""

from typing import ClassVar

from pydantic import Field

from clearhead.config.decoding import DecodingConfig
from clearhead.config.settings import Settings

MOST_CHARACTERS = 20_000  # of a text
MOST_TOKENS = 4096  # of a sequence: attention weights grow with its square, also those of one head
MOST_BYTES = 256 * 1024  # of a request


MOMENT = "the step after which the weights were kept; those of the model itself if omitted"


class PassRequest(Settings):
    """A text to look into, and what is changed in the model while it reads it."""

    section: ClassVar[str] = ""

    text: str = Field(max_length=MOST_CHARACTERS, description="the text; the source for a translator")
    target: str | None = Field(
        None, max_length=MOST_CHARACTERS, description="a translation; the model's own if omitted"
    )
    more: tuple[int, ...] = Field((), max_length=MOST_TOKENS, description="ids appended to the text")
    leave: tuple[int, ...] = Field((), max_length=MOST_TOKENS, description="places of tokens to remove")
    off: tuple[str, ...] = Field((), max_length=8, description="parts of the model to run without")
    mute: tuple[str, ...] = Field((), max_length=4096, description="heads to mute")
    moment: int | None = Field(None, description=MOMENT)


class GenerationRequest(Settings):
    """A prompt to continue, and how the next token is chosen."""

    section: ClassVar[str] = ""

    text: str = Field(max_length=MOST_CHARACTERS, description="the prompt; the source for a translator")
    max_tokens: int = Field(16, gt=0, le=128, description="most tokens to generate")
    temperature: float = Field(0.0, ge=0, le=100, description="randomness; 0 takes the likeliest")
    top_k: int | None = Field(None, gt=0, description="sample from the k likeliest tokens")
    top_p: float | None = Field(None, gt=0, le=1, description="sample from the likeliest with this share")
    seed: int = Field(1, ge=0, lt=1 << 53, description="seed for sampling")
    off: tuple[str, ...] = Field((), max_length=8, description="parts of the model to run without")
    mute: tuple[str, ...] = Field((), max_length=4096, description="heads to mute")
    moment: int | None = Field(None, description=MOMENT)

    @property
    def decoding(self) -> DecodingConfig:
        """The same rules as settings of decoding."""
        return DecodingConfig(**self.model_dump(exclude={"text", "off", "mute", "moment"}))
