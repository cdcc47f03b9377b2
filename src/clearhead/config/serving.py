"""The settings of `clearhead serve`: how many texts at a time, how many may wait, and for how long."""

from pydantic import Field

from clearhead.config.settings import Settings


class ServingConfig(Settings):
    """How a server shares its model among many."""

    slots: int = Field(8, ge=1, le=256, description="texts generated side by side by each model")
    queue: int = Field(
        64,
        ge=0,
        le=10_000,
        description="texts that may wait for a slot of each model; more are refused with 429",
    )
    max_tokens: int = Field(
        4096,
        ge=1,
        le=1 << 20,
        description="maximum number of tokens that a request may ask for, of each text",
    )
    seconds: float = Field(
        300.0,
        gt=0,
        le=86_400,
        description="seconds after which a text ends, and a request that still waits fails",
    )
    body_bytes: int = Field(
        2 << 20, ge=1 << 10, le=64 << 20, description="maximum size of a request, in bytes"
    )
    deterministic: bool = Field(
        False,
        description="answer a request with the same text, to the bit, whoever else is served; one text at a time is "
        "as fast, several are not computed together",
    )
