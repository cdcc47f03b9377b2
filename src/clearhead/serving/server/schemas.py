"""What a request may contain: JSON enters; a checked body leaves, in which every field is bounded.

A field that is accepted has its effect. Any other one is refused by its name; one that is null counts as omitted.
"""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import from_json, to_json

from clearhead.examples import ANSWER, Message
from clearhead.serving.server.faults import Refused

MOST_CHARACTERS = 1 << 20  # of a text
MOST_READ = 1 << 17  # characters of a text that is truncated, split or only encoded
MOST_INPUTS = 64  # texts of a request
MOST_TEXTS = 64  # that a request may ask for: prompts times n
MOST_SHOWN = 20  # alternatives of a token
MOST_KEYS = 2048  # of an object, also inside a JSON schema: each that is unknown costs an error

Text = Annotated[str, StringConstraints(max_length=MOST_CHARACTERS)]
ShortText = Annotated[str, StringConstraints(max_length=MOST_READ)]
Id = Annotated[int, Field(ge=0, lt=1 << 24)]
Ids = Annotated[list[Id], Field(fail_fast=True, min_length=1, max_length=1 << 16)]
Texts = Text | Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=MOST_INPUTS)]
ShortTexts = (
    ShortText | Annotated[list[ShortText], Field(fail_fast=True, min_length=1, max_length=MOST_INPUTS)]
)
Inputs = Texts | Ids | Annotated[list[Ids], Field(fail_fast=True, min_length=1, max_length=MOST_INPUTS)]
Stop = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Body(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Kind = TypeVar("Kind", bound=Body)


class ForModel(Body):
    """A request to one of the models."""

    model: Name = Field(description="a model of /v1/models")


class Sampling(ForModel):
    """How tokens are chosen."""

    max_tokens: int | None = Field(None, ge=0, le=1 << 20, description="most tokens to generate")
    min_tokens: int = Field(0, ge=0, le=1 << 20, description="tokens before the text may end")
    n: int = Field(1, ge=1, le=16, description="texts for each prompt")
    temperature: float = Field(1.0, ge=0, le=2, description="randomness; 0 takes the likeliest token")
    top_p: float = Field(
        1.0, gt=0, le=1, description="sample from the likeliest tokens with this probability"
    )
    top_k: int | None = Field(None, ge=1, le=1 << 24, description="sample from the k likeliest tokens")
    min_p: float = Field(0.0, ge=0, le=1, description="least probability, as a share of the largest")
    presence_penalty: float = Field(0.0, ge=-2, le=2, description="for tokens already generated")
    frequency_penalty: float = Field(0.0, ge=-2, le=2, description="for each time a token was generated")
    repetition_penalty: float = Field(1.0, ge=0.1, le=10, description="for tokens of the prompt and the text")
    logit_bias: dict[
        Annotated[str, StringConstraints(pattern="^[0-9]{1,8}$")], Annotated[float, Field(ge=-100, le=100)]
    ] = Field(default_factory=dict, max_length=300, description="numbers added to the logits of ids")
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63, description="the same seed gives the same text")
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] = Field(
        default_factory=list, description="strings at which the text ends"
    )
    stream: bool = Field(False, description="send parts of the text as they are generated")
    stream_options: "StreamOptions | None" = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def counts_usage(self) -> bool:
        """Whether a stream ends with the number of tokens."""
        return self.stream_options is not None and self.stream_options.include_usage

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise Refused(
                "'stream_options' is for a stream.\nOmit it, or send stream = true.", field="stream_options"
            )
        return self


class StreamOptions(Body):
    """What a stream contains besides texts."""

    include_usage: bool = Field(False, description="end with the number of tokens")


class JsonSchema(Body):
    """A schema with the name that clients give it."""

    name: Annotated[str, StringConstraints(max_length=64)] = ""
    strict: bool = True  # it is followed in any case
    json_schema: dict[str, Any] = Field(alias="schema")


