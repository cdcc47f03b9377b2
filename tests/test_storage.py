"""A file is there as a whole or as it was before."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from clearhead.storage import is_half_written, mend, write_whole


def full(*_: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "note"
    write_whole(place, "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(place, "new")
    assert place.read_text() == "old"
    assert [*tmp_path.iterdir()] == [place]


def test_two_writers_never_share_the_place_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is killed before it has renamed what it wrote; then both leave something, and mending takes it away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: None)
        for text in ("one", "other"):
            write_whole(tmp_path / "note", text)
    left = [*tmp_path.iterdir()]
    assert sorted(path.read_text() for path in left) == ["one", "other"]
    assert all(is_half_written(path, "note") and not is_half_written(path, "not") for path in left)
    mend(tmp_path)
    assert not [*tmp_path.iterdir()]
