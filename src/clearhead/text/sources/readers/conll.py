"""`.conll`: a word a line with its columns, and a blank line after each sentence; `.conllu` likewise.

The word is in the first column and its label in the last, or as `data.columns` says; in a `.conllu` the form and the
part of speech. `-DOCSTART-`, comments, and the contracted words and empty nodes of a `.conllu` are skipped.
"""

import json
from collections.abc import Iterator

from clearhead.examples import Example
from clearhead.text.sources.lines import without_end
from clearhead.text.sources.scan import Scan, TextRow

UNIVERSAL = (".conllu", ".conllu.gz")
FORM, PART_OF_SPEECH = 1, 3  # columns of a .conllu
SAME = "Every line needs a word and its labels, and a blank line ends a sentence: look for what is missing."


def read_conll(scan: Scan) -> Iterator[Example]:
    """The sentences: texts alone, or with a label for each word."""
    return scan.examples(_rows(scan))


def _rows(scan: Scan) -> Iterator[TextRow]:
    """The words of each sentence, and their labels if they are asked for, as the texts of one row."""
    is_labelled = len(scan.schema.fields) > 1
    for first, words in _sentences(scan):
        texts = [" ".join(word for word, _ in words)]
        yield first, [*texts, json.dumps([label for _, label in words])] if is_labelled else texts


def _sentences(scan: Scan) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Each sentence with the number of its first line; one with a line that was reported is dropped."""
    is_universal = scan.file.name.lower().endswith(UNIVERSAL)
    held: list[tuple[str, str]] = []
    first, start, width, is_whole = 0, 0, 0, True
    for number, line in scan.lines():
        fields = _fields(without_end(line))
        if not fields:
            if held and is_whole:
                yield start, held
            held, start, is_whole = [], 0, True
            continue
        if _is_skipped(fields, width, is_universal):
            scan.ignore("comment or mark")
            continue
        first, width, start = first or number, width or len(fields), start or number
        if len(fields) != width:
            columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            scan.problem(number, f"has {columns}, but line {first} has {width}", SAME)
            is_whole = False
            continue
        places = _places(scan, number, width, is_universal)
        if places is None:
            return
        word, label = (fields[place] for place in places)
        if any(map(str.isspace, word)) or not word or not label:
            what = "the label is empty" if word and not label else f"the word {word[:40]!r} has a space in it"
            scan.problem(number, what, "Fill it in, or write _ for the space.")
            is_whole = False
        held.append((word, label))
    if held and is_whole:
        yield start, held


def _fields(line: str) -> list[str]:
    """The columns of a line, between tabs or, if it has none, between spaces; none of a blank line."""
    return [field.strip() for field in line.split("\t")] if "\t" in line and line.strip() else line.split()


def _is_skipped(fields: list[str], width: int, is_universal: bool) -> bool:
    if fields[0] == "-DOCSTART-" or (is_universal and not fields[0].isdecimal()):
        return True
    return fields[0].startswith("#") and len(fields) != width and (width > 0 or fields[0] == "#")


def _places(scan: Scan, number: int, width: int, is_universal: bool) -> tuple[int, int] | None:
    """The columns of the word and of its label; None, reported, if the file has no such columns."""
    columns = scan.columns
    if columns is None:
        word, label = (FORM, PART_OF_SPEECH) if is_universal else (0, width - 1)
    else:
        if not all(isinstance(column, int) for column in columns):
            scan.problem(number, "has no names of columns", "Give their numbers: --data.columns 1,4.")
            return None
        word, label = int(columns[0]) - 1, int(columns[-1]) - 1
    needed = max(word, label) + 1 if scan.schema.kind == "labelled" else word + 1
    if width < needed or (word == label and scan.schema.kind == "labelled"):
        scan.problem(
            number,
            f"has {width} column{'s' * (width != 1)}, so there is no label beside the word",
            "Write the word, spaces or a tab, and its label in every line, or set data.columns.",
        )
        return None
    return word, min(label, width - 1)
