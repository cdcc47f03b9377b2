"""The `[tokenizer]` table of a recipe: how text is split into tokens.

The kinds, from whole words to single bytes:

    word        words and punctuation marks; a word that was not learned is unknown
    wordpiece   words, split into learned parts if they are rare: eat ##ing (BERT)
    bpe         groups of bytes, merged pair by pair by frequency (GPT-2); nothing is unknown
    unigram     groups of bytes, the likeliest segmentation of a text (T5); nothing is unknown
    character   characters; unseen ones become their bytes, or unknown
    byte        the 256 bytes of UTF-8; nothing is unknown
    dna         letters A C G T N, or groups of k letters; any other letter is unknown
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from clearhead.config.settings import Settings, listed
from clearhead.errors import ConfigError

Kind = Literal["bpe", "wordpiece", "unigram", "word", "character", "byte", "dna"]
Normalization = Literal["none", "nfc", "nfkc"]
Role = Literal["system", "user", "assistant"]
Spelling = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^\S(.*\S)?$")]

BYTES = 256
SPECIALS = 6  # begin, end, padding, unknown, mask, separator; no unknown in a kind that needs none
KINDS_OF_BYTES = ("bpe", "unigram")
MARKERS: dict[Role, Spelling] = {"system": "<system>", "user": "<user>", "assistant": "<assistant>"}


class TokenizerConfig(Settings):
    """How text is split into tokens."""

    section: ClassVar[str] = "tokenizer"

    kind: Kind = Field("bpe", description="what text is split into")
    vocabulary: int = Field(
        8000,
        ge=SPECIALS + 1,
        le=1 << 20,
        description="maximum number of tokens, special tokens included; byte and dna have a fixed number",
    )
    shared: bool = Field(True, description="one tokenizer for source and target, or one for each")
    normalization: Normalization = Field(
        "nfc", description="Unicode normalization form; none keeps text as it is"
    )
    lowercase: bool = Field(False, description="whether text is lowercased; dna is always in capitals")
    minimum_frequency: int = Field(
        2, ge=1, le=1 << 53, description="how often a word, a pair or a character must occur to be learned"
    )
    byte_fallback: bool = Field(
        True, description="whether a character that was not learned becomes its bytes, for kind character"
    )
    k: int = Field(1, ge=1, le=8, description="letters per token of dna")
    added: Annotated[tuple[Spelling, ...], BeforeValidator(listed)] = Field(
        (),
        max_length=10_000,
        description="tokens added to the learned ones, or to those of the model to start from",
    )
    markers: dict[Role, Spelling] = Field(
        default_factory=lambda: dict(MARKERS),
        description="special tokens before the messages of each role, added if the data are conversations",
    )

    @property
    def has_unknowns(self) -> bool:
        """Whether this kind has an unknown token for what it cannot encode."""
        return self.kind in ("wordpiece", "word", "dna") or (
            self.kind == "character" and not self.byte_fallback
        )

    @property
    def spellings(self) -> dict[Role, Spelling]:
        """The marker of every role, as stated or by default."""
        return MARKERS | self.markers

    @model_validator(mode="after")
    def _differ(self) -> Self:
        names = [*self.added, *self.spellings.values()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"tokenizer.added and tokenizer.markers name {twice[0]!r} twice.\nGive each its own spelling."
            )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        least = SPECIALS - 1 + BYTES
        needs_bytes = self.kind in KINDS_OF_BYTES or (self.kind == "character" and self.byte_fallback)
        if needs_bytes and self.vocabulary < least:
            raise ConfigError(
                f"tokenizer.vocabulary = {self.vocabulary} is too small for tokenizer.kind = {self.kind!r}: "
                f"the bytes and the special tokens alone are {least}.\n"
                "Use more, such as 1000, or tokenizer.kind = 'byte', which has no others."
            )
        return self
