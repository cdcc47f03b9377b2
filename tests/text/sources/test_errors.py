"""Files that cannot be read: an error names file and line, or they are left out, counted and listed."""

import gzip
import io
import re
import sys
import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clearhead.config.data import Reading
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Example, Kind, Labelled, Pair, Text
from clearhead.text.sources.read import ExampleReader, read

SKIP = 'Or set data.on_error = "skip" to skip such {} and list them.'


def parquet(**columns: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def bad_utf8() -> bytes:
    """A parquet file whose second text is not UTF-8."""
    binary = pa.array([b"one", b"\xff\xfe", b"three"], pa.binary())
    texts = pa.StringArray.from_buffers(3, binary.buffers()[1], binary.buffers()[2])
    out = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), out)
    return out.getvalue()


PIECE = Text("one\ntwo\nthree\n" * 146 + "one\n")  # 2048 characters
WHOLE = gzip.compress(b"one\ntwo\nthree\n" * 9000, mtime=0)

# file, content, kind; what is said after the file's name; the first examples that remain when it is skipped
Case = tuple[str, bytes, Kind, str, list[Example]]
CASES: list[Case] = [
    (
        "a.txt",
        b"\xc3\xb1\nca\xf1on\nthree\n",
        "text",
        ", line 2: byte 3 (0xf1) is not valid UTF-8",
        [Text("ñ\nthree\n")],
    ),
    ("b.txt", b"one\nt\0wo\n", "text", ", line 2 contains a NUL byte, so it is not text", [Text("one\n")]),
    (
        "c.txt",
        b"\xff\xfe" + b"o\0n\0e\0\n\0" + b"\x00\xd8" + b"\n\0t\0w\0o\0",
        "text",
        ", line 2 contains bytes that are not valid UTF-16",
        [Text("one\ntwo")],
    ),
    ("d.txt", gzip.compress(b"one"), "text", " is gzip data", []),
    ("e.txt", b"PK\x03\x04...", "text", " is a zip archive", []),
    ("f.txt", b"", "text", " is empty", []),
    ("g.txt", b"\xef\xbb\xbf", "text", " is empty", []),
    (
        "h.txt",
        b"one\n" + b"x" * 2000 + b"\nthree",
        "text",
        ", line 2 is longer than 1000 bytes",
        [Text("one\nthree")],
    ),
    (
        "a.txt.gz",
        b"one\n",
        "text",
        ", line 1: the file is damaged from here on (Not a gzipped file (b'on'))",
        [],
    ),
    (
        "b.txt.gz",
        WHOLE[:-40],
        "text",
        r", line \d+: the file is damaged from here on (Compressed file ended",
        [PIECE],
    ),
    ("c.txt.gz", b"", "text", " is empty", []),
    (
        "a.tsv",
        b"a\tb\nc\td\te\nf\tg\n",
        "pair",
        ", line 2 has 3 columns, but line 1 has 2",
        [Pair("a", "b"), Pair("f", "g")],
    ),
    ("b.tsv", b"a\tb\nc\t \n", "pair", ", line 2: the target is empty", [Pair("a", "b")]),
    ("c.tsv", b"a\n", "pair", ", line 1 has 1 column, so there is no column 2", []),
    ("d.tsv", b"\n\n", "pair", " contains no example: every line is blank or skipped", []),
    ("e.tsv", b"a\t\nb\tyes", "labelled", ", line 1: the label is empty", [Labelled("b", "yes")]),
    ("a.csv", b"a,b\nc,d\n", "pair", ", line 1 has no column named 'source'; it has 'a', 'b'", []),
    ("b.csv", b"source,target\n", "pair", " contains no example: every line is blank or skipped", []),
    (
        "c.csv",
        b"source,target,source\na,b,c\n",
        "pair",
        ", line 1 has two columns named 'source'; it has 'source'",
        [],
    ),
    (
        "d.csv",
        b'source,target\n"a,b\nc,d\n',
        "pair",
        ", line 2 is not valid CSV: unexpected end of data",
        [Pair("c", "d")],
    ),
    (
        "e.csv",
        b'source,target\n"a"b,c\nd,e\n',
        "pair",
        ", line 2 is not valid CSV: ',' expected after '\"'",
        [Pair("d", "e")],
    ),
    (
        "f.csv",
        b'source,target\n"a,b\n' + b"c,d\n" * 300,
        "pair",
        ", line 2 is not valid CSV: a quote is opened and not closed within 1000 bytes (data.max_line_bytes)",
        [Pair("c", "d")],
    ),
    (
        "g.csv",
        b'source,target\na,"x\ny"\nb\n',
        "pair",
        ", line 4 has 1 column, but line 1 has 2",
        [Pair("a", "x\ny")],
    ),
    (
        "a.jsonl",
        b'{"text": "a"}\n{"text": \n',
        "text",
        ", line 2 is not valid JSON: Expecting value",
        [Text("a")],
    ),
    (
        "b.jsonl",
        b'{"text": "a"}\n{"txt": "b"}\n',
        "text",
        ", line 2 has no 'text'; it has 'txt'",
        [Text("a")],
    ),
    (
        "c.jsonl",
        b'{"text": "a"}\n{"text": 5}\n',
        "text",
        ", line 2: the text is of type int, not text",
        [Text("a")],
    ),
    ("d.jsonl", b'{"text": "a"}\n{"text": null}\n', "text", ", line 2: the text is missing", [Text("a")]),
    (
        "e.jsonl",
        b'{"text": "\\ud800"}\n',
        "text",
        ", line 1: the text contains half a character ('\\ud800')",
        [],
    ),
    ("f.jsonl", b'{"text": "a\\u0000"}\n', "text", ", line 1: the text contains a NUL character", []),
    ("g.jsonl", b'"text"\n', "text", ', line 1 is "text", not an object with keys', []),
    ("h.jsonl", b"[]\n", "text", ", line 1 is a list of 0 values, so there is no column 1", []),
    ("i.jsonl", b"[" * 500 + b"\n", "text", ", line 1 is not valid JSON", []),
    ("a.parquet", b"PAR1 and more", "text", ", line 1 cannot be read as parquet from here on (", []),
    ("b.parquet", parquet(txt=["a"]), "text", " has no column 'text'; it has 'txt'", []),
    ("c.parquet", parquet(text=["a", None]), "text", ", line 2: the text is missing", [Text("a")]),
    ("d.parquet", parquet(text=[1]), "text", ", line 1: the text is of type int, not text", []),
    (
        "e.parquet",
        parquet(text=["x" * 2000, "a"]),
        "text",
        ", line 1: the text is longer than 1000 bytes",
        [Text("a")],
    ),
    ("f.parquet", bad_utf8(), "text", ", line 2 is not valid UTF-8", [Text("one"), Text("three")]),
    ("g.parquet", parquet(text=[]), "text", " is empty", []),
    ("a.po", b'msgid "x\nmsgstr "y"\n', "pair", ", line 1 is not a valid line of a .po file", []),
    (
        "b.po",
        b'msgid "x"\nmsgstr "y"\nmsgstr "z"\n',
        "pair",
        ", line 3 is out of place in a .po file",
        [],
    ),
    ("c.po", b'msgid "\xc3\xb1"\nmsgstr "\xf1"\n', "pair", ", line 2: byte 9 (0xf1) is not valid UTF-8", []),
    ("a.fa", b"ACGT\n>a\nAC\n", "text", ", line 1 is a sequence without a header", [Text("AC")]),
    ("b.fa", b">a\n>b\nAC\n", "text", ", line 1: the record has no sequence", [Text("AC")]),
    (
        "c.fa",
        b">a x\nAC\nA1\nGG\n>b y\nT\n",
        "labelled",
        ", line 3 contains '1', which is not a letter of a sequence",
        [Labelled("T", "y")],
    ),
    (
        "d.fa",
        b">a x\n" + b"ACGT\n" * 300 + b">b y\nT",
        "labelled",
        ", line 1: the sequence is longer",
        [Labelled("T", "y")],
    ),
    ("e.fa", b">a\nAC", "labelled", ", line 1: the label is empty", []),
]


