"""One pass over one file: rows of any format enter, examples of the kind that was asked for leave.

A format reader receives a `Scan` and uses it for everything that formats share: lines, problems, the choice
of columns, and the checks that turn values into an example.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from clearhead.config.data import Column, Reading
from clearhead.errors import ConfigError
from clearhead.text.examples import Example, Kind, Labelled, Pair, Text
from clearhead.text.lines import File, Lines
from clearhead.text.messages import FORMAT, NoConversation, conversation_of, fault_of
from clearhead.text.problems import Place, Tally

FIELDS: dict[Kind, tuple[str, ...]] = {
    "text": ("text",),
    "pair": ("source", "target"),
    "labelled": ("text", "label"),
}

Numbered = tuple[int, Example]
Row = tuple[int, Sequence[object]]
TextRow = tuple[int, Sequence[str]]


@dataclass(frozen=True)
class Want:
    """What is asked of a file: the kind of its examples, and their label where all of the file has one."""

    kind: Kind
    label: str | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """What must be read from the file for one example."""
        return ("text",) if self.label is not None else FIELDS[self.kind]


class Absent(LookupError):
    """A row without the column or key that was asked for."""


@dataclass(frozen=True)
class Scan:
    """One pass over one file or corpus."""

    file: File
    want: Want
    reading: Reading
    tally: Tally

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns that the recipe names."""
        return self.reading.columns

    def lines(self) -> Lines:
        """The numbered lines of the file."""
        return Lines(self.file, self.reading.max_line_bytes, self.tally)

    def problem(self, line: int, message: str, advice: str) -> None:
        """Report a line of this file."""
        self.tally.problem(Place(self.file.name, line), message, advice)

    def pass_over(self, reason: str) -> None:
        """Count a line that is left out by rule."""
        self.tally.passed[reason] += 1

    def examples(self, rows: Iterable[TextRow]) -> Iterator[Numbered]:
        """The examples of rows whose texts stand in the order of the fields; empty ones are none."""
        make = self._maker()
        for line, texts in rows:
            for text in texts:
                if not text or text.isspace():
                    self._report_empty(line, texts)
                    break
            else:
                yield line, make(*texts)

    def records(self, rows: Iterable[Row]) -> Iterator[Numbered]:
        """The examples of rows of values of any type; for a text, a list of messages is a conversation.

        The first row says which of the two the file holds, since they are learned in different ways.
        """
        takes_lists, are_lists = self.want.kind == "text", None
        for is_list, group in groupby(rows, lambda row: takes_lists and isinstance(row[1][0], list)):
            are_lists = is_list if are_lists is None else are_lists
            if is_list != are_lists:
                self._report_strange(group, is_list)
            elif is_list:
                yield from self._conversations(group)
            else:
                yield from self.examples(self.checked(group))

    def _conversations(self, rows: Iterable[Row]) -> Iterator[Numbered]:
        for line, (value, *_) in rows:
            try:
                yield line, conversation_of(value, self.reading.max_line_bytes)
            except NoConversation as error:
                self.problem(line, str(error), f"A conversation is {FORMAT}.")

    def _report_strange(self, rows: Iterable[Row], is_list: bool) -> None:
        what, others = ("conversation", "plain texts") if is_list else ("plain text", "conversations")
        for line, _ in rows:
            self.problem(
                line,
                f"is a {what}, and what comes before are {others}",
                f"A conversation is {FORMAT}. Train on one of the two, and then on the other with "
                "training.init_from.",
            )

    def checked(self, rows: Iterable[Row]) -> Iterator[TextRow]:
        """Rows of values of any type, as rows of texts; a value that is no text is reported."""
        for line, values in rows:
            texts = []
            for field, value in zip(self.want.fields, values, strict=True):
                text = _as_label(value) if field == "label" else value
                if fault := fault_of(text, self.reading.max_line_bytes):
                    self.problem(
                        line, f"the {field} {fault}", "Mend it, or name another column in data.columns."
                    )
                    break
                texts.append(str(text))
            else:
                yield line, texts

    def pick(self, line: int, record: object, columns: Iterable[Column]) -> Row | None:
        """The values of some columns of an object or a list, or None where one is not there."""
        try:
            return line, [value_of(record, column) for column in columns]
        except Absent as absent:
            self.problem(line, str(absent), "Name columns that are there in data.columns.")
        return None

    def _maker(self) -> Callable[..., Example]:
        if self.want.label is not None:
            return partial(Labelled, label=self.want.label)
        return {"text": Text, "pair": Pair, "labelled": Labelled}[self.want.kind]

    def _report_empty(self, line: int, texts: Sequence[str]) -> None:
        empty = [field for field, text in zip(self.want.fields, texts, strict=True) if not text.strip()]
        if len(empty) == len(texts):
            self.pass_over("empty")
        else:
            self.problem(line, f"the {empty[0]} is empty", "Fill it in, or remove the line.")


def check_columns(name: str, want: Want, reading: Reading) -> None:
    """Refuse more or fewer columns than an example needs."""
    columns, fields = reading.columns, want.fields
    if columns is not None and len(columns) != len(fields):
        raise ConfigError(
            f"data.columns = {list(columns)} does not fit what {name} is read for: {' and '.join(fields)}.\n"
            f"Name {len(fields)} of its columns, in this order."
        )


def value_of(record: object, column: Column) -> object:
    """A column of an object by its name (`outer.inner` reaches inside), or of a list by its number."""
    if isinstance(record, dict):
        if column in record:
            return record[column]
        outer, dot, inner = str(column).partition(".")
        if dot and isinstance(record.get(outer), dict):
            return value_of(record[outer], inner)
        raise Absent(f"has no {column!r}; it has {', '.join(map(repr, record)) or 'nothing'}")
    if isinstance(record, list):
        if isinstance(column, int) and column <= len(record):
            return record[column - 1]
        raise Absent(f"is a list of {len(record)}, which has no column {column!r}")
    raise Absent(f"is {json.dumps(record)[:40]}, not an object with keys")


def _as_label(value: object) -> object:
    """Labels may be numbers or true and false; space around them has no meaning."""
    if isinstance(value, int | float):
        return json.dumps(value)
    return value.strip() if isinstance(value, str) else value
