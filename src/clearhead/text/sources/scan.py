"""One pass over one file: rows of any format enter, examples of the kind that was asked for leave.

A format reader receives a `Scan` and uses it for everything that formats share: lines, problems, the choice
of columns, and the checks that turn values into an example.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from clearhead.config.data import Column, Reading
from clearhead.errors import ConfigError
from clearhead.examples import Example, Kind, Labelled, Pair, Text
from clearhead.text.sources.dialogues import messages_in
from clearhead.text.sources.lines import File, Lines
from clearhead.text.sources.tally import Place, Tally
from clearhead.text.sources.values import (
    FORMAT,
    Absent,
    NoConversation,
    as_label,
    conversation_of,
    fault_of,
    value_of,
)

FIELDS: dict[Kind, tuple[str, ...]] = {
    "text": ("text",),
    "pair": ("source", "target"),
    "labelled": ("text", "label"),
}

Row = tuple[int, Sequence[object]]
TextRow = tuple[int, Sequence[str]]


@dataclass(frozen=True)
class Schema:
    """What is asked of a file: the kind of its examples, and their label where all of the file has one."""

    kind: Kind
    label: str | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """What must be read from the file for one example."""
        return ("text",) if self.label is not None else FIELDS[self.kind]


@dataclass(frozen=True)
class Scan:
    """One pass over one file or corpus."""

    file: File
    schema: Schema
    reading: Reading
    tally: Tally

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns that the recipe names."""
        return self.reading.columns

    def lines(self) -> Lines:
        """The numbered lines of the file."""
        return Lines(self.file, self.reading.max_line_bytes, self.tally, self.reading.encoding)

    def ahead(self) -> "Scan":
        """A pass that looks at the first lines, and leaves what they say to the pass itself."""
        return replace(self, tally=Tally("skip"))

    def problem(self, line: int, message: str, advice: str) -> None:
        """Report a line of this file."""
        self.tally.problem(Place(self.file.name, line), message, advice)

    def ignore(self, reason: str) -> None:
        """Count a line that is ignored by rule."""
        self.tally.ignored[reason] += 1

    def examples(self, rows: Iterable[TextRow]) -> Iterator[Example]:
        """The examples of rows whose texts are in the order of the fields; empty rows are ignored."""
        make = self._maker()
        for line, texts in rows:
            for text in texts:
                if not text or text.isspace():
                    self._report_empty(line, texts)
                    break
            else:
                yield make(*texts)

    def records(self, rows: Iterable[Row]) -> Iterator[Example]:
        """The examples of rows of values of any type; for a text, a list of messages is a conversation.

        The first row says which of the two the file contains, since they are learned in different ways.
        """
        takes_lists, are_lists = self.schema.kind == "text", None
        for is_list, group in groupby(rows, lambda row: takes_lists and isinstance(row[1][0], list)):
            are_lists = is_list if are_lists is None else are_lists
            if is_list != are_lists:
                self._report_strange(group, is_list)
            elif is_list:
                yield from self._conversations(group)
            else:
                yield from self.examples(self.checked(group))

    def _conversations(self, rows: Iterable[Row]) -> Iterator[Example]:
        for line, (value, *_) in rows:
            try:
                yield conversation_of(value, self.reading.max_line_bytes)
            except NoConversation as error:
                self.problem(line, str(error), f"A conversation is {FORMAT}.")

    def _report_strange(self, rows: Iterable[Row], is_list: bool) -> None:
        what, others = ("conversation", "plain texts") if is_list else ("plain text", "conversations")
        for line, _ in rows:
            self.problem(
                line,
                f"is a {what}, but the lines before are {others}",
                f"A conversation is {FORMAT}. Train on one of the two first, then on the other with "
                "training.init_from.",
            )

    def checked(self, rows: Iterable[Row]) -> Iterator[TextRow]:
        """Rows of values of any type, as rows of texts; a value that is not text is reported."""
        for line, values in rows:
            texts = []
            for field, value in zip(self.schema.fields, values, strict=True):
                text = as_label(value) if field == "label" else value
                if fault := fault_of(text, self.reading.max_line_bytes):
                    self.problem(
                        line, f"the {field} {fault}", "Fix it, or choose another column with data.columns."
                    )
                    break
                texts.append(str(text))
            else:
                yield line, texts

    def row_of(self, line: int, record: object) -> Row | None:
        """The values of a record: the stated columns, those of the usual names, or a conversation."""
        columns: Sequence[Column] = self.columns or self.schema.fields
        if self.columns is None and self.schema.kind == "text":
            messages = messages_in(record)
            if isinstance(messages, list):
                return line, [messages]
            if messages is not None:
                self.problem(line, "the messages are not a list", f"A conversation is {FORMAT}.")
                return None
        if self.columns is None and isinstance(record, list):
            columns = range(1, len(columns) + 1)
        return self.pick(line, record, columns)

    def pick(self, line: int, record: object, columns: Iterable[Column]) -> Row | None:
        """The values of some columns of an object or a list, or None, reported, where one is missing."""
        try:
            return line, [value_of(record, column) for column in columns]
        except Absent as absent:
            self.problem(line, str(absent), "Choose columns that exist with data.columns.")
        return None

    def _maker(self) -> Callable[..., Example]:
        if self.schema.label is not None:
            return partial(Labelled, label=self.schema.label)
        return {"text": Text, "pair": Pair, "labelled": Labelled}[self.schema.kind]

    def _report_empty(self, line: int, texts: Sequence[str]) -> None:
        empty = [field for field, text in zip(self.schema.fields, texts, strict=True) if not text.strip()]
        if len(empty) == len(texts):
            self.ignore("empty")
        else:
            self.problem(line, f"the {empty[0]} is empty", "Fill it in, or remove the line.")


def check_columns(name: str, schema: Schema, reading: Reading) -> None:
    """Reject more or fewer columns than an example needs."""
    columns, fields = reading.columns, schema.fields
    if columns is not None and len(columns) != len(fields):
        raise ConfigError(
            f"data.columns = {list(columns)} does not fit {name}, which is read for {' and '.join(fields)}.\n"
            f"Name {len(fields)} of its columns, in this order."
        )
