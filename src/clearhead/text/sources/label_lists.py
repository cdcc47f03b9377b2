"""Labels of a text as they are written: `a`, `a|b`, `["a", "b"]` or a list enters; names leave, or the fault."""

import ast
import json
from collections import Counter
from collections.abc import Sequence

from clearhead.config.labels import LabelKind

SEPARATORS = ("|", ";", ",")  # if several are found in a cell, the first


class BadLabels(ValueError):
    """Labels that cannot be read, and what to do."""

    def __init__(self, fault: str, advice: str) -> None:
        super().__init__(fault)
        self.advice = advice


def as_label(value: object, labels: LabelKind = "one") -> object:
    """Labels may be numbers or true and false, or a list of such; space around them has no meaning."""
    if isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, list) and labels != "one":
        names = [as_label(item) for item in value]
        return (
            json.dumps(names, ensure_ascii=False) if all(isinstance(name, str) for name in names) else value
        )
    if value is None and labels == "several":
        return ""
    return value.strip() if isinstance(value, str) else value


def as_words(value: object) -> object:
    """A list of words as one text; what is not such a list stays as it is."""
    is_list = isinstance(value, list) and all(
        isinstance(word, str) and word and not any(map(str.isspace, word)) for word in value
    )
    return " ".join(value) if is_list and isinstance(value, list) else value


def separator_in(written: str) -> str | None:
    """What separates the labels of a cell, if it has several and is no list."""
    return None if written.startswith("[") else next((mark for mark in SEPARATORS if mark in written), None)


def label_list(written: str, separator: str | None) -> tuple[str, ...]:
    """The names in a cell: a list of JSON or Python, or names with a separator, or with spaces, between them."""
    written = written.strip()
    if not (written.startswith("[") and written.endswith("]")):
        return tuple(name for part in written.split(separator) if (name := part.strip()))
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            found = None
    names = [as_label(item) for item in found] if isinstance(found, list) else [None]
    if not all(isinstance(name, str) and name for name in names):
        raise BadLabels(f"the labels {written[:60]!r} are no list of names", 'Write a|b or ["a", "b"].')
    return tuple(str(name) for name in names)


def without_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    """The labels of a text, sorted; one that comes twice is rejected."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadLabels(f"names the label {twice[0][:60]!r} twice", "Remove one of them.")
    return tuple(sorted(names))


def matched(words: Sequence[str], labels: str | tuple[str, ...]) -> Sequence[str]:
    """The words, if there are as many labels."""
    if len(words) != len(labels):
        raise BadLabels(
            f"has {len(words)} word{'s' * (len(words) != 1)} but {len(labels)} label{'s' * (len(labels) != 1)}",
            "Each word, between spaces, needs one label: add what is missing.",
        )
    return words