class ResponseFormat(Body):
    """What an answer must be: any text, a JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise Refused(
                "response_format needs a json_schema for the type json_schema, and only for it.",
                field="response_format",
            )
        return self

    @property
    def schema_of_answer(self) -> dict[str, Any] | None:
        """The JSON schema; None for any text."""
        if self.type == "json_object":
            return {"type": "object"}
        return None if self.json_schema is None else self.json_schema.json_schema


class CompletionBody(Sampling):
    """`/v1/completions`."""

    prompt: Inputs = Field(description="texts to continue, or their ids")
    echo: bool = Field(False, description="put the prompt before the text")
    logprobs: int | None = Field(
        None, ge=0, le=MOST_SHOWN, description="log-probabilities, with so many alternatives"
    )
    response_format: ResponseFormat | None = None


class TextPart(Body):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class ChatMessage(Body):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(min_length=1, max_length=64)]

    @property
    def message(self) -> Message:
        """The message as models know it."""
        content = (
            self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        )
        role = {"developer": "system", "assistant": ANSWER}.get(self.role, self.role)
        return Message(role, content)


class ChatBody(Sampling):
    """`/v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1024)]
    max_completion_tokens: int | None = Field(None, ge=1, le=1 << 20, description="most tokens of the answer")
    logprobs: bool = Field(False, description="report log-probabilities")
    top_logprobs: int = Field(
        0, ge=0, le=MOST_SHOWN, description="alternatives of each token, with logprobs = true"
    )
    response_format: ResponseFormat | None = None

    @property
    def most_tokens(self) -> int | None:
        """Most tokens of the answer, by its new name or its old one."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @model_validator(mode="after")
    def _check_chat(self) -> Self:
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise Refused(
                "'max_tokens' is the old name of max_completion_tokens.\nSend one of them.",
                field="max_tokens",
            )
        if self.top_logprobs and not self.logprobs:
            raise Refused("'top_logprobs' needs logprobs = true.", field="top_logprobs")
        return self


class EmbeddingBody(ForModel):
    """`/v1/embeddings`."""

    input: Inputs = Field(description="texts, or their ids")
    encoding_format: Literal["float", "base64"] = "float"


class TranslateBody(ForModel):
    """`/v1/translate`."""

    input: ShortTexts = Field(description="texts to translate")
    beam: int | None = Field(None, ge=1, le=16, description="hypotheses of the search; 5 if omitted")
    length_penalty: float = Field(1.0, ge=-8, le=8, description="above 0 favours long translations")
    max_tokens: int | None = Field(None, ge=1, le=1 << 20, description="most tokens of a translation")
    split_sentences: bool | None = Field(None, description="translate the sentences of a text one by one")


class ClassifyBody(ForModel):
    """`/v1/classify`."""

    input: ShortTexts = Field(description="texts to classify")
    truncate: bool = Field(False, description="shorten texts that do not fit")


class TokenizeBody(ForModel):
    """`/tokenize`."""

    text: ShortText = Field(description="the text")


class DetokenizeBody(ForModel):
    """`/detokenize`."""

    tokens: Annotated[list[Id], Field(max_length=1 << 16)] = Field(description="the ids")


def parse(kind: type[Kind], content: bytes) -> Kind:
    """A body from its bytes."""
    try:
        values = from_json(content, allow_inf_nan=False, cache_strings=False)
    except ValueError as error:  # also what is nested too deeply, and half a character
        raise Refused(f"The body is not JSON: {str(error)[:200]}.") from None
    if not isinstance(values, dict):
        raise Refused("The body must be one JSON object.")
    if (most := most_keys(values)) > MOST_KEYS:
        raise Refused(f"The body has an object with {most:,} keys; the limit is {MOST_KEYS:,}.")
    given = {key: value for key, value in values.items() if value is not None}
    return kind.model_validate_json(to_json(given))


def most_keys(value: Any) -> int:
    """The number of keys of the largest object in a JSON value."""
    most, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            most = max(most, len(one))
            one = one.values()
        left.extend(inner for inner in one if isinstance(inner, dict | list))
    return most
