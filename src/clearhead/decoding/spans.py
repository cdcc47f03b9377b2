"""Labels of words enter; the spans that they mark leave, such as names of several words.

A label B-X begins a span of type X and I-X continues it, O is outside (IOB, IOB2); or E-X ends it and S-X is one alone
(IOBES; L and U in BILOU). Labels that do not fit each other are read as the shared task of CoNLL reads them
(`conlleval`, and seqeval after it): an I-X that follows nothing of type X begins a span.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OUTSIDE = "O"
MARKED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
SAME = {"L": "E", "U": "S"}  # in BILOU


@dataclass(frozen=True)
class Span:
    """Some words and the type of what they name: words[start:end]."""

    type: str
    start: int
    end: int


def marks_spans(labels: Iterable[str]) -> bool:
    """Whether labels mark spans, rather than saying something of each word."""
    others = [label for label in labels if label != OUTSIDE]
    return bool(others) and all(MARKED.fullmatch(label) for label in others)


def spans_of(labels: Sequence[str]) -> list[Span]:
    """The spans that the labels of the words of a text mark."""
    spans: list[Span] = []
    start, before, kind = 0, OUTSIDE, ""
    for at, label in enumerate([*labels, OUTSIDE]):
        mark, name = parts_of(label)
        if before != OUTSIDE and ends(before, kind, mark, name):
            spans.append(Span(kind, start, at))
        if begins(before, kind, mark, name):
            start = at
        before, kind = mark, name
    return spans


def parts_of(label: str) -> tuple[str, str]:
    """The mark of a label and its type."""
    found = MARKED.fullmatch(label)
    return (OUTSIDE, "") if found is None else (SAME.get(found[1], found[1]), found[2])


def ends(before: str, kind: str, mark: str, name: str) -> bool:
    """Whether a span ends between two words."""
    return before in "ES" or mark in "BSO" or kind != name


def begins(before: str, kind: str, mark: str, name: str) -> bool:
    """Whether a span begins with the second of two words."""
    return mark != OUTSIDE and (mark in "BS" or before in "ESO" or kind != name)
