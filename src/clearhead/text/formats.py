"""The formats: which extension means which, and a reader for each; a scan enters, examples leave."""

from collections.abc import Callable, Iterator
from pathlib import PurePath

from clearhead.config.data import Format, Reading
from clearhead.errors import DataError
from clearhead.text.catalogue import read_po
from clearhead.text.documents import read_txt
from clearhead.text.fasta import read_fasta
from clearhead.text.records import read_jsonl, read_parquet
from clearhead.text.scan import Numbered, Scan, Want, check_columns
from clearhead.text.tables import read_csv, read_tsv

FORMATS: dict[Format, Callable[[Scan], Iterator[Numbered]]] = {
    "txt": read_txt,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "tsv": read_tsv,
    "parquet": read_parquet,
    "po": read_po,
    "fasta": read_fasta,
}

EXTENSIONS: dict[str, Format] = {
    ".txt": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".po": "po",
    ".fa": "fasta",
    ".fasta": "fasta",
    ".fna": "fasta",
}

FOREIGN = {
    ".json": "Write one JSON object a line, as .jsonl.",
    ".zip": "Unpack it first; of packed files, only .gz is read.",
    ".tar": "Unpack it first; of packed files, only .gz is read.",
    ".tgz": "Unpack it first; of packed files, only .gz is read.",
    ".bz2": "Unpack it first; of packed files, only .gz is read.",
    ".xz": "Unpack it first; of packed files, only .gz is read.",
    ".zst": "Unpack it first; of packed files, only .gz is read.",
    ".7z": "Unpack it first; of packed files, only .gz is read.",
    ".pdf": "Save its text as .txt.",
    ".doc": "Save its text as .txt.",
    ".docx": "Save its text as .txt.",
    ".odt": "Save its text as .txt.",
    ".epub": "Save its text as .txt.",
    ".xls": "Save the sheet as .csv.",
    ".xlsx": "Save the sheet as .csv.",
    ".ods": "Save the sheet as .csv.",
    ".tmx": "Convert the translation memory to .tsv.",
    ".mo": "Use the .po that it was made from.",
}


def extension(name: str) -> str:
    """The extension of a file, without .gz: of `pairs.tsv.gz`, `.tsv`."""
    path = PurePath(name.lower())
    return PurePath(path.stem).suffix if path.suffix == ".gz" else path.suffix


def is_known(name: str) -> bool:
    """Whether a file's name says which format it has; others are read only when they are named themselves."""
    return extension(name) in EXTENSIONS


def format_of(name: str, stated: Format | None) -> Format:
    """The format of a file: as stated, else by its extension, else plain text."""
    if stated:
        return stated
    if advice := FOREIGN.get(extension(name)):
        raise DataError(
            f"{name}: files of this kind are not read.\n{advice} Or say what it is in data.format."
        )
    return EXTENSIONS.get(extension(name), "txt")


def check_fit(name: str, format: Format, want: Want, reading: Reading) -> None:
    """Refuse a file whose format cannot hold what is asked of it."""
    if format != "txt":
        check_columns(name, want, reading)
    if format == "txt" and want.kind == "pair":
        raise DataError(
            f"{name} is plain text, which holds no pairs.\n"
            'Give two aligned files, ["a.es", "a.en"], or a .tsv, .csv, .jsonl, .parquet or .po.'
        )
    if format == "txt" and want.kind == "labelled" and want.label is None:
        raise DataError(
            f"{name} is plain text, which holds no labels.\n"
            'Give a table of labels and files, {positive = "good.txt", negative = "bad.txt"}, '
            "or a .tsv, .csv, .jsonl or .parquet."
        )
    if reading.columns is None and (format, want.kind) in {
        ("po", "text"),
        ("po", "labelled"),
        ("fasta", "pair"),
    }:
        known = {"po": "msgid and msgstr", "fasta": "id, description and sequence"}[format]
        raise DataError(
            f"{name}: which of its columns are meant?\nName them in data.columns: it has {known}."
        )
