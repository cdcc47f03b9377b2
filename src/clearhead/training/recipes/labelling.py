"""What the labels of some data are about: a source enters; a guess, its columns and its reason leave.

A CoNLL file and a built-in corpus say it themselves. In a table, two texts are recognised by the names of their
columns, and several labels by lists, or by a separator whose parts come again.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from clearhead.config.data import DataConfig
from clearhead.corpora import CORPORA
from clearhead.text.sources.formats import FORMATS
from clearhead.text.sources.label_lists import SEPARATORS
from clearhead.text.sources.parts import BuiltinPart, FilePart
from clearhead.text.sources.read import read
from clearhead.text.sources.scan import LABEL
from clearhead.text.sources.values import folded
from clearhead.training.recipes.choices import Choices
from clearhead.training.recipes.columns import Record, first_records

# Names under which two texts of a pair are published.
PAIRS = (
    ("text", "second"), ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"),
    ("text1", "text2"), ("text_a", "text_b"), ("question", "sentence"), ("question", "answer"), ("query", "passage"),
)  # fmt: skip
WORDS = ("tokens", "words", "text")
NAMES = (
    LABEL,
    "labels",
    "tags",
    "ner_tags",
    "pos_tags",
    "gold_label",
    "topics",
    "genres",
    "categories",
    "class",
)
LISTED = 0.1  # the share of cells with a separator from which they are lists
LONGEST = 40  # characters of a label


def choose_labelling(choices: Choices) -> None:
    """Chooses what is labelled and how many texts an example has, unless that is stated."""
    data = DataConfig(**choices.table["data"])
    if any(choices.has(f"data.{key}") for key in ("labels", "texts")) or not isinstance(data.train, str):
        return
    if data.train.startswith("builtin:"):
        corpus = CORPORA.get(data.train.removeprefix("builtin:").partition("@")[0])
        if corpus is not None and (corpus.labels, corpus.texts) != ("one", 1):
            own = {"labels": corpus.labels, "texts": corpus.texts}
            chosen = {f"data__{key}": value for key, value in own.items() if value not in ("one", 1)}
            choices.choose(f"builtin:{corpus.name} has such labels", **chosen)
        return
    parts = read(data.train, "text", reading=data.replace(columns=None)).parts
    first = parts[0]
    if isinstance(first, BuiltinPart) or not isinstance(first, FilePart):
        return
    labels = FORMATS[first.format].labels
    if labels is not None:
        choices.choose(f"a .{first.format} file has them", data__labels=labels)
        return
    rows = first_records(data.train, "labelled", data)
    if rows and data.columns is None:
        choose_columns(choices, rows)


def choose_columns(choices: Choices, rows: Sequence[Record]) -> None:
    """Chooses the columns of a table whose labels are lists, or that has two texts."""
    names = {folded(str(name)): name for name in rows[0]}
    label = next((names[name] for name in NAMES if name in names), None)
    if label is None:
        return
    pair = next((pair for pair in PAIRS if set(pair) <= names.keys()), None)
    text = next((names[name] for name in WORDS if name in names), None)
    cells = [row[label] for row in rows if label in row]
    if text is not None and are_tags(rows, text, label):
        choices.choose("a list of labels beside a list of words", data__labels="each-word")
        choices.choose("words and labels", data__columns=[text, label])
        return
    if pair is not None:
        choices.choose(f"the columns {pair[0]} and {pair[1]} are two texts", data__texts=2)
    if why := are_lists(cells):
        choices.choose(why, data__labels="several")
    texts = [names[name] for name in pair] if pair is not None else [text] if text is not None else []
    if texts and (pair is not None or why) and [*map(str, texts), str(label)] != ["text", LABEL]:
        choices.choose("by their names", data__columns=[*texts, label])


def are_tags(rows: Sequence[Record], text: Any, label: Any) -> bool:
    """Whether both columns are lists, of the same length in each row."""
    both = [(row.get(text), row.get(label)) for row in rows]
    return all(isinstance(a, list) and isinstance(b, list) and len(a) == len(b) for a, b in both)


def are_lists(cells: Sequence[Any]) -> str:
    """Why the labels are lists; nothing if they are not."""
    filled = [cell for cell in cells if cell not in (None, "")]
    if filled and all(isinstance(cell, list) for cell in filled):
        return "the labels are lists"
    texts = [cell.strip() for cell in filled if isinstance(cell, str)]
    if texts and all(text.startswith("[") and text.endswith("]") for text in texts):
        return "the labels are written as lists"
    for mark in SEPARATORS:
        parts = [[part.strip() for part in text.split(mark)] for text in texts]
        several = [names for names in parts if len(names) > 1]
        found = Counter(name for names in parts for name in names)
        are_short = all(0 < len(name) <= LONGEST for name in found)
        come_again = sum(found[name] > 1 for names in several for name in names)
        total = sum(map(len, several))
        if several and len(several) >= LISTED * len(texts) and are_short and come_again >= 0.9 * total:
            return f"{mark!r} separates the labels of a text"
    return ""
