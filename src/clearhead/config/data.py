"""The `[data]` table of a recipe: which files, how they are read, and what is held out.

`Reading` says how to read one source; `DataConfig` adds the sources of a run. A source is written as

    "book.txt"                                  a file, a folder, a glob, "-" for stdin
    "builtin:spanish", "hub:NAME"               a corpus of the package, a dataset of the hub
    ["train.es", "train.en"]                    two aligned files, for pairs
    ["a.tsv", ["b.es", "b.en"], "builtin:x"]    several sources of any kind, one after the other
    {positive = "good.txt", negative = "bad/"}  a label and its files
"""

import glob
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, field_validator, model_validator

from clearhead.config.labels import LabelKind
from clearhead.config.settings import Settings, listed
from clearhead.errors import ConfigError

MOST = 1 << 53  # of anything that is counted: a larger number is a mistake, and no float represents it

Format = Literal["txt", "html", "jsonl", "json", "csv", "tsv", "xlsx", "parquet", "po", "fasta", "conll"]
Documents = Literal["file", "blank-line", "line"]
OnError = Literal["stop", "skip"]
TooLong = Literal["truncate", "drop", "split"]
Column = Annotated[str | Annotated[int, Field(le=MOST)], Field(union_mode="left_to_right")]
Option = str | Annotated[int, Field(ge=-MOST, le=MOST)]

HELD_OUT = 0.02  # the default share for validation, if the corpus has no validation part of its own


def check_source(value: Any) -> Any:
    """A source, with lists as tuples; or an error with the reason."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list | tuple) and value:
        return tuple(_check_item(item) for item in value)
    if isinstance(value, dict) and value:
        return {str(label): _check_files(files) for label, files in value.items()}
    raise ValueError(
        "it should be a file, a list of files, or a table of labels and their files, and not empty"
    )


def _check_item(item: Any) -> str | tuple[str, str]:
    if isinstance(item, str) and item:
        return item
    if (
        isinstance(item, list | tuple)
        and len(item) == 2
        and all(isinstance(file, str) and file for file in item)
    ):
        return item[0], item[1]
    raise ValueError(f"{item!r} in the list should be a file or a list of two aligned files")


def _check_files(files: Any) -> str | tuple[str, ...]:
    if isinstance(files, str) and files:
        return files
    if isinstance(files, list | tuple) and files and all(isinstance(file, str) and file for file in files):
        return tuple(files)
    raise ValueError(f"{files!r} in the table should be a file or a list of files")


def check_source_or_share(value: Any) -> Any:
    """A share of the training examples as a number, or a source."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value < 1:
        return float(value)
    if is_number or (isinstance(value, str) and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", value)):
        raise ValueError(
            "a share should be at least 0 and less than 1; for a file of that name write ./ before it"
        )
    return None if value is None else check_source(value)


Files = str | tuple[str, ...]
SomeFiles = str | tuple[str | tuple[str, str], ...] | dict[str, Files]
SomeFilesOrShare = Annotated[float, Field(ge=0, lt=1)] | SomeFiles | None
Source = Annotated[SomeFiles, PlainValidator(check_source, json_schema_input_type=SomeFiles)]
SourceOrShare = Annotated[
    SomeFilesOrShare, PlainValidator(check_source_or_share, json_schema_input_type=SomeFilesOrShare)
]


class Reading(Settings):
    """How a source is read."""

    section: ClassVar[str] = "data"

    columns: Annotated[tuple[Column, ...] | None, BeforeValidator(listed)] = Field(
        None,
        description="columns or keys, by name or by number from 1, for source and target, or text and "
        "label, or text, second and label; if omitted, those with these names in any case, in a .tsv the first ones, "
        "and in a .conll the first and the last",
    )
    labels: LabelKind = Field(
        "one",
        description="what is labelled: each text with one label, with several (a|b, or a list), or each word of it",
    )
    label_separator: str | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="what separates several labels of a text; if omitted, |, ; or comma, whichever comes first",
    )
    texts: Literal[1, 2] = Field(
        1, description="texts of an example to classify: two if its label is about a pair of them"
    )
    on_error: OnError = Field(
        "stop", description="what to do with an invalid line: stop, or skip and report it"
    )
    format: Format | None = Field(None, description="file format; if omitted, by the extension")
    header: bool | None = Field(
        None,
        description="whether a table starts with the names of the columns; "
        "if omitted, if columns are given by name or the first line looks like names",
    )
    delimiter: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="column separator; if omitted, a tab in .tsv, and in .csv the comma, semicolon, tab or bar "
        "that fits the first lines",
    )
    encoding: str | None = Field(
        None,
        description="character encoding, such as cp1252 or shift_jis; if omitted, as the byte-order mark says, "
        "otherwise UTF-8, or cp1252 if the file cannot be UTF-8 and looks like it",
    )
    documents: Documents | None = Field(
        None,
        description="where a document in a .txt ends: with the file, at blank lines, or with each line; "
        "if omitted, with the file, or with each line if texts have labels",
    )
    chunk_characters: int = Field(
        2048,
        ge=120,
        le=MOST,
        description="length of the chunks in which a long document is read and held out",
    )
    max_line_bytes: int = Field(10_000_000, gt=0, le=MOST, description="maximum length of a line or record")
    count: int | None = Field(
        None,
        gt=0,
        le=MOST,
        description="training examples of each built-in corpus; if omitted, the corpus decides",
    )
    options: dict[str, Option] = Field(
        default_factory=dict, description="options of built-in corpora, such as {direction = 'en-es'}"
    )
    seed: int = Field(1, ge=0, le=MOST, description="seed of the built-in corpora, and of what is held out")

    @field_validator("encoding")
    @classmethod
    def _know_the_encoding(cls, encoding: str | None) -> str | None:
        try:
            if encoding is None or encoding.encode(encoding).decode(encoding) == encoding:
                return encoding
        except (LookupError, UnicodeError):
            pass
        raise ValueError(
            "it is not an encoding of text; known are utf-8, utf-16, cp1252, latin-1, cp1251 and more"
        )

    @field_validator("columns")
    @classmethod
    def _count_from_one(cls, columns: tuple[Column, ...] | None) -> tuple[Column, ...] | None:
        if any(isinstance(column, int) and column < 1 for column in columns or ()):
            raise ValueError("columns are counted from 1")
        if columns == ():
            raise ValueError("it should name at least one column")
        return columns


