"""From what a recipe names to a stream of examples: files, folders, patterns, aligned files, corpora.

`read` looks the source up at once, so that a wrong name is an error before anything else happens, and gives a
`ExampleReader`: iterate it as often as you like; each pass streams in constant memory and leaves an account of what
it met.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from clearhead.config.data import Column, DataConfig, OnError, Reading, check_source
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Example, Kind, Split, Text
from clearhead.text.sources.held_out import split_of
from clearhead.text.sources.lookup import PartFinder
from clearhead.text.sources.parts import SourcePart
from clearhead.text.sources.tally import Place, Problems, Tally

# A source as a program may write it; a recipe has no paths but texts.
Written = str | os.PathLike[str] | Sequence[str | Sequence[str]] | Mapping[str, str | Sequence[str]]


def read(
    source: Written,
    kind: Kind,
    columns: Sequence[Column] | None = None,
    on_error: OnError | None = None,
    *,
    reading: Reading | None = None,
    split: Split = "train",
) -> "ExampleReader":
    """The examples of a source; `columns` and `on_error` go before `reading`, `split` is for corpora."""
    stated = {"columns": columns, "on_error": on_error}
    changes = {key: value for key, value in stated.items() if value is not None}
    reading = (reading or Reading()).replace(**changes)
    try:
        checked = check_source(os.fspath(source) if isinstance(source, os.PathLike) else source)
    except ValueError as error:
        raise ConfigError(f"The source {source!r} cannot be read: {error}.") from None
    ignored: list[str] = []
    parts = PartFinder(kind, reading, split, ignored).find(checked)
    return ExampleReader(tuple(parts), reading, tuple(ignored))


def read_split(data: DataConfig, kind: Kind, split: Split) -> "ExampleReader | None":
    """One split of a recipe's data, or None where there is none."""
    source = data.source(split)
    if source is None:
        return None
    if split in data.shares:
        return read(source, kind, reading=data).keeping(split, data.shares)
    reader = read(source, kind, reading=data, split=split)
    return reader.keeping("train", data.shares) if split == "train" and data.shares else reader


@dataclass
class ExampleReader:
    """A source that can be read again and again.

    `tally` and `problems` are those of the latest pass; `ignored` lists what folders contain beside known formats.
    """

    parts: tuple[SourcePart, ...]
    reading: Reading
    ignored: tuple[str, ...] = ()
    side: Split = "train"
    shares: Mapping[str, float] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    @property
    def problems(self) -> Problems:
        """What could not be read in the latest pass: how many, and the first of them."""
        return self.tally.problems

    @property
    def names(self) -> tuple[str, ...]:
        """The files and corpora, in the order in which they are read."""
        return tuple(part.name for part in self.parts)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in the order in which they are read."""
        return tuple(path for part in self.parts for path in part.paths)

    def keeping(self, side: Split, shares: Mapping[str, float]) -> "ExampleReader":
        """A reader of the same source that gives only one side of what is held out."""
        return replace(self, side=side, shares=dict(shares), tally=Tally())

    def __iter__(self) -> Iterator[Example]:
        tally = self.tally = Tally(self.reading.on_error)
        for part in self.parts:
            yield from self._examples(part, tally)
        if not tally.examples + tally.held_out:
            shown = "\n".join(str(problem) for problem in tally.problems.first[:3])
            raise DataError(
                f"No example could be read from {', '.join(self.names)}. The first problems:\n{shown}"
            )

    def _examples(self, part: SourcePart, tally: Tally) -> Iterator[Example]:
        lines, given, faults = tally.lines, tally.examples + tally.held_out, tally.problems.count
        was_kept = True
        for example in part.examples(self.reading, tally):
            if self.shares and split_of(example, self.shares, self.reading.seed) != self.side:
                tally.held_out += 1
                was_kept = False
                continue
            tally.examples += 1
            # A piece of text whose beginning is on the other side begins a document here.
            yield Text(example.text) if not was_kept and isinstance(example, Text) else example
            was_kept = True
        if tally.examples + tally.held_out == given and tally.problems.count == faults:
            fault = (
                "is empty" if tally.lines == lines else "contains no example: every line is blank or skipped"
            )
            tally.problem(Place(part.name, 0), fault, "Fill it, or omit it from the data.")
