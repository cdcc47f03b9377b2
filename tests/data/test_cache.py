"""A folder of the cache is whole or not there, whatever happens while it is made."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from clearhead.data import cache as module
from clearhead.data.cache import cache_folder, content_of, find_or_make, identity, key_of
from clearhead.errors import DataError
from clearhead.text.sources.read import read


def fill(folder: Path) -> None:
    (folder / "a").write_text("first")
    (folder / "b").write_text("second")


def is_full(folder: Path) -> bool:
    return (folder / "b").exists()


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    calls: list[Path] = []

    def make(place: Path) -> None:
        calls.append(place)
        fill(place)

    for _ in range(3):
        folder = find_or_make(tmp_path / "key", is_full, make)
    assert folder == tmp_path / "key"
    assert len(calls) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.lock"]


def test_a_maker_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise DataError("line 7 is broken")

    with pytest.raises(DataError, match="line 7 is broken"):
        find_or_make(tmp_path / "key", is_full, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
    assert is_full(find_or_make(tmp_path / "key", is_full, fill))


def test_a_folder_that_is_not_good_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / "rubbish").touch()
    folder = find_or_make(tmp_path / "key", is_full, fill)
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]


def test_what_a_killed_maker_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "key.partial-xyz"
    left.mkdir()
    (left / "a").write_text("half")
    find_or_make(tmp_path / "key", is_full, fill)
    assert not left.exists()


def test_two_makers_at_once_make_it_once(tmp_path: Path) -> None:
    calls, errors = [], []

    def slowly(folder: Path) -> None:
        calls.append(folder)
        time.sleep(0.1)
        fill(folder)

    def work() -> None:
        try:
            find_or_make(tmp_path / "key", is_full, slowly)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(calls) == 1


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file cannot be written: File exists\.\n.*CLEARHEAD_CACHE"):
        find_or_make(tmp_path / "file" / "key", is_full, fill)


def test_a_full_disk_says_what_to_do(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match=r"cannot be written: No space left on device\.\nFree some space"):
        find_or_make(tmp_path / "key", is_full, fail)


def test_keys_tell_descriptions_apart() -> None:
    keys = {key_of({"a": 1}), key_of({"a": "1"}), key_of({"a": 1, "b": None}), key_of({"b": 1})}
    assert len(keys) == 4
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


def test_contents_are_told_by_content_and_remembered_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("the same")
    two.write_text("the same")
    assert content_of(one) == content_of(two)
    monkeypatch.setattr(module, "SETTLED_SECONDS", -1.0)
    first = content_of(one)
    monkeypatch.setattr(module, "checksum", lambda path: "read again")
    assert content_of(one) == first
    status = one.stat()
    one.write_text("another!")  # of the same size
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert content_of(one) == "read again"


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    first = content_of(file)
    status = file.stat()
    file.write_text("two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert content_of(file) != first


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("CLEARHEAD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/clearhead")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "clearhead"


def test_the_key_does_not_depend_on_the_text_of_the_code(tmp_path: Path) -> None:
    """A comment in a module does not throw away what users have prepared."""
    package = Path(module.__file__).parent.parent
    copy = shutil.copytree(
        package, tmp_path / "copy" / package.name, ignore=shutil.ignore_patterns("__pycache__")
    )
    for file in [*copy.glob("text/**/*.py"), *copy.glob("data/**/*.py"), *copy.glob("corpora/**/*.py")]:
        file.write_text(f"{file.read_text('utf-8')}# A comment.\n", "utf-8")
    (tmp_path / "a.txt").write_text("One line.\n")
    code = (
        "from clearhead.data.cache import identity, key_of; from clearhead.text.sources.read import read; "
        f"print(key_of(identity(read({str(tmp_path / 'a.txt')!r}, 'text'))))"
    )
    environment = os.environ | {"PYTHONPATH": str(copy.parent)}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == key_of(identity(read(tmp_path / "a.txt", "text")))


def test_the_key_depends_on_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("One line.\n")
    reader = read(tmp_path / "a.txt", "text")
    before = key_of(identity(reader))
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    assert key_of(identity(reader)) != before
