"""A sample of the data: a source enters; amounts, lengths and labels leave.

The first few megabytes are read; if there are more, the sizes of the files say how many.
"""

from collections import Counter
from dataclasses import dataclass, field

from clearhead.config.data import DataConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import DataError
from clearhead.examples import Example, Kind, Labelled, Pair
from clearhead.text.sources.lines import unpacked_bytes
from clearhead.text.sources.read import read
from clearhead.text.tokenizers.tokenizer import Tokenizer

SAMPLE_CHARACTERS = 4_000_000
DNA, FEWEST_LETTERS = set("ACGTNacgtn\n"), 20


@dataclass
class DataSample:
    """The first examples, and what they say about all the data; `share` is the approximate share that they are."""

    examples: list[Example]
    share: float
    labels: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.labels = Counter(label for e in self.examples if isinstance(e, Labelled) for label in e.labels)

    @property
    def is_whole(self) -> bool:
        """Whether the sample is all the data."""
        return self.share == 1.0

    @property
    def count(self) -> int:
        """Examples in all the data, approximately."""
        return round(len(self.examples) / self.share)

    @property
    def characters(self) -> int:
        """Characters in all the data, sources and targets, approximately."""
        return round(sum(map(sum, map(lengths_of, self.examples))) / self.share)

    @property
    def amount(self) -> str:
        """The same in words."""
        return f"{self.characters:,} character{'s' * (self.characters != 1)}"

    def quantile(self, share: float) -> int:
        """The length in characters that this share of the texts does not exceed.

        Of a text and its translation the longer one counts, of two texts that are read as one their sum.
        """
        lengths = sorted(
            sum(lengths_of(example)) if isinstance(example, Labelled) else max(lengths_of(example))
            for example in self.examples
        )
        return lengths[min(len(lengths) - 1, int(share * len(lengths)))]

    @property
    def outside_ascii(self) -> float:
        """The share of characters outside ASCII."""
        text = "".join(text for example in self.examples[:2000] for text in texts_of(example))[:200_000]
        return sum(not letter.isascii() for letter in text) / max(1, len(text))

    def try_tokenizer(self, config: TokenizerConfig) -> tuple[float, float]:
        """Trains a tokenizer on nine of ten texts: the share of known tokens in the tenth, and their mean length.

        Repeated texts count once, as they would be held out together.
        """
        texts = list(dict.fromkeys(text for example in self.examples for text in texts_of(example)))
        learned, others = [text for k, text in enumerate(texts) if k % 10], texts[::10]
        tokenizer = Tokenizer.train(learned or others, config)
        ids = tokenizer.encode_batch(others)
        count = max(1, sum(map(len, ids)))
        return 1 - sum(map(tokenizer.counts_unknown, ids)) / count, max(1.0, sum(map(len, others)) / count)

    @property
    def lines_up(self) -> bool:
        """Whether a position means the same in all DNA sequences: they have one length, and no letter is unknown."""
        shortest, longest = self.quantile(0.0), self.quantile(1.0)
        return 3 <= shortest == longest and not any(
            "N" in text.upper() for example in self.examples for text in texts_of(example)
        )

    @property
    def is_dna(self) -> bool:
        """Whether the texts consist of the letters A, C, G, T and N; very short data does not count."""
        return self.characters >= FEWEST_LETTERS and all(
            DNA.issuperset(text) for example in self.examples[:50] for text in texts_of(example)
        )


def texts_of(example: Example) -> tuple[str, ...]:
    """The texts of an example."""
    if isinstance(example, Labelled):
        return example.texts
    return (example.source, example.target) if isinstance(example, Pair) else (example.text,)


def lengths_of(example: Example) -> tuple[int, ...]:
    """Their lengths in characters."""
    return tuple(map(len, texts_of(example)))


def sample_data(data: DataConfig, kind: Kind) -> DataSample:
    """Reads the first megabytes of the training data."""
    reader = read(data.train, kind, reading=data)
    examples: list[Example] = []
    characters = size = 0
    for example in reader:
        examples.append(example)
        characters += sum(lengths_of(example))
        size += sum(len(text.encode()) for text in texts_of(example))
        if characters >= SAMPLE_CHARACTERS and reader.paths:
            whole = max(size, sum(map(unpacked_bytes, reader.paths)))
            return DataSample(examples, max(1e-9, size / whole) if whole > size else 1.0)
    if not any(text.strip() for example in examples for text in texts_of(example)):
        what = "only whitespace" if examples else "no examples"
        raise DataError(f"{', '.join(reader.names)}: nothing to learn from, {what}.\nName other files.")
    return DataSample(examples, 1.0)
