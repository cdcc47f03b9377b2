"""A look at data before a recipe is made for it: a source enters; amounts, lengths and labels leave.

A sample is read, the first few megabytes; where there is more, the size of the files says how much more.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from clearhead.config.data import DataConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import DataError
from clearhead.text.examples import Example, Kind, Labelled, Pair
from clearhead.text.formats import extension
from clearhead.text.lines import File
from clearhead.text.records import is_conversation
from clearhead.text.scan import FIELDS
from clearhead.text.sources import read
from clearhead.text.tokenizer import Tokenizer

SAMPLE_CHARACTERS = 4_000_000
PACKED = 3.5  # how much larger text is than its .gz, about
MOST_ROWS, ROWS = 20_000, 200  # of a table that are read, and from which its columns are guessed
DNA, FEWEST_LETTERS = set("ACGTNacgtn\n"), 20


@dataclass
class Survey:
    """What a sample says about all the data; `share` is how much of the data the sample is, about."""

    examples: list[Example]
    share: float
    labels: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.labels = Counter(e.label for e in self.examples if isinstance(e, Labelled))

    @property
    def is_whole(self) -> bool:
        """Whether all was read."""
        return self.share == 1.0

    @property
    def count(self) -> int:
        """Examples in all the data, about."""
        return round(len(self.examples) / self.share)

    @property
    def characters(self) -> int:
        """Characters in all the data, of sources and targets, about."""
        return round(sum(map(sum, map(lengths_of, self.examples))) / self.share)

    @property
    def amount(self) -> str:
        """The same in words."""
        return f"{self.characters:,} character{'s' * (self.characters != 1)}"

    def quantile(self, share: float) -> int:
        """The length in characters that this share of the texts does not exceed, sources and targets alike."""
        lengths = sorted(max(lengths_of(example)) for example in self.examples)
        return lengths[min(len(lengths) - 1, int(share * len(lengths)))]

    @property
    def outside_ascii(self) -> float:
        """The share of characters that are more than one byte."""
        text = "".join(text for example in self.examples[:2000] for text in texts_of(example))[:200_000]
        return sum(not letter.isascii() for letter in text) / max(1, len(text))

    def trial(self, config: TokenizerConfig) -> tuple[float, float]:
        """A tokenizer learned from nine of ten texts: what share of the tokens of the tenth it knows, and their length.

        Texts that stand there twice count once, for they would be held out together.
        """
        texts = list(dict.fromkeys(text for example in self.examples for text in texts_of(example)))
        learned, others = [text for k, text in enumerate(texts) if k % 10], texts[::10]
        tokenizer = Tokenizer.train(learned or others, config)
        ids = tokenizer.encode_batch(others)
        count = max(1, sum(map(len, ids)))
        return 1 - sum(map(tokenizer.counts_unknown, ids)) / count, max(1.0, sum(map(len, others)) / count)

    @property
    def lines_up(self) -> bool:
        """Whether a place means the same in all sequences of DNA: they have one length, and no letter is missing."""
        shortest, longest = self.quantile(0.0), self.quantile(1.0)
        return 3 <= shortest == longest and not any(
            "N" in text.upper() for example in self.examples for text in texts_of(example)
        )

    @property
    def is_dna(self) -> bool:
        """Whether the texts are sequences of the letters A, C, G, T and N; a few letters may be anything."""
        return self.characters >= FEWEST_LETTERS and all(
            DNA.issuperset(text) for example in self.examples[:50] for text in texts_of(example)
        )


def texts_of(example: Example) -> tuple[str, ...]:
    """The texts of an example."""
    return (example.source, example.target) if isinstance(example, Pair) else (example.text,)


def lengths_of(example: Example) -> tuple[int, ...]:
    """Their lengths in characters."""
    return tuple(map(len, texts_of(example)))


def survey_of(data: DataConfig, kind: Kind) -> Survey:
    """Reads the first megabytes of the training data."""
    reader = read(data.train, kind, reading=data)
    examples: list[Example] = []
    characters = size = 0
    for example in reader:
        examples.append(example)
        characters += sum(lengths_of(example))
        size += sum(len(text.encode()) for text in texts_of(example))
        if characters >= SAMPLE_CHARACTERS and reader.paths:
            whole = max(size, sum(map(size_of, reader.paths)))
            return Survey(examples, max(1e-9, size / whole) if whole > size else 1.0)
    if not any(text.strip() for example in examples for text in texts_of(example)):
        what = "there are only blanks" if examples else "there are no examples"
        raise DataError(
            f"There is nothing to learn from in {', '.join(reader.names)}: {what}.\nName other files."
        )
    return Survey(examples, 1.0)


def size_of(path: Path) -> float:
    """Bytes of a file, unpacked."""
    return path.stat().st_size * (PACKED if path.suffix == ".gz" else 1.0)


def guessed_columns(source: object, kind: Kind) -> tuple[list[str], str] | None:
    """Which columns of a table are meant, and why; None where they have their usual names, or nothing is clear."""
    if not isinstance(source, str) or extension(source) not in (".csv", ".jsonl", ".ndjson"):
        return None
    rows = list(islice(records_of(source), MOST_ROWS)) if Path(source).is_file() else []
    rows = rows[:: max(1, len(rows) // ROWS)]  # from all over the file: it may be sorted by label
    names = [name for name in (rows[0] if rows else {}) if all(name in row for row in rows)]
    if len(rows) < 2 or set(FIELDS[kind]) <= set(names) or (kind == "text" and is_conversation(rows[0])):
        return None
    texts = [name for name in names if all(isinstance(row[name], str) for row in rows)]
    texts.sort(key=lambda name: -sum(len(row[name]) for row in rows))
    if kind == "text" and texts:
        return texts[:1], "the column with the longest texts"
    if kind == "pair" and len(names) == len(texts) == 2:
        return names, "the two columns that there are, in their order"
    values = {name: len({str(row[name]) for row in rows} - {""}) for name in names if name not in texts[:1]}
    label = min((name for name in values if values[name] > 1), key=values.__getitem__, default=None)
    if kind == "labelled" and texts and label is not None and values[label] <= max(2, len(rows) // 3):
        return [
            texts[0],
            label,
        ], f"the longest texts, and the column with the fewest values ({values[label]})"
    return None


def records_of(source: str) -> Iterator[dict[str, Any]]:
    """The first rows of a .csv with a header, or of a .jsonl; a row that cannot be read ends them."""
    bytes_ = File(source, Path(source)).open()
    with io.TextIOWrapper(
        cast(IO[bytes], bytes_), encoding="utf-8-sig", errors="replace", newline=""
    ) as file:
        try:
            if extension(source) == ".csv":
                rows = csv.reader(file)
                header = next(rows, [])
                yield from (dict(zip(header, row, strict=True)) for row in rows)
            else:
                yield from (row for line in file if isinstance(row := json.loads(line), dict))
        except (ValueError, csv.Error):
            return
