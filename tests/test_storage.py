"""A file is complete or as it was before; a lock has one holder."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from clearhead import storage
from clearhead.errors import TrainingError
from clearhead.storage import (
    atomic_folder,
    is_unfinished,
    locked,
    recover,
    remove_atomically,
    write_atomically,
)

Maker = Callable[[Path, Path], object]

# What may stand where a folder is written, or be left of one; the second path is that of a folder elsewhere.
ODD: dict[str, Maker] = {
    "a folder": lambda place, other: place.mkdir(),
    "a link to a folder": lambda place, other: place.symlink_to(other),
    "a link to nowhere": lambda place, other: place.symlink_to("nowhere"),
}
ANY: dict[str, Maker] = ODD | {"a file": lambda place, other: place.write_text("half")}


def full(*_: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "note"
    write_atomically(place, "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(place, "new")
    assert place.read_text() == "old"
    assert [*tmp_path.iterdir()] == [place]


def test_two_writers_never_share_the_place_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is killed before it has renamed what it wrote; then both leave something, and recovery removes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: None)
        for text in ("one", "other"):
            write_atomically(tmp_path / "note", text)
    left = [*tmp_path.iterdir()]
    assert sorted(path.read_text() for path in left) == ["one", "other"]
    assert all(is_unfinished(path, "note") and not is_unfinished(path, "not") for path in left)
    recover(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder that nobody should touch."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "kept").write_text("as it was")
    return place


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("kind", ODD)
def test_a_folder_takes_the_place_of_whatever_stands_there(
    kind: str, swaps: bool, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps:  # as on systems that cannot
        monkeypatch.setattr(storage, "swap", lambda *_: False)
    place = tmp_path / "in" / "best"
    place.parent.mkdir()
    ODD[kind](place, elsewhere)
    with atomic_folder(place) as new:
        (new / "model").write_text("new")
    assert [*place.parent.iterdir()] == [place]
    assert not place.is_symlink()
    assert (place / "model").read_text() == "new"
    assert (elsewhere / "kept").read_text() == "as it was"


@pytest.mark.parametrize("swaps", [True, False])
def test_a_file_where_a_checkpoint_should_stand_leaves_nothing_behind(
    swaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps:
        monkeypatch.setattr(storage, "swap", lambda *_: False)
    place, new = tmp_path / "step-40", tmp_path / ".step-40.x.writing"
    place.write_text("a file")
    with storage.replace_on_exit(new, place):
        new.mkdir()
    assert [*tmp_path.iterdir()] == [place]
    assert place.is_dir()


@pytest.mark.parametrize("ending", ["writing", "removing", "previous", "new"])
@pytest.mark.parametrize("kind", ANY)
def test_recovery_removes_files_and_links_too(
    kind: str, ending: str, tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "in"
    (folder / "best").mkdir(parents=True)
    left = folder / f".best.{ending}"
    ANY[kind](left, elsewhere)
    recover(folder)
    assert [*folder.iterdir()] == [folder / "best"]
    assert (elsewhere / "kept").read_text() == "as it was"


def test_of_a_link_to_a_folder_only_the_link_is_removed(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "step-3").symlink_to(elsewhere)
    remove_atomically(tmp_path / "step-3")
    assert [*tmp_path.iterdir()] == [elsewhere]
    assert (elsewhere / "kept").read_text() == "as it was"


HOLDER = """
import sys, time
from pathlib import Path
from clearhead.storage import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_refuses_another_process_and_ends_with_its_own(tmp_path: Path) -> None:
    path, refusal = tmp_path / ".lock", TrainingError("held by another")
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TrainingError, match="held by another"), locked(path, refusal):
            pass
        holder.kill()
    assert path.exists()  # the file is left, its lock is not
    with locked(path, refusal):
        pass
    with locked(path):
        pass
