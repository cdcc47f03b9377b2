"""The formats: a table with one row each, its reader and its extensions; a scan enters, examples leave.

To add a format, write its reader (a file in `readers/`), add its row to `FORMATS`, and its name to `Format` in
`config/data.py`. Nothing else knows which formats there are.
"""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from clearhead.config.data import Format, Reading
from clearhead.config.labels import LabelKind
from clearhead.errors import DataError
from clearhead.examples import Example, Kind
from clearhead.text.sources.readers.conll import read_conll
from clearhead.text.sources.readers.csv import csv_fields, read_csv
from clearhead.text.sources.readers.fasta import read_fasta
from clearhead.text.sources.readers.html import read_html
from clearhead.text.sources.readers.json import json_values, read_json
from clearhead.text.sources.readers.jsonl import json_lines, read_jsonl
from clearhead.text.sources.readers.parquet import read_parquet
from clearhead.text.sources.readers.po import read_po
from clearhead.text.sources.readers.tsv import read_tsv, tsv_fields
from clearhead.text.sources.readers.txt import read_txt
from clearhead.text.sources.readers.xlsx import read_xlsx, xlsx_fields
from clearhead.text.sources.scan import Scan, Schema, check_columns
from clearhead.text.sources.tables import Fields


@dataclass(frozen=True)
class FileFormat:
    """What is known of a format: `fields` gives the rows of a table, `values` records, and prose has neither.

    `labels` says what its labels are about, where the format itself does.
    `columns` are names that all its files have. For the kinds of example in `asks_for` these do not say by themselves
    which of them are meant.
    """

    read: Callable[[Scan], Iterator[Example]]
    extensions: tuple[str, ...]
    fields: Callable[[Scan], Iterator[Fields]] | None = None
    values: Callable[[Scan], Iterator[tuple[int, object]]] | None = None
    is_prose: bool = False
    columns: tuple[str, ...] = ()
    asks_for: tuple[Kind, ...] = ()
    labels: LabelKind | None = None


FORMATS: dict[Format, FileFormat] = {
    "txt": FileFormat(read_txt, (".txt", ".md", ".markdown", ".rst"), is_prose=True),
    "html": FileFormat(read_html, (".html", ".htm", ".xhtml"), is_prose=True),
    "jsonl": FileFormat(read_jsonl, (".jsonl", ".ndjson"), values=json_lines),
    "json": FileFormat(read_json, (".json",), values=json_values),
    "csv": FileFormat(read_csv, (".csv",), csv_fields),
    "tsv": FileFormat(read_tsv, (".tsv", ".tab"), tsv_fields),
    "xlsx": FileFormat(read_xlsx, (".xlsx", ".xlsm"), xlsx_fields),
    "parquet": FileFormat(read_parquet, (".parquet",)),
    "po": FileFormat(read_po, (".po",), columns=("msgid", "msgstr"), asks_for=("text", "labelled")),
    "fasta": FileFormat(
        read_fasta, (".fa", ".fasta", ".fna"), columns=("id", "description", "sequence"), asks_for=("pair",)
    ),
    "conll": FileFormat(read_conll, (".conll", ".conllu", ".iob", ".iob2", ".bio"), labels="each-word"),
}

EXTENSIONS = {extension: name for name, format in FORMATS.items() for extension in format.extensions}

