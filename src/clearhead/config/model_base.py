"""What the settings of every family of models have in common: each fact is stated once, here.

A family is a class below `AnyModelConfig` (see `families.py`). Other folders ask such a config, or the model built from
it, for what they need to know, and never for its family.
"""

from collections.abc import Callable
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from clearhead.config.labels import LabelKind
from clearhead.config.settings import Settings
from clearhead.errors import ConfigError

Family = Literal["transformer", "recurrent", "convolutional"]
Shape = Literal["decoder", "encoder", "encoder-decoder"]
Head = Literal["language", "classifier", "none"]
Pool = Literal["first", "mean", "root", "last", "max"]
PoolDense = Literal["none", "tanh", "relu", "gelu"]

# More than any model has: a damaged or hostile config is rejected before it allocates memory.
MOST_TOKENS, MOST_POSITIONS, WIDEST = 1 << 24, 1 << 30, 1 << 17


class AnyModelConfig(Settings):
    """The settings that a model of any family has."""

    section: ClassVar[str] = "model"
    deepest: ClassVar[int] = 1024  # blocks of a stack that still learn well

    family: Family = Field(description="what the blocks are made of")
    shape: Shape = Field("decoder", description="language model, encoder, or translator")
    vocabulary: int = Field(256, gt=0, le=MOST_TOKENS, description="number of tokens the model knows")
    source_vocabulary: int | None = Field(
        None,
        gt=0,
        le=MOST_TOKENS,
        description="number of tokens of the encoder; vocabulary if omitted",
    )
    context: int | None = Field(
        1024,
        gt=0,
        le=MOST_POSITIONS,
        description="maximum sequence length; no limit if none, for positions without a table",
    )
    d: int = Field(256, gt=0, le=WIDEST, description="width of every token vector")
    encoder_blocks: int = Field(4, ge=0, le=1024, description="blocks of the encoder")
    decoder_blocks: int = Field(4, ge=0, le=1024, description="blocks of the decoder")

    embedding_scale: float = Field(1.0, gt=0, description="factor of the token embeddings")
    shared: bool = Field(
        True, description="one embedding table for encoder and decoder, if their sizes agree"
    )
    head: Head = Field("language", description="what the model predicts: tokens, classes, or nothing")
    tied: bool = Field(True, description="the language head is the embedding table, if its width agrees")
    head_bias: bool = Field(False, description="bias of the language head")
    head_scale: float = Field(1.0, gt=0, description="factor before the language head")
    soft_cap: float | None = Field(None, gt=0, description="logits z become cap · tanh(z / cap)")
    classes: int | None = Field(None, gt=1, le=MOST_TOKENS, description="number of classes of a classifier")
    labels: LabelKind = Field(
        "one", description="what a classifier labels: each text with one label, with several, or each word"
    )
    texts: int = Field(1, ge=1, le=2, description="texts that a classifier reads at once")
    pool: Pool = Field("mean", description="which token vectors a classifier reads")
    pool_dense: PoolDense = Field("none", description="dense layer between pool and classes")
    class_bias: bool = Field(True, description="bias of the classes of a classifier")
    unit_length: bool = Field(False, description="whether the vectors of `embed` are normalised to length 1")

    dropout: float = Field(
        0.0, ge=0, lt=1, description="fraction of each sublayer's output dropped in training"
    )
    token_dropout: float = Field(
        0.0, ge=0, lt=1, description="fraction of the tokens whose whole vectors are dropped in training"
    )
    initial_deviation: float | None = Field(
        None,
        gt=0,
        description="standard deviation of the initial matrices and tables, 0.02 in GPT-2; if omitted, by their widths",
    )

    # What follows from the settings; a family overrides what is different there.

    @property
    def width_encoder(self) -> int:
        """Width of the encoder's token vectors."""
        return self.d

    @property
    def width_top(self) -> int:
        """Width of the vectors that the head reads."""
        return self.width_encoder if self.shape == "encoder" else self.d

    @property
    def width_tokens(self) -> int:
        """Width of the vectors that may be given in the place of ids."""
        return self.width_top

    @property
    def vocabulary_encoder(self) -> int:
        """Tokens of the encoder."""
        return self.source_vocabulary or self.vocabulary

    @property
    def is_shared(self) -> bool:
        """Whether encoder and decoder look tokens up in one table."""
        same = self.width_encoder == self.d and self.vocabulary_encoder == self.vocabulary
        return self.shape == "encoder-decoder" and self.shared and same

    @property
    def has_position_table(self) -> bool:
        """Whether nothing longer than the context can be read."""
        return False

    @property
    def reads_types(self) -> bool:
        """Whether it has a vector for the first and the second of two texts."""
        return False

    @property
    def is_post_norm(self) -> bool:
        """Whether the stream is normalised after each addition, which makes training unstable."""
        return False

    @property
    def trait(self) -> str:
        """What else a line about the model says, beside its shape, depth and width."""
        raise NotImplementedError

    def attentions(self) -> list[str]:
        """The names of all attention sublayers, such as 'decoder.2.cross'."""
        return []

    def heads(self, attention: str) -> tuple[int, ...]:
        """The numbers of the heads in one attention sublayer."""
        return (0,)

    def encoder_alone(self) -> Self:
        """The settings of a translator's encoder, as a model of its own."""
        return self.replace(shape="encoder", vocabulary=self.vocabulary_encoder, source_vocabulary=None)

    # What cannot work.

    @model_validator(mode="after")
    def _check(self) -> Self:
        own = type(self).model_fields["family"].default
        if self.family != own:
            raise ConfigError(
                f"model.family = {self.family!r} was given to {type(self).__name__}, whose family is {own!r}.\n"
                "Omit it, or use `clearhead.config.families.read_model_config`, which reads any family."
            )
        if own != "transformer":  # the family of settings that name none
            self.model_fields_set.add("family")
        for check in self._checks():
            check()
        return self

    def _checks(self) -> list[Callable[[], None]]:
        return [self._check_top]

    def _check_top(self) -> None:
        if self.source_vocabulary and self.shape != "encoder-decoder":
            raise ConfigError(
                f"model.source_vocabulary = {self.source_vocabulary} is for shape = 'encoder-decoder'.\n"
                "Use vocabulary."
            )
        if (self.head == "classifier") != (self.classes is not None):
            raise ConfigError(
                f"model.head = '{self.head}' with classes = {self.classes}.\n"
                "A classifier needs head = 'classifier' and classes = the number of labels; other heads have "
                "no classes."
            )
        if self.head != "language" and self.shape == "encoder-decoder":
            raise ConfigError(
                f"model.head = '{self.head}' does not work with shape = 'encoder-decoder', which generates text.\n"
                "Use shape = 'encoder' or 'decoder' for a classifier or for vectors."
            )
        if self.head != "classifier" and (self.labels, self.texts) != ("one", 1):
            raise ConfigError(
                f"model.head = '{self.head}' with labels = '{self.labels}' and texts = {self.texts}.\n"
                "Only a classifier has labels; omit both."
            )
        is_pooled = self.head == "classifier" and self.labels != "each-word"
        if is_pooled and self.shape == "decoder" and self.pool == "first":
            raise ConfigError(
                "model.pool = 'first' reads a token that sees no other in a causal stack.\n"
                "Use pool = 'last' or 'mean'."
            )

    @classmethod
    def elsewhere(cls, key: str) -> str | None:
        """Says which other family has a setting that this one lacks."""
        others = [each for each in AnyModelConfig.__subclasses__() if key in each.model_fields]
        if not others:
            return None
        meaning = others[0].model_fields[key].description
        families = " or ".join(repr(each.model_fields["family"].default) for each in others)
        return (
            f"{cls.name(key)} ({meaning}) is a setting of family = {families}, but this model has "
            f"family = {cls.model_fields['family'].default!r}.\nOmit it, or change {cls.name('family')}."
        )
