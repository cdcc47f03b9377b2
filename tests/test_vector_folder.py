"""A vectors folder: what is saved is loaded, and what is damaged is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from clearhead import vector_folder
from clearhead.errors import ModelFolderError
from clearhead.folder_files import write_checksums
from clearhead.vector_folder import FILES, VectorTable
from tests.vectors.tables import small_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vector_folder.save(tmp_path / "words", small_table())
    return tmp_path / "words"


def test_what_is_saved_is_loaded(folder: Path) -> None:
    table, loaded = small_table(), vector_folder.load(folder)
    assert (loaded.words, loaded.counts, loaded.made) == (table.words, table.counts, table.made)
    assert torch.equal(loaded.E, table.E)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "checksums.json"])


def test_a_table_without_counts_has_none_when_loaded(tmp_path: Path) -> None:
    vector_folder.save(tmp_path / "a", VectorTable(["x", "y"], torch.ones(2, 3)))
    assert vector_folder.load(tmp_path / "a").counts is None


def test_nothing_is_overwritten(folder: Path) -> None:
    with pytest.raises(ModelFolderError, match="already exists"):
        vector_folder.save(folder, small_table())


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_refused(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(ModelFolderError, match=f"{name} is not as it was written"):
        vector_folder.load(folder)


@pytest.mark.parametrize("name", ["words.json", "vectors.safetensors"])
def test_a_missing_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelFolderError, match=f"{name} is missing"):
        vector_folder.load(folder)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="is no vectors folder"):
        vector_folder.load(tmp_path)
    with pytest.raises(ModelFolderError, match="does not exist"):
        vector_folder.load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vectors.json", {"format": 2, "width": 3, "words": 7}, "has format 2"),
        ("vectors.json", [], "has format None"),
        ("vectors.json", {"format": 1, "width": 3, "words": -7}, "words = -7 is not a number from 1"),
        ("vectors.json", {"format": 1, "width": True, "words": 7}, "width = True is not"),
        ("words.json", {"words": ["a", "b"]}, "is not a list of 7 different words"),
        ("words.json", {"words": ["a"] * 7}, "is not a list of 7 different words"),
        ("words.json", {"words": list("abcdefg"), "counts": [1]}, "the counts do not fit"),
    ],
)
def test_wrong_contents_with_right_checksums_are_refused(
    folder: Path, name: str, content: object, message: str
) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    write_checksums(folder, FILES)
    with pytest.raises(ModelFolderError, match=message):
        vector_folder.load(folder)


@pytest.mark.parametrize(
    ("E", "message"),
    [
        (torch.ones(7, 4), "of shape"),
        (torch.full((7, 3), torch.nan), "contains NaN"),
    ],
)
def test_wrong_vectors_are_refused(folder: Path, E: torch.Tensor, message: str) -> None:
    save_file({"vectors": E}, folder / "vectors.safetensors")
    write_checksums(folder, FILES)
    with pytest.raises(ModelFolderError, match=message):
        vector_folder.load(folder)


def test_a_pickle_is_not_opened(folder: Path) -> None:
    (folder / "vectors.safetensors").write_bytes(b"\x80\x04junk")
    write_checksums(folder, FILES)
    with pytest.raises(ModelFolderError, match="pickle"):
        vector_folder.load(folder)
