"""Finding what a source names, reading it again, holding out a part, and streaming in little memory."""

import gzip
import io
import json
import os
import pickle
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import corpora as builtin
from clearhead.config.data import DataConfig, Reading
from clearhead.corpora.corpus import Corpus, Option
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Example, Labelled, Pair, Split, Text
from clearhead.text.sources.files import spooled
from clearhead.text.sources.held_out import split_of
from clearhead.text.sources.read import read, read_split


@pytest.fixture
def corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two corpora small enough to know by heart."""

    def count_up(seed: int, options: Any) -> Iterator[tuple[str, Example]]:
        for number in range(10_000):
            pair = Pair(f"{seed}.{number}", options["word"])
            yield pair.source, pair

    def judge(seed: int, options: Any) -> Iterator[tuple[str, Example]]:
        for number in range(10_000):
            yield str(number), Labelled(f"text {number}", "good")

    option = Option("word", ("uno", "dos"), "uno", "the word on the right")
    sizes: dict[Split, int] = {"train": 50, "validation": 5, "test": 4}
    known = {
        "numbers": Corpus("numbers", "pair", "Numbers.", count_up, sizes, (option,)),
        "verdicts": Corpus("verdicts", "labelled", "Verdicts.", judge, sizes),
    }
    monkeypatch.setattr(builtin, "CORPORA", known)


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)


# Files, folders, patterns


def test_a_folder_gives_what_it_knows_in_order_and_lists_the_rest(tmp_path: Path) -> None:
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.txt").write_text("no")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "b" / "deep" / "2.TXT").write_text("two")
    (tmp_path / "b" / "1.jsonl.gz").write_bytes(gzip.compress(b'{"text": "one"}'))
    (tmp_path / "c.txt").write_text("three")
    reader = read(tmp_path, "text")
    assert list(reader) == [Text("one"), Text("two"), Text("three")]
    ignored = [str(tmp_path / ".git") + os.sep, str(tmp_path / ".hidden.txt"), str(tmp_path / "picture.png")]
    assert list(reader.ignored) == ignored
    assert reader.paths == tuple(tmp_path / name for name in ("b/1.jsonl.gz", "b/deep/2.TXT", "c.txt"))


def test_a_pattern_gives_its_matches_in_order(tmp_path: Path) -> None:
    write(tmp_path, b_md="two", a_md="one", c_txt="no")
    (tmp_path / "d.md").mkdir()
    reader = read(str(tmp_path / "*.md"), "text")
    assert list(reader) == [Text("one"), Text("two")]
    assert reader.ignored == (str(tmp_path / "d.md") + os.sep,)


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("one")
    (tmp_path / "a1.txt").write_text("no")
    assert list(read(tmp_path / "a[1].txt", "text")) == [Text("one")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("bok.txt", r"bok.txt does not exist.\nDid you mean .*book.txt\?"),
        ("other/book.txt", r"book.txt does not exist.\nThere is no folder .*other either."),
        ("zzz", r"zzz does not exist.\nLooked in "),
        ("*.csv", r"No file matches .*\*.csv.\nCheck the folder"),
        (
            "pictures",
            r"pictures contains no file of a known format, only 1 others, such as .*a.png.\nA folder is searched",
        ),
        ("empty", r"empty is empty."),
    ],
)
def test_names_that_lead_nowhere_fail_at_once(tmp_path: Path, source: str, message: str) -> None:
    write(tmp_path, book_txt="text")
    (tmp_path / "empty").mkdir()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match=message):
        read(str(tmp_path / source), "text")


@pytest.mark.parametrize("source", ["", [], {}, [""], [["a.es", "a.en", "a.de"]], {"x": []}, 5, None])
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match=r"The source .* cannot be read: .*should be a file"):
        read(source, "pair")


# Pairs


def test_lists_and_aligned_files_mix(tmp_path: Path) -> None:
    write(tmp_path, a_es="uno", a_en="one", b_tsv="dos\ttwo")
    both = (str(tmp_path / "a.es"), str(tmp_path / "a.en"))
    assert list(read(both, "pair")) == [Pair("uno", "one")]
    assert list(read((both,), "pair")) == [Pair("uno", "one")]
    assert list(read((str(tmp_path / "b.tsv"), both), "pair")) == [Pair("dos", "two"), Pair("uno", "one")]
    assert list(read((str(tmp_path / "b.tsv"),) * 2, "pair")) == [Pair("dos", "two")] * 2


def test_patterns_of_aligned_files_pair_up_by_name(tmp_path: Path) -> None:
    write(tmp_path, a_es="uno", a_en="one", b_es="dos", b_en="two")
    both = (str(tmp_path / "*.es"), str(tmp_path / "*.en"))
    assert list(read(both, "pair")) == [Pair("uno", "one"), Pair("dos", "two")]
    (tmp_path / "b.en").rename(tmp_path / "c.en")
    with pytest.raises(
        DataError, match=r"\*.es matches 2 files and .*\*.en matches 2, and their names do not pair up"
    ):
        read(both, "pair")


def test_aligned_files_are_for_pairs_and_labels_for_classes(tmp_path: Path) -> None:
    write(tmp_path, a_es="uno", a_en="one")
    both = (str(tmp_path / "a.es"), str(tmp_path / "a.en"))
    assert list(read(both, "text")) == [Text("uno"), Text("one")]
    with pytest.raises(
        DataError, match="are given as aligned files, but this task does not learn from pairs"
    ):
        read((both,), "text")
    with pytest.raises(DataError, match=r"A table of labels \(x\) fits only task = .classify."):
        read({"x": both}, "pair")


# Standard input and pipes


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    spooled.cache_clear()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"uno\tone\ndos\ttwo\n")))
    yield
    spooled.cache_clear()


@pytest.mark.usefixtures("stdin")
def test_standard_input_can_be_read_again_and_by_others() -> None:
    pairs = read("-", "pair")
    assert list(pairs) == list(pairs) == [Pair("uno", "one"), Pair("dos", "two")]
    assert list(read("-", "text")) == [Text("uno\tone\ndos\ttwo\n")]
    assert pairs.names == ("stdin",)


def test_a_pipe_can_be_read_again(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("line\n",))
    writer.start()
    reader = read(pipe, "text")
    writer.join()
    assert list(reader) == list(reader) == [Text("line\n")]


# Corpora


@pytest.mark.usefixtures("corpora")
def test_a_built_in_corpus_with_its_splits_and_options() -> None:
    reading = Reading(seed=3, count=7, options={"word": "dos"})
    reader = read("builtin:numbers", "pair", reading=reading)
    train = list(reader)
    assert len(train) == 7
    assert all(
        isinstance(pair, Pair) and pair.source.startswith("3.") and pair.target == "dos" for pair in train
    )
    test = list(read("builtin:numbers", "pair", split="test"))
    assert test == list(read("builtin:numbers@test", "pair"))
    assert len(test) == 4
    assert reader.names == ("builtin:numbers",)
    assert next(iter(read("builtin:verdicts", "text"))) == Text("text 0")


@pytest.mark.usefixtures("corpora")
@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ("builtin:nubmers", {}, DataError, "no built-in corpus 'nubmers'. Did you mean numbers?"),
        (
            "builtin:verdicts",
            {},
            DataError,
            "builtin:verdicts contains examples of the kind labelled, but this task needs pair",
        ),
        ("builtin:numbers@tset", {}, ConfigError, "builtin:numbers has no split 'tset'. Did you mean test?"),
        ("builtin:numbers", {"wrod": "uno"}, ConfigError, "has no option 'wrod'. Did you mean word?"),
        ("builtin:numbers", {"word": "tres"}, ConfigError, "word = 'tres'"),
    ],
)
def test_a_wrong_name_of_a_corpus_or_option(source: str, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error) as caught:
        read(source, "pair", reading=Reading(options=options))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(builtin.CORPORA))
def test_every_built_in_corpus_can_be_read(name: str) -> None:
    corpus = builtin.CORPORA[name]
    kind = corpus.kind
    data = DataConfig(
        train=f"builtin:{name}", count=20, labels=corpus.labels, texts=2 if corpus.texts == 2 else 1
    )
    for split in ("train", "validation", "test"):
        reader = read_split(data, kind, split)
        assert reader is not None
        examples = list(islice(reader, 20))
        assert examples
        assert all(
            isinstance(example, {"text": Text, "pair": Pair, "labelled": Labelled}[kind])
            for example in examples
        )


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset of the hub's kind in a folder, with a README that names its classes."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "reviews"
    folder.mkdir()
    rows = [{"text": "fine", "label": 1}, {"text": "dull", "label": 0}, {"text": "so so", "label": -1}]
    for split in ("train", "test"):
        lines = (json.dumps(row | {"text": f"{row['text']} {split}"}) for row in rows)
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    (folder / "README.md").write_text(
        "---\ndataset_info:\n  features:\n  - name: text\n    dtype: string\n  - name: label\n    dtype:\n"
        "      class_label:\n        names:\n          '0': negative\n          '1': positive\n---\n"
    )
    return str(folder)


def test_a_dataset_of_the_hub(dataset: str) -> None:
    reader = read(f"hub:{dataset}", "labelled", on_error="skip", split="test")
    assert list(reader) == [Labelled("fine test", "positive"), Labelled("dull test", "negative")]
    assert [str(problem) for problem in reader.problems] == [
        f"hub:{dataset}@test, line 3: the label is missing"
    ]
    assert next(iter(read(f"hub:{dataset}@train", "text"))) == Text("fine train")
    with pytest.raises(DataError, match="has no 'sentence'; it has 'text', 'label'"):
        list(read(f"hub:{dataset}", "text", ["sentence"]))
    with pytest.raises(DataError, match=r"split validation, cannot be opened: .*\nWrite hub:NAME"):
        list(read(f"hub:{dataset}", "text", split="validation"))


def test_a_dataset_never_runs_code(dataset: str) -> None:
    mark = Path(dataset, "ran")
    Path(dataset, "reviews.py").write_text(f"open({str(mark)!r}, 'w')")
    with pytest.raises(DataError, match=r"cannot be opened: Dataset scripts are no longer supported"):
        list(read(f"hub:{dataset}", "text"))
    assert not mark.exists()


def test_the_hub_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        DataError, match=r"hub:x needs the package datasets.*\nInstall it \(pip install 'clearhead\[hub\]'\)"
    ):
        list(read("hub:x", "text"))


# What is held out

SHARES = {"validation": 0.2, "test": 0.3}
INPUTS = st.text(st.characters(codec="utf-8"))


@given(INPUTS, INPUTS, INPUTS, st.integers(0, 2**64))
def test_the_side_of_an_example_depends_on_its_input_alone(
    text: str, one: str, other: str, seed: int
) -> None:
    side = split_of(Pair(text, one), SHARES, seed)
    assert side == split_of(Pair(text, other), SHARES, seed)
    assert side == split_of(Labelled(text, one), SHARES, seed) == split_of(Text(text, False), SHARES, seed)


@given(st.text("abc"), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_larger_share_only_adds(text: str, small: float, large: float) -> None:
    small, large = sorted((small, large))
    for split in ("validation", "test"):
        assert split_of(Text(text), {split: small}) != split or split_of(Text(text), {split: large}) == split
    assert split_of(Text(text), {}) == "train"


def test_shares_are_met_and_depend_on_the_seed() -> None:
    texts = [Text(str(number)) for number in range(5000)]
    sides = [split_of(text, SHARES) for text in texts]
    assert abs(sides.count("validation") - 1000) < 100
    assert abs(sides.count("test") - 1500) < 100
    assert sides != [split_of(text, SHARES, seed=2) for text in texts]


def test_the_splits_of_a_file_are_its_examples_each_once(tmp_path: Path) -> None:
    rows = [f"source {number % 300}\ttarget {number}" for number in range(400)]
    write(tmp_path, a_tsv="\n".join(rows))
    data = DataConfig(train=str(tmp_path / "a.tsv"), validation=0.2, test=0.1)
    splits: dict[str, list[Example]] = {}
    for split in ("train", "validation", "test"):
        reader = read_split(data, "pair", split)
        assert reader is not None
        splits[split] = list(reader)
        assert reader.tally.held_out == 400 - len(splits[split]) > 0
    everything = [example for part in splits.values() for example in part]
    assert sorted(map(repr, everything)) == sorted(map(repr, read(tmp_path / "a.tsv", "pair")))
    sources = [{example.source for example in part if isinstance(example, Pair)} for part in splits.values()]
    assert len(set.union(*sources)) == sum(map(len, sources))


def test_a_piece_of_text_begins_a_document_where_the_piece_before_is_on_the_other_side(
    tmp_path: Path,
) -> None:
    write(tmp_path, book_txt="".join(f"This is line {number} of the book.\n" for number in range(2000)))
    whole = [piece for piece in read(tmp_path / "book.txt", "text") if isinstance(piece, Text)]
    shares = {"validation": 0.3}
    for side in ("train", "validation"):
        kept = list(read(tmp_path / "book.txt", "text").keeping(side, shares))
        places = [at for at, piece in enumerate(whole) if split_of(piece, shares) == side]
        expected = [Text(whole[at].text, starts=at == 0 or at - 1 not in places) for at in places]
        assert kept == expected
        assert 2 < sum(piece.starts for piece in kept if isinstance(piece, Text)) < len(kept)


@pytest.mark.usefixtures("corpora")
def test_which_source_each_split_has(tmp_path: Path) -> None:
    write(tmp_path, a_tsv="a\tb\n" * 3, b_tsv="c\td\n")
    builtin_data = DataConfig(train="builtin:numbers")
    held = read_split(builtin_data, "pair", "validation")
    assert held is not None
    assert list(held) == list(read("builtin:numbers@validation", "pair"))
    shared = DataConfig(train="builtin:numbers", validation=0.5)
    half = read_split(shared, "pair", "validation")
    assert half is not None
    assert set(half) < set(read("builtin:numbers", "pair"))
    files = DataConfig(train=str(tmp_path / "a.tsv"), validation=str(tmp_path / "b.tsv"))
    assert list(read_split(files, "pair", "validation") or []) == [Pair("c", "d")]
    assert read_split(files, "pair", "test") is None
    assert read_split(DataConfig(train=str(tmp_path / "a.tsv"), validation=0), "pair", "validation") is None
    assert DataConfig(train=str(tmp_path / "a.tsv")).shares == {"validation": 0.02}


# Memory and processes


@pytest.mark.parametrize("packed", [False, True])
def test_a_large_file_streams_in_little_memory(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("large.tsv.gz" if packed else "large.tsv")
    line = b"una frase corta\ta short sentence\n"
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as file:
        for _ in range(80):
            file.write(line * 1000)
    reader = read(path, "pair")
    tracemalloc.start()
    count = sum(1 for _ in reader)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == reader.tally.lines == 80_000
    assert peak < 1_300_000


def test_a_reader_can_be_sent_to_another_process(tmp_path: Path) -> None:
    write(tmp_path, a_txt="one")
    reader = read(tmp_path / "a.txt", "text").keeping("train", {"test": 0.0})
    assert list(pickle.loads(pickle.dumps(reader))) == [Text("one")]
