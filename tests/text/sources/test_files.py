"""Names on a disk as people have them: symlinks that lead back, broken ones, names that are not UTF-8."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from clearhead.errors import DataError
from clearhead.examples import Text
from clearhead.text.sources.files import spooled
from clearhead.text.sources.read import read


def test_two_stars_do_not_follow_symlinks_that_lead_back(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "a" / "one.txt").write_text("one")
    (deep / "two.txt").write_text("two")
    for name in ("again", "once-more"):  # followed, two of them are 2⁴⁰ paths
        (deep / name).symlink_to(tmp_path)
    for pattern in ("**/*.txt", "**/b/../**/*.txt", "a/**"):
        reader = read(str(tmp_path / pattern), "text")
        assert sorted(example.text for example in reader) == ["one", "two"], pattern  # type: ignore[union-attr]


@pytest.mark.parametrize("target", ["self", "nowhere"])
def test_a_broken_symlink_is_named_as_one(tmp_path: Path, target: str) -> None:
    (tmp_path / "self").symlink_to(target)
    with pytest.raises(DataError, match=r"self is a broken symlink.\nIt points to "):
        read(str(tmp_path / "self"), "text")


def test_a_name_that_is_not_utf8_is_read_in_a_folder_and_refused_in_a_recipe(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(path, "w", encoding="utf-8") as file:
        file.write("coffee")
    for source in (str(tmp_path), str(tmp_path / "*.txt")):
        reader = read(source, "text")
        assert list(reader) == [Text("coffee")]
        assert reader.names == (str(tmp_path / "caf\\xe9.txt"),)
    with pytest.raises(
        DataError, match=r"caf\\xe9.txt: the name is not UTF-8.*\nRename the file, or name its"
    ):
        read(os.fsdecode(path), "text")


def test_a_full_temporary_folder_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", fill)
    spooled.cache_clear()
    with pytest.raises(DataError, match=r"The temporary folder .* is full; set TMPDIR\."):
        read("-", "text")
