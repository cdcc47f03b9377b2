"""How a table is written: its first lines enter; what separates its columns leaves, and whether its first line names
them.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TypeVar

from clearhead.text.sources.values import folded

Item = TypeVar("Item")

# If several fit, the first: commas and bars are also found inside texts and numbers.
DELIMITERS = ("\t", ";", "|", ",")
FIRST_ITEMS, FIRST_CHARACTERS = 100, 1 << 16
SENTENCE_ENDS = (".", "!", "?", "。", "…")


def first_items(items: Iterable[Item], size: Callable[[Item], int]) -> list[Item]:
    """The first items, bounded in number and size."""
    first: list[Item] = []
    characters = 0
    for item in items:
        first.append(item)
        characters += size(item)
        if len(first) >= FIRST_ITEMS or characters > FIRST_CHARACTERS:
            break
    return first


def find_delimiter(lines: Sequence[str], wanted: Iterable[str]) -> str | None:
    """What separates the columns of a table that starts with these lines; None if nothing does clearly."""
    names = set(wanted)
    fits = {delimiter: _fit(lines, delimiter, names) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=fits.__getitem__)
    return best if fits[best] >= (False, 0.5) else None


def _fit(lines: Sequence[str], delimiter: str, wanted: set[str]) -> tuple[bool, float]:
    """Whether the first line then has the wanted names, and the share of lines with as many columns as the first."""
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return False, 0.0
    if not rows or len(rows[0]) < 2:
        return False, 0.0
    same = sum(len(row) == len(rows[0]) for row in rows)
    return wanted <= set(map(folded, rows[0])), same / len(rows)


def has_header(rows: Sequence[Sequence[str]]) -> bool | None:
    """Whether the first row names the columns; None if nothing speaks for it or against it.

    A name is not a value of its column: it does not come again, it is no number, and no sentence above sentences. A
    column of numbers, or of a few values that come again, without its first cell speaks for a header.
    """
    if len(rows) < 2:
        return None
    speaks_for = False
    for at, head in enumerate(cell.strip() for cell in rows[0]):
        column = [row[at].strip() for row in rows[1:] if at < len(row)]
        if head and (head in column or _is_number(head) or _is_one_of_the_texts(head, column)):
            return False
        filled = [cell for cell in column if cell]
        repeated = len(filled) >= 4 and 2 * len(Counter(filled)) <= len(filled)
        speaks_for |= bool(head and filled) and (repeated or all(map(_is_number, filled)))
    return speaks_for or None


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _is_one_of_the_texts(head: str, column: Sequence[str]) -> bool:
    """Whether a cell is a sentence, at least half as long as usual, above sentences."""
    sentences = sum(cell.endswith(SENTENCE_ENDS) for cell in column)
    usual = median(len(cell) for cell in column) if column else 0
    return head.endswith(SENTENCE_ENDS) and 2 * sentences >= len(column) and 2 * len(head) >= usual
