"""A full disk ends a run with a message, never with a broken run folder."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import mkdtemp
from time import time
from typing import Any

import pytest
from safetensors import SafetensorError

from clearhead import model_folder
from clearhead.errors import TrainingError
from clearhead.training.checkpoints import sharded
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.checkpoints.restore import check
from clearhead.training.run import disk
from clearhead.training.run.disk import check_room, format_bytes, nearest, seconds_to_save, used_room
from clearhead.training.run.folder import LOCK, check_free, is_taken
from clearhead.training.run.run import Run, make_run
from tests.training.run.test_run import weights_in
from tests.training.trainers import configured

MB = 1 << 20


def settle(out: Path) -> None:
    """What is in the run folder is whole."""
    for place in list_checkpoints(out / "checkpoints"):
        check(place)
    assert [path.name for path in out.rglob("*.writing")] == []
    if (out / "best").exists():
        model_folder.load(out / "best")


def run_in(folder: Path, data: Path) -> Run:
    return make_run(configured("translate", data, {"dropout": 0.2}, checkpoint_every=1), folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "none", place], capture_output=True
    ).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(place: Path, leave: int) -> None:
    """Takes all of a disk but some bytes."""
    with (place / "filler").open("wb") as file:
        while (left := shutil.disk_usage(place).free - leave) > 0:
            file.write(b"\0" * min(left, MB))
            file.flush()


def train_and_fill(run: Run, place: Path, leave: int) -> None:
    """Trains on a disk that fills up at the third step."""
    for record in run.train():
        if record.step == 3 and not (place / "filler").exists():
            fill(place, leave)


@pytest.mark.parametrize(("leave", "is_seen"), [(0, True), (20_000, True), (20_000, False)])
def test_a_run_whose_disk_fills_up_says_so_and_can_go_on(
    leave: int, is_seen: bool, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_in(tmp_path / "whole", tmp_path)
    list(whole.train())
    if not is_seen:  # another program takes the room between the question and the save
        monkeypatch.setattr(disk, "free_room", lambda folder: 10**9)
    out = small_disk / "run"
    with pytest.raises(TrainingError) as caught:
        train_and_fill(run_in(out, tmp_path), small_disk, leave)
    assert str(caught.value).startswith(f"The disk of {out} is full: ")
    assert str(caught.value).endswith(f"Free some space, then resume: clearhead train {out} --resume")
    settle(out)
    assert list_checkpoints(out / "checkpoints")
    (small_disk / "filler").unlink()
    list(run_in(out, tmp_path).train(resume=True))
    for name in ("best", "last"):
        assert weights_in(out / name) == weights_in(whole.out / name)


FULL: list[Exception] = [
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EDQUOT, "Disk quota exceeded"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
]


@pytest.mark.parametrize("error", FULL, ids=repr)
@pytest.mark.parametrize("owner", [sharded, model_folder])
def test_any_file_may_be_the_one_that_does_not_fit(
    owner: Any, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_in(tmp_path / "run", tmp_path)
    save: Callable[..., None] = owner.save_file
    count = 0

    def full(*given: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise error
        save(*given, **options)

    monkeypatch.setattr(owner, "save_file", full)
    with pytest.raises(TrainingError, match=r"is full: .*\n.*--resume"):
        list(run.train())
    settle(run.out)


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), disk.explain_full_disk(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(SafetensorError), disk.explain_full_disk(tmp_path):
        raise SafetensorError("invalid header")


def test_what_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    check_room(tmp_path, 1)
    with pytest.raises(OSError, match=r"a checkpoint needs 1000000000\.0 GB, and ") as caught:
        check_room(tmp_path, 10**18)
    assert caught.value.errno == errno.ENOSPC


def test_a_run_folder_has_one_writer(tmp_path: Path) -> None:
    run = run_in(tmp_path / "run", tmp_path)
    records = run.train()
    next(records)
    with pytest.raises(TrainingError) as caught:
        list(run_in(tmp_path / "run", tmp_path).train(resume=True))
    assert str(caught.value) == (
        f"Another process is training in {run.out}.\nWait until it ends, or name another --out."
    )
    records.close()  # type: ignore[attr-defined]
    list(run_in(tmp_path / "run", tmp_path).train(resume=True))


def test_the_room_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"12345")
    assert used_room(tmp_path) == 5
    assert used_room(tmp_path / "none") == 0
    assert nearest(tmp_path / "not" / "yet") == tmp_path


def test_trying_the_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = seconds_to_save(tmp_path / "run", 1000)
    assert once > 0
    assert not [*tmp_path.iterdir()]

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(disk, "save", refuse)
    assert seconds_to_save(tmp_path / "run", 10**9) == 10**9 / disk.SLOW


def test_a_trial_that_was_killed_takes_no_place_and_goes(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with pytest.MonkeyPatch.context() as patch:  # whoever is killed cleans up nothing
        patch.setattr(disk, "TemporaryDirectory", lambda **place: nullcontext(mkdtemp(**place)))
        for place in (out, tmp_path / "other"):
            seconds_to_save(place, 1000)
    (inside,), (above,) = out.iterdir(), (path for path in tmp_path.iterdir() if path != out)
    (out / LOCK).touch()  # it too is left by a kill
    assert not is_taken(out)
    check_free(out)
    list(run_in(out, tmp_path / "data").train())
    assert not (out / LOCK).exists()
    assert not inside.exists()
    seconds_to_save(tmp_path / "other", 1000)
    assert above.exists()  # it may be that of another run
    os.utime(above, (0, time() - 2 * disk.OLD))
    seconds_to_save(tmp_path / "other", 1000)
    assert not above.exists()


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 kB"),
        (512_345, "512 kB"),
        (1e6, "1 MB"),
        (1_048_576, "1.05 MB"),
        (25_400_000, "25 MB"),
        (2.3e9, "2.3 GB"),
    ],
)
def test_sizes_in_words(count: float, words: str) -> None:
    assert format_bytes(count) == words