def skipping(path: Path, kind: Kind) -> ExampleReader:
    return read(path, kind, reading=Reading(on_error="skip", max_line_bytes=1000))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_bad_file_stops_the_pass_and_says_where(tmp_path: Path, case: Case) -> None:
    name, content, kind, message, _ = case
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read(path, kind, reading=Reading(max_line_bytes=1000)))
    first, advice = str(caught.value).split("\n")
    expected = re.escape(message).replace(r"\\d\+", r"\d+")
    assert re.match(re.escape(str(path)) + expected, first)
    assert first.endswith(".")
    skip = SKIP.format("lines" if re.search(r", line \d", first) else "files")
    assert advice.endswith(skip)
    assert len(advice) > len(skip) + 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_bad_line_can_be_skipped_and_is_listed(tmp_path: Path, case: Case) -> None:
    name, content, kind, message, remaining = case
    path = tmp_path / name
    path.write_bytes(content)
    reader = skipping(path, kind)
    got: list[Example] = []
    outcome = (
        pytest.raises(DataError, match="No example could be read from") if not remaining else nullcontext()
    )
    with outcome:
        got.extend(reader)
    assert got[: len(remaining)] == remaining
    assert len(reader.problems) >= 1
    expected = re.escape(message).replace(r"\\d\+", r"\d+")
    assert re.match(re.escape(str(path)) + expected, str(next(iter(reader.problems))))
    assert reader.tally.examples == len(got)


def test_json_too_deep(tmp_path: Path) -> None:
    (tmp_path / "deep.jsonl").write_bytes(b"[" * 1_000_000 + b'\n{"text": "a"}\n')
    reader = read(tmp_path / "deep.jsonl", "text", on_error="skip")
    assert list(reader) == [Text("a")]
    assert "line 1 is not valid JSON: maximum recursion depth exceeded" in str(reader.problems.first[0])


