"""The columns of a table that has other names than ours: a source enters; a guess and its reason leave."""

from collections.abc import Iterable, Iterator
from typing import Any

from clearhead.config.data import Column, Reading
from clearhead.examples import Kind
from clearhead.text.sources.dialogues import messages_in
from clearhead.text.sources.formats import FORMATS
from clearhead.text.sources.parts import FilePart
from clearhead.text.sources.read import read
from clearhead.text.sources.scan import FIELDS, Scan
from clearhead.text.sources.table_shape import has_header
from clearhead.text.sources.tally import Tally
from clearhead.text.sources.values import folded

Record = dict[Any, Any]  # by names, or in a table without a header by numbers from 1

# Of a table that are read, and from which its columns are guessed.
MOST_ROWS, MOST_CHARACTERS, ROWS = 20_000, 8_000_000, 200
NO_HEADER = "; the first line is an example, not names"


def guess_columns(
    source: object, kind: Kind, reading: Reading | None = None
) -> tuple[list[Column], str] | None:
    """The columns of a table to use, and why; None if they have their usual names, or nothing is clear."""
    rows = first_records(source, kind, reading or Reading()) if isinstance(source, str) else []
    rows = rows[:: max(1, len(rows) // ROWS)]  # from the whole file, as it may be sorted by label
    names = [name for name in (rows[0] if rows else {}) if all(name in row for row in rows)]
    if len(rows) < 2 or set(FIELDS[kind]) <= {folded(str(name)) for name in names}:
        return None
    if kind == "text" and messages_in(rows[0]) is not None:
        return None
    guess = _chosen(rows, names, kind)
    is_numbered = guess is not None and isinstance(guess[0][0], int)
    return (guess[0], guess[1] + NO_HEADER) if guess and is_numbered else guess


def _chosen(rows: list[Record], names: list[Column], kind: Kind) -> tuple[list[Column], str] | None:
    """The columns that fit the kind of example, and why."""
    texts = [name for name in names if all(isinstance(row[name], str) for row in rows)]
    texts.sort(key=lambda name: -sum(len(row[name]) for row in rows))
    if kind == "text" and texts:
        return texts[:1], "the column with the longest texts"
    if kind == "pair" and len(names) == len(texts) == 2:
        return names, "the only two columns, in their order"
    plain = [name for name in names if not any(isinstance(row[name], dict | list) for row in rows)]
    values = {name: len({str(row[name]) for row in rows} - {""}) for name in plain if name not in texts[:1]}
    label = min((name for name in values if values[name] > 1), key=values.__getitem__, default=None)
    if kind == "labelled" and texts and label is not None and values[label] <= max(2, len(rows) // 3):
        reason = f"the longest texts, and the column with the fewest values ({values[label]})"
        return [texts[0], label], reason
    return None


def first_records(source: str, kind: Kind, reading: Reading) -> list[Record]:
    """The first records of the first file of a source, if it is a table or contains records; others are skipped."""
    part = read(source, kind, reading=reading).parts[0]
    if not isinstance(part, FilePart):
        return []
    scan = Scan(part.file, part.schema, reading, Tally("skip"))
    row = FORMATS[part.format]
    if row.values is not None:
        return [record for record in bounded(row.values(scan)) if isinstance(record, dict)]
    if row.fields is None:
        return []
    table = [fields for fields in bounded(row.fields(scan)) if any(fields)]
    found = has_header(table[:ROWS])
    # A .csv nearly always has a header, a .tsv only if something speaks for it.
    is_named = found is True or (found is None and part.format != "tsv")
    if reading.header is not None:
        is_named = reading.header
    if not table or (part.format == "tsv" and not is_named):
        return []
    names: list[Column] = [name.strip() for name in table[0]] if is_named else [*range(1, len(table[0]) + 1)]
    named = [at for at, name in enumerate(names) if name != ""]
    examples = (fields for fields in table[is_named:] if len(fields) == len(names))
    return [{names[at]: fields[at] for at in named} for fields in examples]


def bounded(items: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """The first items, without their line numbers, as many as fit into memory easily."""
    characters = 0
    for count, (_, item) in enumerate(items, 1):
        yield item
        cells = item.values() if isinstance(item, dict) else item
        characters += (
            sum(len(cell) for cell in cells if isinstance(cell, str)) if isinstance(cells, Iterable) else 0
        )
        if count >= MOST_ROWS or characters > MOST_CHARACTERS:
            return
