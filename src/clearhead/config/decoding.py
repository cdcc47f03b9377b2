"""The `[decoding]` table of a recipe, and the options of the commands that use a model."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from clearhead.config.settings import Settings, listed
from clearhead.errors import ConfigError

TEMPERATURE_OF_GENERATE = 0.8
BEAM_OF_TRANSLATE = 5

LEAST_TEMPERATURE = 1e-30  # above 0; float32, in which logits are divided, represents little less
Id = Annotated[int, Field(ge=-(1 << 24), le=1 << 24)]  # `check_ids` has the model's own limits


class DecodingConfig(Settings):
    """How logits become text."""

    section: ClassVar[str] = "decoding"

    max_tokens: int = Field(256, gt=0, le=1 << 24, description="maximum number of tokens to generate")
    min_tokens: int = Field(
        0, ge=0, le=1 << 24, description="minimum number of tokens before the end token is allowed"
    )
    beam: int | None = Field(
        None,
        gt=0,
        le=256,
        description="hypotheses kept in beam search; if omitted, 5 for translate and 1 for generate",
    )
    n_best: int = Field(1, gt=0, le=256, description="how many hypotheses of the beam to return")
    length_penalty: float = Field(
        1.0,
        ge=-8,
        le=8,
        description="a hypothesis scores log P / length^penalty; above 0 favours long ones",
    )

    temperature: float | None = Field(
        None,
        ge=0,
        le=100,
        description="randomness; 0 takes the likeliest token; if omitted, 0.8 for generate and 0 for translate",
    )
    top_k: int | None = Field(
        None, gt=0, le=1 << 24, description="sample from the k likeliest tokens; all if omitted"
    )
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the likeliest tokens that together have this probability"
    )
    min_p: float | None = Field(
        None,
        ge=0,
        le=1,
        description="sample from tokens with at least this fraction of the likeliest token's probability",
    )
    typical: float | None = Field(
        None,
        gt=0,
        le=1,
        description="sample from the most typical tokens that together have this probability",
    )
    repetition_penalty: float = Field(
        1.0,
        ge=0.01,
        le=100,
        description="divides positive and multiplies negative logits of tokens already in the prompt or the text",
    )
    presence_penalty: float = Field(
        0.0, ge=-100, le=100, description="subtracted from the logits of tokens already generated"
    )
    frequency_penalty: float = Field(
        0.0,
        ge=-100,
        le=100,
        description="subtracted from a token's logit once per occurrence in the generated text",
    )
    logit_bias: dict[Id, Annotated[float, Field(ge=-1e9, le=1e9)]] = Field(
        default_factory=dict, description="numbers added to the logits of given ids"
    )
    banned: tuple[int, ...] = Field((), description="ids that are never generated")
    forced: tuple[int, ...] = Field((), description="ids that the generated text must start with")
    seed: int | None = Field(None, ge=0, lt=1 << 63, description="seed for sampling; random if omitted")

    stop: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        (), max_length=64, description="strings at which to stop; they are not part of the text"
    )
    seconds: float | None = Field(None, gt=0, description="seconds after which to stop; no limit if omitted")
    logprobs: int = Field(
        0, ge=0, le=1000, description="how many of the likeliest alternatives to report per token"
    )

    def check_ids(self, vocabulary: int) -> None:
        """Rejects ids outside a vocabulary of this size."""
        for key, ids in (("logit_bias", self.logit_bias), ("banned", self.banned), ("forced", self.forced)):
            for token in ids:
                if not 0 <= token < vocabulary:
                    raise ConfigError(
                        f"decoding.{key} names the id {token}, but the model has ids 0 to {vocabulary - 1}.\n"
                        "Use ids of this model's own tokenizer."
                    )

    @model_validator(mode="after")
    def _check(self) -> "DecodingConfig":
        if any(not text for text in self.stop):
            raise ConfigError(
                "decoding.stop contains an empty string, at which every text would stop.\nRemove it."
            )
        if self.temperature is not None and 0 < self.temperature < LEAST_TEMPERATURE:
            raise ConfigError(
                f"decoding.temperature = {self.temperature} is too small to divide by.\n"
                f"Use 0, which takes the likeliest token, or at least {LEAST_TEMPERATURE}."
            )
        if self.min_tokens > self.max_tokens:
            raise ConfigError(
                f"decoding.min_tokens = {self.min_tokens} is greater than max_tokens = {self.max_tokens}.\n"
                "Lower it."
            )
        self._check_search()
        return self

    def _check_search(self) -> None:
        searches = f"decoding.beam = {self.beam}"
        if self.beam is None:
            if self.n_best == 1:
                return
            searches = f"decoding.n_best = {self.n_best}"
        elif self.n_best > self.beam:
            raise ConfigError(
                f"decoding.n_best = {self.n_best} hypotheses cannot come from a beam of {self.beam}.\n"
                "Use a larger beam."
            )
        elif self.beam == 1:
            return
        if self.temperature:
            raise ConfigError(
                f"{searches} searches for the likeliest text, but temperature = {self.temperature} samples one "
                "at random.\nGive only one of them."
            )
        if self.logprobs:
            raise ConfigError(
                f"{searches} compares whole texts, so there are no alternatives to report for each "
                "token.\nUse beam = 1, or omit logprobs."
            )