def test_a_line_of_100_megabytes_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("wb") as file:
        file.write(b"one\n")
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\nthree\n")
    with pytest.raises(
        DataError, match=r"long.txt, line 2 is longer than 10000000 bytes.\nSplit the line, or raise"
    ):
        list(read(path, "text"))
    reader = read(path, "text", on_error="skip")
    tracemalloc.start()
    assert list(reader) == [Text("one\nthree\n")]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000
    assert reader.tally.lines == 3


def test_only_the_first_problems_are_listed_but_all_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n' + "{\n" * 99)
    reader = read(tmp_path / "a.jsonl", "text", on_error="skip")
    assert list(reader) == [Text("a")]
    assert reader.problems.count == 99
    assert [problem.place.line for problem in reader.problems] == list(range(2, 22))
    list(reader)
    assert reader.problems.count == 99


def test_aligned_files_of_different_length(tmp_path: Path) -> None:
    es, en = tmp_path / "a.es", tmp_path / "a.en"
    es.write_text("uno\ndos\ntres\ncuatro\n")
    en.write_text("one\ntwo\n")
    both = (str(es), str(en))
    with pytest.raises(DataError) as caught:
        list(read(both, "pair"))
    assert str(caught.value).startswith(
        f"{es} has 4 lines but {en} has 2.\n"
        "Line k of one file must translate line k of the other; find the missing line."
    )
    reader = read(both, "pair", on_error="skip")
    assert list(reader) == [Pair("uno", "one"), Pair("dos", "two")]
    assert (reader.problems.count, len(reader.problems.first)) == (2, 1)


def test_a_bad_line_in_one_of_two_aligned_files_takes_its_partner_along(tmp_path: Path) -> None:
    es, en = tmp_path / "a.es", tmp_path / "a.en"
    es.write_bytes(b"uno\nd\xf3s\n\ntres\n\ncinco\n")
    en.write_bytes(b"one\ntwo\n\nthree\nfour\nf\0ve")
    reading = Reading(on_error="skip", encoding="utf-8")
    reader = read((str(es), str(en)), "pair", reading=reading)
    assert list(reader) == [Pair("uno", "one"), Pair("tres", "three")]
    assert reader.tally.ignored == {"empty": 1}
    assert [str(problem) for problem in reader.problems] == [
        f"{es}, line 2: byte 2 (0xf3) is not valid UTF-8",
        f"{es} and {en}, line 5: the source is empty",
        f"{en}, line 6 contains a NUL byte, so it is not text",
    ]


def test_a_document_longer_than_a_record(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short\n\n" + "long text\n" * 500 + "\nlast\n")
    source = {"x": str(tmp_path / "a.txt")}
    reading = Reading(on_error="skip", documents="blank-line", max_line_bytes=1000)
    reader = read(source, "labelled", reading=reading)
    assert list(reader) == [Labelled("short\n", "x"), Labelled("last\n", "x")]
    assert "line 3: the document that starts here is longer than 1000 bytes" in str(reader.problems.first[0])


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("a.txt", "pair", "a.txt is plain text, which contains no pairs.\nGive two aligned files"),
        (
            "a.txt",
            "labelled",
            "a.txt is plain text, which contains no labels.\nWrite: clearhead train classify "
            "positive=good.txt negative=bad.txt",
        ),
        (
            "a.po",
            "text",
            "a.po: which of its columns are meant?\nName them in data.columns: it has msgid and",
        ),
        (
            "a.fa",
            "pair",
            "a.fa: which of its columns are meant?\nName them in data.columns: it has id, descr",
        ),
        ("a.docx", "text", "a.docx: this kind of file is not supported.\nExtract its text: pandoc "),
        ("a.txt.zip", "text", "a.txt.zip: this kind of file is not supported.\nExtract it first"),
    ],
)
def test_a_format_that_cannot_hold_what_is_asked_of_it(
    tmp_path: Path, name: str, kind: Kind, message: str
) -> None:
    (tmp_path / name).write_text("a")
    with pytest.raises(DataError) as caught:
        read(tmp_path / name, kind)
    assert message in str(caught.value)


def test_as_many_columns_as_an_example_needs(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    with pytest.raises(
        ConfigError, match=r"data.columns = \[1\] does not fit .*a.tsv, which is read for source and target"
    ):
        read(tmp_path / "a.tsv", "pair", [1])


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet(text=["a"]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        DataError, match=r"needs the package pyarrow.*\nInstall it \(pip install 'clearhead\[hub\]'\)"
    ):
        list(read(tmp_path / "a.parquet", "text"))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("a")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        DataError, match=r"a.txt cannot be opened: Permission denied.\nCheck the path and its permissions"
    ):
        list(read(tmp_path / "a.txt", "text", on_error="skip"))
