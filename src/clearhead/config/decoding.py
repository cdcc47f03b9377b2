"""The settings of decoding: the `[decoding]` table of a recipe, and options of the verbs that use a model."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from clearhead.config.settings import Settings
from clearhead.errors import ConfigError

TEMPERATURE_OF_GENERATE = 0.8
BEAM_OF_TRANSLATE = 5

LEAST_TEMPERATURE = 1e-30  # above 0; float32, which logits are divided in, holds little less


class DecodingConfig(Settings):
    """How logits become text."""

    section: ClassVar[str] = "decoding"

    max_tokens: int = Field(256, gt=0, le=1 << 24, description="most tokens to write")
    min_tokens: int = Field(0, ge=0, description="fewest tokens to write before the end token may come")
    beam: int | None = Field(
        None,
        gt=0,
        le=256,
        description="hypotheses kept in a search; 5 for translate, 1 for generate when not given",
    )
    n_best: int = Field(1, gt=0, le=256, description="how many hypotheses of a beam to return")
    length_penalty: float = Field(
        1.0,
        ge=-8,
        le=8,
        description="a hypothesis scores log P / length^penalty; more than 0 favours long ones",
    )

    temperature: float | None = Field(
        None,
        ge=0,
        le=100,
        description="randomness; 0 takes the likeliest; 0.8 for generate, 0 for translate when not given",
    )
    top_k: int | None = Field(None, gt=0, description="draw from the k likeliest tokens; all when None")
    top_p: float | None = Field(
        None, gt=0, le=1, description="draw from the likeliest tokens that hold this share"
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="draw from tokens of at least this share of the likeliest"
    )
    typical: float | None = Field(
        None, gt=0, le=1, description="draw from the tokens of most usual surprise that hold this share"
    )
    repetition_penalty: float = Field(
        1.0,
        ge=0.01,
        le=100,
        description="divides positive and multiplies negative logits of tokens in the prompt or the text",
    )
    presence_penalty: float = Field(
        0.0, ge=-100, le=100, description="taken off logits of tokens already written"
    )
    frequency_penalty: float = Field(
        0.0, ge=-100, le=100, description="taken off logits once for each time a token was written"
    )
    logit_bias: dict[int, Annotated[float, Field(ge=-1e9, le=1e9)]] = Field(
        default_factory=dict, description="numbers added to the logits of some ids"
    )
    banned: tuple[int, ...] = Field((), description="ids that are never written")
    forced: tuple[int, ...] = Field((), description="ids that the text begins with, whatever the model says")
    seed: int | None = Field(
        None, ge=0, lt=1 << 63, description="of the draws; a new one each time when None"
    )

    stop: tuple[str, ...] = Field(
        (), max_length=64, description="strings at which to stop; not part of the text"
    )
    seconds: float | None = Field(None, gt=0, description="time after which to stop; no limit when None")
    logprobs: int = Field(
        0, ge=0, le=1000, description="how many likely alternatives to report for each token"
    )

    def check_ids(self, vocabulary: int) -> None:
        """Refuses ids that a model of this vocabulary does not have."""
        for key, ids in (("logit_bias", self.logit_bias), ("banned", self.banned), ("forced", self.forced)):
            for token in ids:
                if not 0 <= token < vocabulary:
                    raise ConfigError(
                        f"decoding.{key} names the id {token}, but the model has ids 0 to {vocabulary - 1}.\n"
                        "Take ids from this model's own tokenizer."
                    )

    @model_validator(mode="after")
    def _check(self) -> "DecodingConfig":
        if any(not text for text in self.stop):
            raise ConfigError(
                "decoding.stop holds an empty string, at which every text would stop.\nLeave it out."
            )
        if self.temperature is not None and 0 < self.temperature < LEAST_TEMPERATURE:
            raise ConfigError(
                f"decoding.temperature = {self.temperature} is too small to divide by.\n"
                f"Use 0, which takes the likeliest token, or at least {LEAST_TEMPERATURE}."
            )
        if self.min_tokens > self.max_tokens:
            raise ConfigError(
                f"decoding.min_tokens = {self.min_tokens} is more than max_tokens = {self.max_tokens}.\n"
                "Use fewer."
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
                f"{searches} searches for the likeliest text, and temperature = {self.temperature} draws one "
                "by chance.\nGive one of them."
            )
        if self.logprobs:
            raise ConfigError(
                f"{searches} searches among whole texts, so there are no alternatives to report for each "
                "token.\nUse beam = 1, or leave logprobs out."
            )
