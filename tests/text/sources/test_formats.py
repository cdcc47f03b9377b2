"""Round trips: what is written in a format is what is read from it, packed or not, whatever it says."""

import csv
import gzip
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import polib
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.data import Documents, Format, Reading
from clearhead.errors import DataError
from clearhead.examples import Example, Kind, Labelled, Pair, Text
from clearhead.text.sources.formats import EXTENSIONS, FORMATS
from clearhead.text.sources.read import read

ANY = st.characters(codec="utf-8", exclude_characters="\0")
LINE = st.characters(codec="utf-8", exclude_characters="\0\n\r")
CELL = st.characters(codec="utf-8", exclude_characters="\0\n\r\t")


def filled(alphabet: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts that are not blank."""
    return st.text(alphabet, min_size=1).filter(str.strip)


def pairs_of(alphabet: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(filled(alphabet), filled(alphabet)), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def examples(path: Path, content: bytes, kind: Kind, reading: Reading | None = None) -> list[Example]:
    """What is read from a file with this content, after checking that its gzip reads the same, and again."""
    packed = path.with_name(path.name + ".gz")
    path.write_bytes(content)
    packed.write_bytes(gzip.compress(content, mtime=0))
    reader = read(path, kind, reading=reading)
    plain = list(reader)
    assert plain == list(reader)
    assert plain == list(read(packed, kind, reading=reading))
    return plain


def test_every_format_has_a_reader_and_an_extension() -> None:
    assert set(FORMATS) == set(get_args(Format)) == set(EXTENSIONS.values())


@given(st.text(ANY, min_size=1), st.integers(120, 300))
def test_a_book_is_the_sum_of_its_pieces(folder: Path, book: str, size: int) -> None:
    reading = Reading(chunk_characters=size)
    pieces = examples(folder / "book.txt", book.encode(), "text", reading)
    expected = book.removeprefix("\ufeff").replace("\r\n", "\n")
    expected = expected if "\n" in expected else expected.replace("\r", "\n")
    texts = [piece for piece in pieces if isinstance(piece, Text)]
    assert "".join(piece.text for piece in texts) == expected
    assert [piece.starts for piece in texts] == [True] + [False] * (len(texts) - 1)


@given(st.lists(st.text("ab \n", min_size=50, max_size=400), min_size=1).filter(lambda parts: any(parts)))
def test_pieces_of_a_long_book_are_near_the_size_asked_for(folder: Path, parts: list[str]) -> None:
    pieces = examples(folder / "long.txt", "".join(parts).encode(), "text", Reading(chunk_characters=120))
    assert all(len(piece.text) < 2 * 120 for piece in pieces if isinstance(piece, Text))
    assert all(len(piece.text) >= 120 for piece in pieces[:-1] if isinstance(piece, Text))


def test_a_last_line_without_an_end_is_cut_like_any_other(folder: Path) -> None:
    reading = Reading(chunk_characters=120)
    pieces = [
        [piece.text for piece in examples(folder / "one.txt", content, "text", reading)]  # type: ignore[union-attr]
        for content in (b"word " * 500, b"word " * 500 + b"\n")
    ]
    assert len(pieces[0]) > 10
    assert pieces[0][:-1] == pieces[1][:-1]


def test_lines_are_counted_over_those_that_are_skipped(folder: Path) -> None:
    lines = [f"line {number:3} {'x' * 21}".encode() for number in range(1, 61)]
    lines[4], lines[30], lines[39] = b"\xff bad", b"bad \xff", b""
    (folder / "numbered.txt").write_bytes(b"\r\n".join(lines))
    reading = Reading(chunk_characters=120, max_line_bytes=500, documents="blank-line", on_error="skip")
    reading = reading.replace(encoding="utf-8")
    reader = read({"long": str(folder / "numbered.txt")}, "labelled", reading=reading)
    with pytest.raises(DataError, match="No example could be read from"):
        list(reader)
    assert sorted(problem.place.line for problem in reader.problems) == [1, 5, 31, 41]


@given(st.lists(filled(LINE), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_a_line_can_be_a_document(folder: Path, lines: list[str], end: str) -> None:
    content = ("\ufeff" + end.join(lines)).encode()
    got = examples(folder / "lines.txt", content, "text", Reading(documents="line"))
    assert got == [Text(line) for line in lines]


@given(st.lists(st.lists(filled(LINE), min_size=1, max_size=3), min_size=1, max_size=5))
def test_blank_lines_can_end_documents(folder: Path, documents: list[list[str]]) -> None:
    written = ["".join(line + "\n" for line in document) for document in documents]
    content = "\ufeff" + "\n \n".join(written)
    got = examples(folder / "documents.txt", content.encode(), "text", Reading(documents="blank-line"))
    joined: list[str] = []
    for piece in got:
        assert isinstance(piece, Text)
        if piece.starts:
            joined.append("")
        joined[-1] += piece.text
    assert joined == written


@pytest.mark.parametrize(
    ("documents", "texts"),
    [
        (None, ["fine film", "loved it"]),
        ("line", ["fine film", "loved it"]),
        ("blank-line", ["fine film\n", "loved it\n"]),
        ("file", ["fine film\n\nloved it\n"]),
    ],
)
def test_plain_texts_with_a_label(tmp_path: Path, documents: Documents | None, texts: list[str]) -> None:
    (tmp_path / "good.txt").write_text("fine film\n\nloved it\n")
    (tmp_path / "bad.txt").write_text("dull")
    source = {"positive": str(tmp_path / "good.txt"), "negative": (str(tmp_path / "bad.txt"),)}
    got = list(read(source, "labelled", reading=Reading(documents=documents)))
    assert got == [*(Labelled(text, "positive") for text in texts), Labelled("dull", "negative")]


@given(pairs_of(ANY), st.booleans())
def test_csv(folder: Path, pairs: list[tuple[str, str]], quote_all: bool) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
    writer.writerow(("n", "target", "source"))
    writer.writerows((i, y, x) for i, (x, y) in enumerate(pairs))
    got = examples(folder / "pairs.csv", out.getvalue().encode("utf-8-sig"), "pair")
    assert got == [Pair(x, y) for x, y in pairs]


@given(pairs_of(CELL), st.sampled_from(["\n", "\r\n"]))
def test_tsv(folder: Path, pairs: list[tuple[str, str]], end: str) -> None:
    content = end.join(f"{x}\t{y}" for x, y in pairs).removeprefix("\ufeff")
    no_header = Reading(header=False)  # words above numbers look like one
    got = examples(folder / "pairs.tsv", b"\xef\xbb\xbf" + content.encode(), "pair", no_header)
    assert got == [Pair(x.removeprefix("\ufeff") if i == 0 else x, y) for i, (x, y) in enumerate(pairs)]


@given(pairs_of(ANY), st.booleans())
def test_jsonl(folder: Path, pairs: list[tuple[str, str]], is_ascii: bool) -> None:
    rows = ({"target": y, "source": x, "more": [1]} for x, y in pairs)
    content = "\n".join(json.dumps(row, ensure_ascii=is_ascii) for row in rows)
    assert examples(folder / "pairs.jsonl", content.encode(), "pair") == [Pair(x, y) for x, y in pairs]


@given(pairs_of(ANY))
def test_parquet(folder: Path, pairs: list[tuple[str, str]]) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"source": [x for x, _ in pairs], "target": [y for _, y in pairs]}), out)
    assert examples(folder / "pairs.parquet", out.getvalue(), "pair") == [Pair(x, y) for x, y in pairs]


@given(pairs_of(ANY))
def test_po(folder: Path, pairs: list[tuple[str, str]]) -> None:
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    catalogue.extend(polib.POEntry(msgid=x, msgstr=y) for x, y in pairs)
    content = str(catalogue).encode()
    assert examples(folder / "pairs.po", content, "pair") == [Pair(x, y) for x, y in pairs]


@given(pairs_of(LINE), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_aligned_files(folder: Path, pairs: list[tuple[str, str]], end: str, ends: bool) -> None:
    sides = [end.join(side) + end * ends for side in zip(*pairs, strict=True)]
    names = [str(folder / "a.es"), str(folder / "a.en.gz")]
    (folder / "a.es").write_bytes(b"\xef\xbb\xbf" + sides[0].encode())
    (folder / "a.en.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + sides[1].encode(), mtime=0))
    assert list(read(tuple(names), "pair")) == [Pair(x, y) for x, y in pairs]


SEQUENCES = st.lists(st.text("ACGTN", min_size=1, max_size=400), min_size=1, max_size=5)


@given(SEQUENCES, st.integers(1, 80))
def test_fasta(folder: Path, sequences: list[str], width: int) -> None:
    content = "; a comment\n"
    for number, letters in enumerate(sequences):
        lines = [letters[at : at + width] for at in range(0, len(letters), width)]
        content += f">seq{number} class {number % 2}\n" + "\n".join(lines) + "\n\n"
    path, data = folder / "s.fasta", content.encode()
    named = [Labelled(letters, f"class {number % 2}") for number, letters in enumerate(sequences)]
    assert examples(path, data, "labelled") == named
    whole: list[str] = []
    for piece in examples(path, data, "text", Reading(chunk_characters=150)):
        assert isinstance(piece, Text)
        assert len(piece.text) <= 120
        whole += [""] * piece.starts
        whole[-1] += piece.text
    assert whole == sequences


def test_fasta_with_a_file_for_each_class(tmp_path: Path) -> None:
    (tmp_path / "yes.fa").write_text(">a\nACGT\nAC\n>b\nGG\n")
    (tmp_path / "no.fna").write_text(">c\nTTT\n")
    source = {"promoter": str(tmp_path / "yes.fa"), "other": str(tmp_path / "no.fna")}
    expected = [Labelled("ACGTAC", "promoter"), Labelled("GG", "promoter"), Labelled("TTT", "other")]
    assert list(read(source, "labelled")) == expected


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_newline_ends_a_line(tmp_path: Path, end: str) -> None:
    (tmp_path / "a.es").write_text(f"uno{end}dos\ntres\n", encoding="utf-8", newline="")
    (tmp_path / "a.en").write_text("one two\nthree\n")
    got = list(read((str(tmp_path / "a.es"), str(tmp_path / "a.en")), "pair"))
    assert got == [Pair(f"uno{end}dos", "one two"), Pair("tres", "three")]


def test_columns_by_name_by_number_and_inside(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,es,en\n1,hola,hello\n")
    (tmp_path / "p.jsonl").write_text('{"t": {"es": "hola", "en": "hello"}}\n')
    (tmp_path / "l.jsonl").write_text('["x", "hola", "hello"]\n')
    pq.write_table(pa.table({"n": [1], "t": [{"es": "hola", "en": "hello"}]}), tmp_path / "n.parquet")
    pq.write_table(pa.table({"n": [1], "es": ["hola"], "en": ["hello"]}), tmp_path / "p.parquet")
    expected = [Pair("hola", "hello")]
    assert list(read(tmp_path / "p.csv", "pair", ["es", "en"])) == expected
    assert list(read(tmp_path / "p.csv", "pair", reading=Reading(columns=(2, 3), header=True))) == expected
    assert list(read(tmp_path / "p.csv", "pair", [3, 2]))[1] == Pair("hello", "hola")
    assert list(read(tmp_path / "p.jsonl", "pair", ["t.es", "t.en"])) == expected
    assert list(read(tmp_path / "l.jsonl", "pair", [2, 3])) == expected
    assert list(read(tmp_path / "n.parquet", "pair", ["t.es", "t.en"])) == expected
    assert list(read(tmp_path / "p.parquet", "pair", [2, 3])) == expected


def test_a_header_of_the_usual_names_needs_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("label\ttext\n 1 \tgood\n")
    (tmp_path / "b.tsv").write_text("good\t1\n")
    (tmp_path / "c.csv").write_text("good;1\n")
    (tmp_path / "d.jsonl").write_text('{"text": "good", "label": 1}\n{"text": "bad", "label": false}\n')
    assert list(read(tmp_path / "a.tsv", "labelled")) == [Labelled("good", "1")]
    assert list(read(tmp_path / "b.tsv", "labelled")) == [Labelled("good", "1")]
    reading = Reading(delimiter=";", columns=(1, 2))
    assert list(read(tmp_path / "c.csv", "labelled", reading=reading)) == [Labelled("good", "1")]
    assert list(read(tmp_path / "d.jsonl", "labelled")) == [Labelled("good", "1"), Labelled("bad", "false")]


def test_entries_of_a_catalogue_that_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "m.po").write_text(
        """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "a car"
msgstr "un coche"

#, fuzzy
msgid "a house"
msgstr "un caballo"

msgid "not yet"
msgstr ""

msgid "%d day"
msgid_plural "%d days"
msgstr[0] "%d día"
msgstr[1] "unos días"
msgstr[2] "%d días"

#~ msgid "old"
#~ msgstr "viejo"
""",
        encoding="utf-8",
    )
    reader = read(tmp_path / "m.po", "pair", ["msgstr", "msgid"])
    assert list(reader) == [Pair("un coche", "a car"), Pair("%d día", "%d day"), Pair("%d días", "%d days")]
    assert reader.tally.ignored == {
        "fuzzy entry": 1,
        "untranslated entry": 1,
        "obsolete entry": 1,
        "plural form between the first and the last": 1,
    }
