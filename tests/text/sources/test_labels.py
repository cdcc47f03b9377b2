"""Labels in files: several of a text, one of each word, two texts; and every way in which they can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.config.data import Reading
from clearhead.errors import ClearheadError
from clearhead.examples import Labelled
from clearhead.text.sources.read import ExampleReader, read


def reader_of(path: Path, text: str, **settings: Any) -> ExampleReader:
    path.write_text(text, encoding="utf-8")
    return read(str(path), "labelled", reading=Reading(**settings))


SEVERAL = {
    "bars.csv": "text,label\nsoup,food|hot\nsong,music\nstone,\n",
    "lists.csv": 'text,label\nsoup,"[""hot"", ""food""]"\nsong,"[\'music\']"\nstone,[]\n',
    "commas.tsv": "soup\tfood, hot\nsong\tmusic\nstone\t\n",
    "lists.jsonl": '{"text": "soup", "label": ["food", "hot"]}\n{"text": "song", "label": ["music"]}\n'
    '{"text": "stone", "label": []}\n',
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_labels_are_read_alike_in_every_spelling(tmp_path: Path, name: str) -> None:
    reader = reader_of(tmp_path / name, SEVERAL[name], labels="several")
    assert list(reader) == [
        Labelled("soup", ("food", "hot")),
        Labelled("song", ("music",)),
        Labelled("stone", ()),
    ]
    assert name.startswith("lists") or "separates the labels" in reader.tally.guesses[0]


def test_a_stated_separator_is_the_only_one(tmp_path: Path) -> None:
    text = "text\tlabel\nsoup\thot, spicy food\n"
    reader = reader_of(tmp_path / "a.tsv", text, labels="several", label_separator="|")
    assert list(reader) == [Labelled("soup", ("hot, spicy food",))]


def test_two_texts_are_read_with_their_label(tmp_path: Path) -> None:
    text = "text,second,label\nA dog runs.,An animal moves.,yes\n"
    (example,) = reader_of(tmp_path / "a.csv", text, texts=2)
    assert example == Labelled("A dog runs.", "yes", "An animal moves.")
    assert isinstance(example, Labelled)
    assert example.input == "A dog runs.\tAn animal moves."


CONLL = "-DOCSTART- O\n\nAna B-PER\nlives O\n\nin O\nOslo I-LOC\n"


@pytest.mark.parametrize("text", [CONLL, CONLL.replace(" ", "\t"), "# a comment\n" + CONLL, CONLL + "\n\n"])
def test_sentences_end_at_blank_lines(tmp_path: Path, text: str) -> None:
    reader = reader_of(tmp_path / "a.conll", text, labels="each-word")
    assert list(reader) == [Labelled("Ana lives", ("B-PER", "O")), Labelled("in Oslo", ("O", "I-LOC"))]


def test_the_last_column_is_the_label_unless_columns_say_otherwise(tmp_path: Path) -> None:
    text = "Ana NNP B-NP B-PER\nruns VBZ B-VP O\n"
    last = reader_of(tmp_path / "a.conll", text, labels="each-word")
    assert list(last) == [Labelled("Ana runs", ("B-PER", "O"))]
    second = reader_of(tmp_path / "a.conll", text, labels="each-word", columns=(1, 2))
    assert list(second) == [Labelled("Ana runs", ("NNP", "VBZ"))]


def test_universal_dependencies_give_parts_of_speech(tmp_path: Path) -> None:
    rows = [
        "# text = Voy al mar",
        "1\tVoy\tir\tVERB",
        "2-3\tal\t_\t_",
        "2\ta\ta\tADP",
        "3\tel\tel\tDET",
        "4\tmar\tmar\tNOUN",
    ]
    reader = reader_of(tmp_path / "a.conllu", "\n".join(rows) + "\n", labels="each-word")
    assert list(reader) == [Labelled("Voy a el mar", ("VERB", "ADP", "DET", "NOUN"))]


def test_words_and_labels_may_be_lists_or_texts(tmp_path: Path) -> None:
    record = json.dumps({"text": ["Ana", "runs"], "label": ["B-PER", "O"]})
    expected = [Labelled("Ana runs", ("B-PER", "O"))]
    assert list(reader_of(tmp_path / "a.jsonl", record + "\n", labels="each-word")) == expected
    assert list(reader_of(tmp_path / "a.tsv", "Ana runs\tB-PER O\n", labels="each-word")) == expected


FAULTS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "a ragged line": (
        "a.conll",
        "Ana NNP O\nruns O\n",
        {},
        "a.conll, line 2 has 2 columns, but line 1 has 3",
    ),
    "no labels": ("a.conll", "Ana\nruns\n", {}, "line 1 has 1 column, so there is no label beside the word"),
    "a word without a label": ("a.conll", "Ana\tO\nruns\t\n", {}, "line 2: the label is empty"),
    "names of columns": ("a.conll", "Ana O\n", {"columns": ("word", "tag")}, "has no names of columns"),
    "too few labels": ("a.tsv", "Ana runs\tO\n", {}, "line 1 has 2 words but 1 label"),
    "one label a text": ("a.conll", "Ana O\n", {"labels": "one"}, "Set data.labels = 'each-word'"),
    "a label twice": (
        "a.csv",
        "text,label\nx,a|b|a\n",
        {"labels": "several"},
        "line 2: names the label 'a' twice",
    ),
    "half a list": ("a.csv", 'text,label\nx,"[""a"", 3.x]"\n', {"labels": "several"}, "are no list of names"),
    "no second text": (
        "a.csv",
        "text,second,label\nx,,a\n",
        {"labels": "one", "texts": 2},
        "the second is empty",
    ),
    "two texts in CoNLL": ("a.conll", "Ana O\n", {"texts": 2}, "omit data.texts"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, fault: str) -> None:
    name, text, settings, message = FAULTS[fault]
    with pytest.raises(ClearheadError) as caught:
        list(reader_of(tmp_path / name, text, **({"labels": "each-word"} | settings)))
    assert message in str(caught.value)


def test_a_sentence_with_a_bad_line_is_skipped_whole(tmp_path: Path) -> None:
    text = "Ana O\nruns\n\nBo O\n"
    reader = reader_of(tmp_path / "a.conll", text, labels="each-word", on_error="skip")
    assert list(reader) == [Labelled("Bo", ("O",))]
    assert reader.problems.count == 1
