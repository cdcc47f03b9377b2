"""Files as people have them: each is read right with no setting, or refused with the one command that fixes it."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clearhead.config.data import DataConfig
from clearhead.errors import DataError
from clearhead.examples import Conversation, Example, Kind, Labelled, Message, Pair, Text
from clearhead.text.sources.read import read
from clearhead.training.recipes.columns import guess_columns

ROWS = [
    ("Das Hotel war schön, wirklich.", "gut"),
    ("Nie wieder!", "schlecht"),
    ("Größe passt; Farbe auch.", "gut"),
    ('Ein "Witz" ist das – für 5 €.', "schlecht"),
    ("Über Nacht kaputt|weg.", "schlecht"),
    ("Süß & günstig", "gut"),
]
PAIRS = [("Guten Tag.", "Good day."), ("Ich bin müde, leider.", "I am tired, alas."), ("Wo?", "Where?")]
CHAT = Conversation((Message("user", "Nenne eine Farbe.\n\nwarm"), Message("assistant", "Rot.")))
LABELLED = [Labelled(*row) for row in ROWS]


def table(
    rows: Sequence[tuple[str, ...]], delimiter: str = ",", head: str | None = "text,label", end: str = "\n",
    encoding: str = "utf-8", every: bool = False, before: str = "",
) -> bytes:  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=delimiter, lineterminator=end, quoting=1 if every else 0
    )  # all or minimal
    writer.writerows([head.split(",")] if head is not None else [])
    writer.writerows(rows)
    return (before + out.getvalue()).encode(encoding)


def sheet(rows: Sequence[tuple[Any, ...]], more: bool = False) -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    if more:
        book.create_sheet("Notizen").append(["nichts"])
    book.save(out)
    return out.getvalue()


def parquet(**columns: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def objects(rows: Sequence[tuple[str, ...]], *names: str) -> list[dict[str, str]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def lines(records: list[Any], encoding: str = "utf-8", end: str = "\n") -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + end for record in records).encode(encoding)


FLIPPED = [(label, text) for text, label in ROWS]
INDEXED = [(str(number), *row) for number, row in enumerate(ROWS)]
USUAL = objects(ROWS, "text", "label")
ALPACA = {"instruction": "Nenne eine Farbe.", "input": "warm", "output": "Rot."}
SHAREGPT = {"id": 1, "conversations": [{"from": "human", "value": "Nenne eine Farbe.\n\nwarm"},
                                       {"from": "gpt", "value": "Rot."}]}  # fmt: skip
PAGE = """<!DOCTYPE html><html><head><title>Ä</title><style>p {}</style></head><body><script>1 < 2</script>
<p>Ein <b>schöner</b>
Satz &amp; mehr.<br>Ende.</p><pre>a
  b</pre></body></html>"""

Shape = tuple[str, bytes, Kind, Sequence[Example]]
READ: dict[str, Shape] = {
    "comma": ("a.csv", table(ROWS), "labelled", LABELLED),
    "semicolon": ("a.csv", table(ROWS, ";"), "labelled", LABELLED),
    "tab in a .csv": ("a.csv", table(ROWS, "\t"), "labelled", LABELLED),
    "bar": ("a.csv", table(ROWS, "|"), "labelled", LABELLED),
    "Excel, German": ("a.csv", table(ROWS, ";", "Text,Klasse", "\r\n", "cp1252"), "labelled", LABELLED),
    "Excel, CSV UTF-8": ("a.csv", table(ROWS, ";", "Text,Klasse", "\r\n", "utf-8-sig"), "labelled", LABELLED),
    "Excel, Unicode text": ("a.csv", table(ROWS, "\t", "Text,Klasse", "\r\n", "utf-16"), "labelled", LABELLED),
    "Excel, Macintosh": ("a.csv", table(ROWS, ";", "Text,Klasse", "\r", "cp1252"), "labelled", LABELLED),
    "sep=": ("a.csv", table(ROWS, ";", "Text,Klasse", "\r\n", before="sep=;\r\n"), "labelled", LABELLED),
    "UTF-16, big end first": (
        "a.csv", b"\xfe\xff" + table(ROWS, ";", encoding="utf-16-be"), "labelled", LABELLED,
    ),
    "capitals": ("a.csv", table(ROWS, head="TEXT,Label"), "labelled", LABELLED),
    "every cell in quotes": ("a.csv", table(ROWS, ";", every=True), "labelled", LABELLED),
    "label first": ("a.csv", table(FLIPPED, ";", "Klasse,Kommentar"), "labelled", LABELLED),
    "index without a name": ("a.csv", table(INDEXED, head=",Review,Sentiment"), "labelled", LABELLED),
    "no header": ("a.csv", table(ROWS, ";", None), "labelled", LABELLED),
    "no header, Latin-1": ("a.csv", table(ROWS, ",", None, "\r\n", "cp1252"), "labelled", LABELLED),
    "numbers as labels": (
        "a.csv", table([(text, str(len(label))) for text, label in ROWS], ";", None), "labelled",
        [Labelled(text, str(len(label))) for text, label in ROWS],
    ),
    "newline in a cell": (
        "a.csv", table([("eins\nzwei", "a"), ("drei", "b")], ";", "Text,Label", "\r\n"), "labelled",
        [Labelled("eins\nzwei", "a"), Labelled("drei", "b")],
    ),
    "empty column at the end": (
        "a.csv", table([(*row, "") for row in ROWS], ";", "Text,Klasse,"), "labelled", LABELLED,
    ),
    "packed": ("a.csv.gz", gzip.compress(table(ROWS, ";", "Text,Klasse"), mtime=0), "labelled", LABELLED),
    "pairs, semicolon": ("a.csv", table(PAIRS, ";", "Deutsch,English"), "pair", [Pair(*p) for p in PAIRS]),
    "pairs, no header": ("a.csv", table(PAIRS, ";", None), "pair", [Pair(*p) for p in PAIRS]),
    "pairs, .tsv": ("a.tsv", table(PAIRS, "\t", None, "\r\n", "cp1252"), "pair", [Pair(*p) for p in PAIRS]),
    ".tsv with a header": (
        "a.tsv", table(ROWS[:3] + ROWS[4:], "\t", "Satz,Klasse"), "labelled", LABELLED[:3] + LABELLED[4:],
    ),
    ".xlsx": ("a.xlsx", sheet([("Text", "Klasse"), *ROWS]), "labelled", LABELLED),
    ".xlsx, numbers, sheets, no header": (
        "a.xlsx", sheet([(text, len(label)) for text, label in ROWS], more=True), "labelled",
        [Labelled(text, str(len(label))) for text, label in ROWS],
    ),
    ".jsonl": ("a.jsonl", lines(USUAL), "labelled", LABELLED),
    ".jsonl, other names": ("a.jsonl", lines(objects(ROWS, "Review", "Stars")), "labelled", LABELLED),
    ".jsonl, byte-order mark": ("a.jsonl", lines(USUAL, "utf-8-sig", "\r\n"), "labelled", LABELLED),
    ".jsonl, UTF-16": ("a.jsonl", lines(USUAL, "utf-16", "\r\n"), "labelled", LABELLED),
    ".json, a list in one line": ("a.json", json.dumps(USUAL).encode(), "labelled", LABELLED),
    ".json, a list in many": ("a.json", json.dumps(USUAL, indent=2).encode(), "labelled", LABELLED),
    ".json, lines": ("a.json", lines(objects(ROWS, "Review", "Stars")), "labelled", LABELLED),
    ".json, texts": ("a.json", json.dumps(["eins", "zwei"]).encode(), "text", [Text("eins"), Text("zwei")]),
    ".parquet, capitals": (
        "a.parquet", parquet(Text=[row[0] for row in ROWS], Label=[row[1] for row in ROWS]), "labelled", LABELLED,
    ),
    "instructions": ("a.json", json.dumps([ALPACA] * 2).encode(), "text", [CHAT] * 2),
    "instructions, .jsonl": ("a.jsonl", lines([ALPACA]), "text", [CHAT]),
    "instructions, .parquet": (
        "a.parquet", parquet(**{key: [value] for key, value in ALPACA.items()}), "text", [CHAT],
    ),
    "instructions, .csv": (
        "a.csv", table([tuple(ALPACA.values())], ";", "Instruction,input,output", encoding="cp1252"), "text", [CHAT],
    ),
    "instructions, .xlsx": ("a.xlsx", sheet([tuple(ALPACA), tuple(ALPACA.values())]), "text", [CHAT]),
    "ShareGPT": ("a.json", json.dumps([SHAREGPT]).encode(), "text", [CHAT]),
    "ShareGPT, .jsonl": ("a.jsonl", lines([SHAREGPT] * 2), "text", [CHAT] * 2),
    ".txt, Latin-1": ("a.txt", "Süße Äpfel.\r\n".encode("latin-1"), "text", [Text("Süße Äpfel.\n")]),
    ".txt, UTF-16": ("a.txt", "Süße Äpfel.\r\n".encode("utf-16"), "text", [Text("Süße Äpfel.\n")]),
    ".md": ("a.md", b"# Title\n\nText.\n", "text", [Text("# Title\n\nText.\n")]),
    ".html": ("a.html", PAGE.encode(), "text", [Text("Ä\nEin schöner Satz & mehr.\nEnde.\na\n  b\n")]),
    "code": ("a.py", b"print(1)\n", "text", [Text("print(1)\n")]),
}  # fmt: skip

REFUSED: dict[str, tuple[str, bytes, Kind, str]] = {
    ".tsv with semicolons": (
        "a.tsv", table(ROWS, ";", "Text,Klasse"), "labelled", "Add --data.delimiter ';' --data.columns Text,Klasse"
    ),
    "Cyrillic": ("a.csv", table([("Очень хорошо", "да")] * 3, encoding="cp1251"), "labelled", "--data.encoding "),
    "columns that say nothing": (
        "a.csv", table([(row[0], row[0], row[0]) for row in ROWS], ";", "A,B,C"), "labelled", "--data.columns A,B"
    ),
    "a sheet named .csv": ("a.csv", sheet([("Text", "Klasse"), *ROWS]), "labelled", "rename an Excel sheet"),
    "labels in a .txt": (
        "a.txt", table(ROWS), "labelled", "Write: clearhead train classify positive=good.txt negative=bad.txt"
    ),
    "records inside an object": (
        "a.json", json.dumps({"data": USUAL}).encode(), "labelled", "Write: jq -c '.\"data\"[]' "
    ),
    "columns inside an object": (
        "a.json", json.dumps({"text": {"0": "a"}, "label": {"0": "b"}}).encode(), "labelled", "Write: python -c "
    ),
    ".docx": ("a.docx", b"PK\3\4", "text", "pandoc {path} -t plain --wrap none -o {stem}.txt"),
    ".pdf": ("a.pdf", b"%PDF-1.7", "text", "pdftotext {path} {stem}.txt"),
    ".xls": ("a.xls", b"\xd0\xcf\x11\xe0", "labelled", "libreoffice --headless --convert-to csv {path}"),
    "a PDF named .txt": ("a.txt", b"%PDF-1.7 \xff\xff", "text", "pdftotext FILE NEW.txt"),
    ".zip": ("a.zip", b"PK\3\4", "text", "unzip {path}"),
}  # fmt: skip


def first_examples(path: Path, kind: Kind) -> list[Example]:
    """What `clearhead train TASK FILE` learns from, with the columns that it guesses."""
    data = DataConfig(train=str(path))
    guess = guess_columns(str(path), kind, data)
    return list(read(path, kind, None if guess is None else guess[0], reading=data))


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def write(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def test_there_are_forty_shapes() -> None:
    assert len(READ) + len(REFUSED) >= 40


@pytest.mark.parametrize("shape", READ.values(), ids=READ)
def test_a_file_is_read_right(written: Callable[[str, bytes], Path], shape: Shape) -> None:
    name, content, kind, expected = shape
    assert first_examples(written(name, content), kind) == expected


@pytest.mark.parametrize("shape", REFUSED.values(), ids=REFUSED)
def test_a_file_is_refused_with_the_command_that_fixes_it(
    written: Callable[[str, bytes], Path], shape: tuple[str, bytes, Kind, str]
) -> None:
    name, content, kind, command = shape
    path = written(name, content)
    with pytest.raises(DataError) as caught:
        first_examples(path, kind)
    assert command.replace("{path}", str(path)).replace("{stem}", str(path.with_suffix(""))) in str(
        caught.value
    )
