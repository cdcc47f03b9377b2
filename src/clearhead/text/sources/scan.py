"""One pass over one file: rows of any format enter, examples of the kind that was asked for leave.

A format reader receives a `Scan` and uses it for everything that formats share: lines, problems, the choice
of columns, and the checks that turn values into an example.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from clearhead.config.data import Column, Reading
from clearhead.config.labels import LabelKind
from clearhead.errors import ConfigError
from clearhead.examples import Example, Kind, Labelled, Pair, Text
from clearhead.text.sources.dialogues import messages_in
from clearhead.text.sources.label_lists import (
    SEPARATORS,
    BadLabels,
    as_label,
    as_words,
    label_list,
    matched,
    separator_in,
    without_repeats,
)
from clearhead.text.sources.lines import File, Lines
from clearhead.text.sources.tally import Place, Tally
from clearhead.text.sources.values import (
    FORMAT,
    Absent,
    NoConversation,
    conversation_of,
    fault_of,
    value_of,
)

FIELDS: dict[Kind, tuple[str, ...]] = {
    "text": ("text",),
    "pair": ("source", "target"),
    "labelled": ("text", "label"),
}
LABEL = "label"

Row = tuple[int, Sequence[object]]
TextRow = tuple[int, Sequence[str]]


@dataclass(frozen=True)
class Schema:
    """What is asked of a file: the kind of its examples, and their label where all of the file has one.

    `labels` and `texts` are those of the settings; only texts with labels have others than one.
    """

    kind: Kind
    label: str | None = None
    labels: LabelKind = "one"
    texts: int = 1

    @classmethod
    def of(cls, kind: Kind, reading: Reading, label: str | None = None) -> "Schema":
        """What is asked of a file by the settings."""
        return cls(kind, label, reading.labels, reading.texts) if kind == "labelled" else cls(kind, label)

    @property
    def fields(self) -> tuple[str, ...]:
        """What must be read from the file for one example."""
        if self.kind != "labelled":
            return FIELDS[self.kind]
        return ("text", "second")[: self.texts] + ((LABEL,) if self.label is None else ())


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
        if self.schema.kind == "labelled":
            yield from LabelledRows(self).examples(rows)
            return
        make: Callable[..., Example] = Text if self.schema.kind == "text" else Pair
        for line, texts in rows:
            if not self.reports_empty(line, texts, texts):
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
                text = as_label(value, self.schema.labels) if field == LABEL else value
                if field == "text" and self.schema.labels == "each-word":
                    text = as_words(value)
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

    def reports_empty(self, line: int, texts: Sequence[str], needed: Sequence[str]) -> bool:
        """Whether one of the needed texts, the first of all, is empty; a line is ignored if all are, or reported."""
        for text in needed:
            if not text or text.isspace():
                break
        else:
            return False
        empty = [field for field, text in zip(self.schema.fields, texts, strict=True) if not text.strip()]
        if len(empty) == len(texts):
            self.ignore("empty")
        else:
            self.problem(line, f"the {empty[0]} is empty", "Fill it in, or remove the line.")
        return True


class LabelledRows:
    """Rows of texts and labels as examples: one label, several, or one for each word."""

    def __init__(self, scan: Scan) -> None:
        self.scan, self.schema = scan, scan.schema
        self.separator = scan.reading.label_separator

    def examples(self, rows: Iterable[TextRow]) -> Iterator[Example]:
        """The examples of rows whose texts are in the order of the fields."""
        count = self.schema.texts
        for line, texts in rows:
            # A text may fit none of several labels.
            needed = texts[:count] if self.schema.labels == "several" else texts
            if self.scan.reports_empty(line, texts, needed):
                continue
            text, second = texts[0], texts[1] if count == 2 else None
            try:
                label = self.label(self.schema.label if self.schema.label is not None else texts[count])
                if self.schema.labels == "each-word":
                    text = " ".join(matched(text.split(), label))
            except BadLabels as fault:
                self.scan.problem(line, str(fault), fault.advice)
            else:
                yield Labelled(text, label, second)

    def label(self, written: str) -> str | tuple[str, ...]:
        """The label of a cell, or its labels."""
        match self.schema.labels:
            case "one":
                return written
            case "each-word":
                return label_list(written, None)
        if self.separator is None and (found := separator_in(written)):
            self.separator = found
            name = self.scan.file.name
            self.scan.tally.guess(f"{name}: {found!r} separates the labels of a text (data.label_separator)")
        return without_repeats(label_list(written, self.separator or SEPARATORS[0]))


def check_columns(name: str, schema: Schema, reading: Reading) -> None:
    """Reject more or fewer columns than an example needs."""
    columns, fields = reading.columns, schema.fields
    if columns is not None and len(columns) != len(fields):
        raise ConfigError(
            f"data.columns = {list(columns)} does not fit {name}, which is read for {' and '.join(fields)}.\n"
            f"Name {len(fields)} of its columns, in this order."
        )
