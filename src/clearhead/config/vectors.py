"""How word vectors are trained: the settings of `clearhead vectors train`."""

from typing import ClassVar, Literal

from pydantic import Field

from clearhead.config.settings import Settings

Method = Literal["skip-gram", "cbow"]
WordSplit = Literal["words", "whitespace"]

MOST_WORDS = 10_000_000
WIDEST_VECTOR = 4096


class VectorsConfig(Settings):
    """How word vectors are trained."""

    section: ClassVar[str] = "vectors"

    method: Method = Field(
        "skip-gram",
        description="skip-gram predicts the neighbours from a word, cbow a word from its neighbours",
    )
    width: int = Field(100, gt=0, le=WIDEST_VECTOR, description="numbers in a vector")
    window: int = Field(5, gt=0, le=1000, description="words on each side that count as neighbours, at most")
    negative: int = Field(5, gt=0, le=1000, description="random words that each neighbour is told apart from")
    subsample: float = Field(
        1e-3, ge=0, lt=1, description="share of the text above which a word is often skipped; 0: never"
    )
    epochs: int = Field(5, gt=0, le=100_000, description="passes over the text")
    learning_rate: float = Field(0.025, gt=0, description="learning rate at the start")
    final_rate: float = Field(1e-4, gt=0, description="learning rate at the end")
    minimum_frequency: int = Field(5, ge=1, description="how often a word must occur to get a vector")
    vocabulary: int | None = Field(
        None, gt=0, le=MOST_WORDS, description="maximum number of words; the most frequent ones are kept"
    )
    phrases: int = Field(
        0, ge=0, le=4, description="passes that join words which often occur together: New_York"
    )
    phrase_threshold: float = Field(
        10.0,
        ge=0,
        description="how much more often than by chance two words must occur together to be joined",
    )
    split: WordSplit = Field(
        "words",
        description="words: as tokenizer.kind = word does, without punctuation; whitespace: text that is already split",
    )
    lowercase: bool = Field(False, description="whether text is lowercased")
    workers: int | None = Field(
        None,
        gt=0,
        le=1024,
        description="threads; all cores if omitted; only one gives the same bits each time",
    )
    seed: int = Field(1, ge=0, lt=1 << 32, description="seed of the first vectors and of the random words")