# The command that turns a file into one that is read; {} is the file, {stem} its name without the extension.
FOREIGN = {
    ".zip": "Extract it first: unzip {}",
    ".tar": "Extract it first: tar xf {}",
    ".tgz": "Extract it first: tar xf {}",
    ".bz2": "Decompress it first: bunzip2 {}",
    ".xz": "Decompress it first: unxz {}",
    ".zst": "Decompress it first: unzstd {}",
    ".7z": "Extract it first: 7z x {}",
    ".pdf": "Extract its text: pdftotext {} {stem}.txt",
    ".doc": "Extract its text: libreoffice --headless --convert-to txt:Text {}",
    ".docx": "Extract its text: pandoc {} -t plain --wrap none -o {stem}.txt",
    ".odt": "Extract its text: pandoc {} -t plain --wrap none -o {stem}.txt",
    ".epub": "Extract its text: pandoc {} -t plain --wrap none -o {stem}.txt",
    ".rtf": "Extract its text: pandoc {} -t plain --wrap none -o {stem}.txt",
    ".xls": "Convert the sheet: libreoffice --headless --convert-to csv {}",
    ".ods": "Convert the sheet: libreoffice --headless --convert-to csv {}",
    ".tmx": "Convert the translation memory: tmx2po {} {stem}.po",
    ".mo": "Convert the catalogue: msgunfmt {} -o {stem}.po",
}


def extension(name: str) -> str:
    """The extension of a file, without .gz: of `pairs.tsv.gz`, `.tsv`."""
    path = PurePath(name.lower())
    return PurePath(path.stem).suffix if path.suffix == ".gz" else path.suffix


def is_known(name: str) -> bool:
    """Whether a file's name says which format it has; others are read only when they are named themselves."""
    return extension(name) in EXTENSIONS


def is_prose(name: str) -> bool:
    """Whether a file's name says that it contains text alone, no columns."""
    return FORMATS[EXTENSIONS.get(extension(name), "txt")].is_prose


def format_of(name: str, stated: Format | None) -> Format:
    """The format of a file: as stated, else by its extension, else plain text."""
    if stated:
        return stated
    if advice := FOREIGN.get(extension(name)):
        command = advice.format(shlex.quote(name), stem=shlex.quote(name[: -len(extension(name))]))
        raise DataError(
            f"{name}: this kind of file is not supported.\n{command}\nOr name its format in data.format."
        )
    return EXTENSIONS.get(extension(name), "txt")


def check_fit(name: str, format: Format, schema: Schema, reading: Reading) -> None:
    """Reject a file whose format cannot represent what is asked of it."""
    row = FORMATS[format]
    if row.labels is not None and schema.kind != "text":
        check_labels(name, schema, row.labels)
    if not row.is_prose:
        check_columns(name, schema, reading)
    if row.is_prose and schema.kind == "pair":
        raise DataError(
            f"{name} is plain text, which contains no pairs.\n"
            'Give two aligned files, ["a.es", "a.en"], or a .tsv, .csv, .jsonl, .parquet or .po. '
            "If it is a table, add --data.format csv."
        )
    if row.is_prose and schema.kind == "labelled" and schema.label is None:
        raise DataError(
            f"{name} is plain text, which contains no labels.\n"
            "Write: clearhead train classify positive=good.txt negative=bad.txt, in a recipe "
            '{positive = "good.txt", negative = "bad.txt"}; or give a .tsv, .csv, .jsonl or .parquet. '
            "If it is a table, add --data.format csv."
        )
    if reading.columns is None and schema.kind in row.asks_for:
        raise DataError(
            f"{name}: which of its columns are meant?\n"
            f"Name them in data.columns: it has {', '.join(row.columns[:-1])} and {row.columns[-1]}."
        )


def check_labels(name: str, schema: Schema, labels: LabelKind) -> None:
    """Reject a file whose labels are about something else than what is asked for."""
    if schema.kind != "labelled":
        raise DataError(
            f"{name} has labels for words, and no pairs of texts.\nTrain a tagger on it: clearhead train classify."
        )
    if schema.labels != labels or schema.texts != 1 or schema.label is not None:
        raise DataError(
            f"{name} has a label for each word of a text, but data.labels = {schema.labels!r} is asked for"
            f"{' with two texts' * (schema.texts == 2)}.\nSet data.labels = {labels!r}"
            f"{', and omit data.texts' * (schema.texts == 2)}; or give a .csv, .tsv or .jsonl."
        )