class DataConfig(Reading):
    """The examples of a run: where they come from, and which are held out."""

    train: Source = Field(description="files to learn from, or builtin:NAME, or hub:NAME")
    validation: SourceOrShare = Field(
        None,
        description="a source like train, a share of train held out by content, or 0 for none; "
        f"if omitted, the corpus's own part if it is built in, otherwise {HELD_OUT} of train",
    )
    test: SourceOrShare = Field(
        None,
        description="a source like train, or a share of train; "
        "if omitted, the corpus's own part if it is built in, otherwise none",
    )
    unlabelled: Annotated[
        SomeFiles | None,
        PlainValidator(
            lambda value: None if value is None else check_source(value),
            json_schema_input_type=SomeFiles | None,
        ),
    ] = Field(
        None,
        description="texts without labels for a classifier, as a source, line by line: its tokens are learned from "
        "them too, and if trials choose the recipe, some candidates start from word vectors that are learned from them",
    )
    too_long: TooLong | None = Field(
        None,
        description="what to do with an example longer than model.context: truncate, drop or split it; if omitted, "
        "pairs are dropped, labelled texts and conversations truncated, and texts to mask split",
    )
    document_masks: bool = Field(
        False, description="whether a token of a language model sees only its own document"
    )

    @property
    def is_builtin(self) -> bool:
        """Whether all training examples come from built-in corpora, which have held-out parts."""
        parts = self.train if isinstance(self.train, tuple) else (self.train,)
        return all(isinstance(part, str) and part.startswith("builtin:") for part in parts)

    @property
    def has_builtin(self) -> bool:
        """Whether any source is a built-in corpus, or a list or table with one."""
        return "'builtin:" in f"{(self.train, self.validation, self.test)!r}"

    @property
    def shares(self) -> dict[str, float]:
        """The shares of train that are held out, by split."""
        stated = {"validation": self.validation, "test": self.test}
        if self.validation is None and not self.is_builtin:
            stated["validation"] = HELD_OUT
        return {split: share for split, share in stated.items() if isinstance(share, float) and share > 0}

    def source(self, split: Literal["train", "validation", "test"]) -> Source | None:
        """The source that a split is read from (for a share: train itself), or None if it has none."""
        stated = {"train": self.train, "validation": self.validation, "test": self.test}[split]
        if split in self.shares or (stated is None and self.is_builtin):
            return self.train
        return None if isinstance(stated, float) else stated

    @model_validator(mode="after")
    def _leave_some_for_training(self) -> Self:
        held = sum(self.shares.values())
        if held >= 1:
            raise ConfigError(
                f"data.validation and data.test hold out {held:g} of the examples, which leaves none to train on.\n"
                "Use shares that add up to less than 1, such as 0.02 and 0.02."
            )
        return self


def is_path(source: str) -> bool:
    """Whether a source names files, not stdin, a built-in corpus or a dataset of the hub."""
    return source != "-" and not source.startswith(("builtin:", "hub:"))


def is_glob(path: str) -> bool:
    """Whether a path contains the wildcards * ? or [."""
    return glob.escape(path) != path


def anchor(source: Any, folder: Path) -> Any:
    """The same source with relative paths resolved against `folder`; anything else is left to validation."""
    if isinstance(source, str):
        return _anchor_path(source, folder) if source and is_path(source) else source
    if isinstance(source, list | tuple):
        return [anchor(item, folder) for item in source]
    if isinstance(source, dict):
        return {label: anchor(files, folder) for label, files in source.items()}
    return source


def _anchor_path(path: str, folder: Path) -> str:
    full = folder / Path(path).expanduser()
    if is_glob(path) and not full.exists() and not Path(path).expanduser().is_absolute():
        return str(Path(glob.escape(str(folder.absolute()))) / path)
    return str(full.absolute())
