"""The `[data]` table: what a source may be, which shares work, and where paths are taken from."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.config import DataConfig
from clearhead.config.data import Reading, anchor
from clearhead.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("book.txt", "book.txt"),
        (["a.es", "a.en"], ("a.es", "a.en")),
        (["a.tsv", ["b.es", "b.en"]], ("a.tsv", ("b.es", "b.en"))),
        ({"good": "a.txt", "bad": ["b.txt", "c/"]}, {"good": "a.txt", "bad": ("b.txt", "c/")}),
    ],
)
def test_sources_are_kept_as_written(written: Any, kept: Any) -> None:
    data = DataConfig(train=written, validation=written)
    assert data.train == data.validation == data.source("train") == data.source("validation") == kept
    assert data.shares == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "data.train is required: files to learn from"),
        ({"train": 5}, "data.train = 5 is invalid: it should be a file, a list of files"),
        ({"train": ["a", 5]}, "5 in the list should be a file or a list of two aligned files"),
        ({"train": [["a", "b", "c"]]}, "['a', 'b', 'c'] in the list should be a file or a list of two"),
        ({"train": {"x": 5}}, "5 in the table should be a file or a list of files"),
        (
            {"train": "a", "validation": 1},
            "data.validation = 1 is invalid: a share should be at least 0",
        ),
        ({"train": "a", "validation": "1.5"}, "for a file of that name write ./ before it"),
        ({"train": "a", "validation": -0.1}, "a share should be at least 0 and less than 1"),
        ({"train": "a", "test": True}, "data.test = True is invalid"),
        ({"train": "a", "validation": 0.5, "test": 0.5}, "hold out 1 of the examples, which leaves none"),
        ({"train": "a", "test": 0.99}, "data.validation and data.test hold out 1.01 of the examples"),
        ({"train": "a", "columns": [0, 1]}, "columns are counted from 1"),
        ({"train": "a", "columns": []}, "it should name at least one column"),
        ({"train": "a", "delimiter": "||"}, "data.delimiter = '||' is invalid"),
        ({"train": "a", "colums": ["x"]}, "data.colums is not a setting. Did you mean columns?"),
        (
            {"train": "a", "on_error": "skp"},
            "data.on_error = 'skp' is invalid: it should be 'stop' or 'skip'",
        ),
        (
            {"train": "a", "format": "docx"},
            "data.format = 'docx' is invalid: it should be 'txt', 'html'",
        ),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DataConfig(**settings)
    assert message in str(caught.value)


def test_one_column_needs_no_list() -> None:
    for written, kept in (("text", ("text",)), (2, (2,)), (["1", 1], ("1", 1))):
        assert Reading.model_validate({"columns": written}).columns == kept


@pytest.mark.parametrize(
    ("settings", "validation", "test", "shares"),
    [
        ({"train": "a.txt"}, "a.txt", None, {"validation": 0.02}),
        ({"train": "a.txt", "validation": 0}, None, None, {}),
        (
            {"train": "a.txt", "validation": 0.1, "test": 0.2},
            "a.txt",
            "a.txt",
            {"validation": 0.1, "test": 0.2},
        ),
        ({"train": "a.txt", "test": "b.txt"}, "a.txt", "b.txt", {"validation": 0.02}),
        ({"train": "builtin:x"}, "builtin:x", "builtin:x", {}),
        ({"train": ["builtin:x", "builtin:y"], "test": 0}, ("builtin:x", "builtin:y"), None, {}),
        ({"train": ["builtin:x", "a.txt"]}, ("builtin:x", "a.txt"), None, {"validation": 0.02}),
        ({"train": "builtin:x", "validation": 0.1}, "builtin:x", "builtin:x", {"validation": 0.1}),
    ],
)
def test_where_the_splits_come_from(
    settings: dict[str, Any], validation: Any, test: Any, shares: dict[str, float]
) -> None:
    data = DataConfig(**settings)
    assert data.source("validation") == validation
    assert data.source("test") == test
    assert data.shares == shares


def test_relative_paths_are_taken_from_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "recipes [1]"
    folder.mkdir()
    here = str(folder)
    assert anchor("a.txt", folder) == f"{here}/a.txt"
    assert anchor("../a.txt", folder) == f"{here}/../a.txt"
    assert anchor("/data/a.txt", folder) == "/data/a.txt"
    assert anchor("~/a.txt", folder) == str(Path.home() / "a.txt")
    assert anchor(["a", ["b", "c"]], folder) == [f"{here}/a", [f"{here}/b", f"{here}/c"]]
    assert anchor({"x": "a", "y": ["b"]}, folder) == {"x": f"{here}/a", "y": [f"{here}/b"]}
    for other in ("-", "builtin:x", "hub:x/y", "", 0.02, None):
        assert anchor(other, folder) == other


def test_a_folder_with_brackets_is_no_pattern(tmp_path: Path) -> None:
    from clearhead.text.sources.read import read

    folder = tmp_path / "texts [1]"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    (folder / "b.txt").write_text("two")
    assert read(anchor("*.txt", folder), "text").names == (f"{folder}/a.txt", f"{folder}/b.txt")
