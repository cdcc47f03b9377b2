"""The parts of a source: a file, two aligned files, a built-in corpus, a dataset of the hub.

Each gives its examples, and accounts for everything else in the tally.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clearhead.config.data import Format, Reading
from clearhead.corpora.corpus import Corpus
from clearhead.examples import Example, Kind, Labelled, Split, Text
from clearhead.text.sources.formats import FORMATS
from clearhead.text.sources.hub import read_hub
from clearhead.text.sources.lines import File, Lines, without_end
from clearhead.text.sources.scan import Scan, Schema, TextRow
from clearhead.text.sources.tally import Place, Tally


class SourcePart(Protocol):
    """Something that gives examples."""

    @property
    def name(self) -> str:
        """What a user calls it."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that it reads."""

    def examples(self, reading: Reading, tally: Tally) -> Iterator[Example]:
        """Its examples."""


@dataclass(frozen=True)
class FilePart:
    """One file and its format."""

    file: File
    format: Format
    schema: Schema

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.file.path,)

    def examples(self, reading: Reading, tally: Tally) -> Iterator[Example]:
        return FORMATS[self.format].read(Scan(self.file, self.schema, reading, tally))


@dataclass(frozen=True)
class AlignedPart:
    """Two files, where line k of one translates line k of the other."""

    source: File
    target: File

    @property
    def name(self) -> str:
        return f"{self.source.name} and {self.target.name}"

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.source.path, self.target.path

    def examples(self, reading: Reading, tally: Tally) -> Iterator[Example]:
        both = Scan(File(self.name, self.source.path), Schema("pair"), reading, tally)
        return both.examples(self._rows(reading, tally))

    def _rows(self, reading: Reading, tally: Tally) -> Iterator[TextRow]:
        limit, encoding = reading.max_line_bytes, reading.encoding
        left, right = (Lines(file, limit, tally, encoding) for file in (self.source, self.target))
        sources, targets = iter(left), iter(right)
        source, target = next(sources, None), next(targets, None)
        while source and target:
            at, to = source[0], target[0]
            if at == to:
                yield at, [without_end(source[1]), without_end(target[1])]
            # A line that could not be read is missing on one side; the side that is behind catches up.
            source = next(sources, None) if at <= to else source
            target = next(targets, None) if to <= at else target
        for rest in (sources, targets):
            for _ in rest:
                pass
        self._compare(left.count, right.count, tally)

    def _compare(self, left: int, right: int, tally: Tally) -> None:
        if left != right:
            tally.problem(
                Place(self.source.name, 0),
                f"has {left} lines but {self.target.name} has {right}",
                "Line k of one file must translate line k of the other; find the missing line.",
                lost=abs(left - right),
            )


@dataclass(frozen=True)
class BuiltinPart:
    """A corpus that the package makes itself."""

    corpus: Corpus
    kind: Kind
    split: Split

    @property
    def name(self) -> str:
        return f"builtin:{self.corpus.name}"

    @property
    def paths(self) -> tuple[Path, ...]:
        return ()

    def stream(self, reading: Reading) -> Iterator[Example]:
        """The corpus itself; an option that it does not have is an error at once."""
        count = reading.count if self.split == "train" else None
        return self.corpus.examples(self.split, reading.seed, count, **reading.options)

    def examples(self, reading: Reading, tally: Tally) -> Iterator[Example]:
        for example in self.stream(reading):
            tally.lines += 1
            yield Text(example.input) if self.kind == "text" and isinstance(example, Labelled) else example


@dataclass(frozen=True)
class HubPart:
    """A split of a dataset of the hub."""

    dataset: str
    split: str
    schema: Schema

    @property
    def name(self) -> str:
        return f"hub:{self.dataset}@{self.split}"

    @property
    def paths(self) -> tuple[Path, ...]:
        return ()

    def examples(self, reading: Reading, tally: Tally) -> Iterator[Example]:
        scan = Scan(File(self.name, Path()), self.schema, reading, tally)
        return read_hub(scan, self.dataset, self.split)
