"""The disk of a run: its free space, asked before a run and before each save; its speed; and who else writes there."""

import errno
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time

import torch
from safetensors import SafetensorError

from clearhead.errors import TrainingError
from clearhead.storage import locked, remove
from clearhead.training.checkpoints.save import save
from clearhead.training.run.folder import LOCK, TRIAL, create_folder

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SAMPLE = 1 << 24  # bytes that are written to measure the speed of the disk
OLD = 3600  # seconds after which no process is writing to it any more
SLOW = 2e7  # bytes per second, if nothing can be written


def check_room(folder: Path, needed: int) -> None:
    """Rejects a checkpoint that the disk has no room for."""
    if (free := free_room(folder)) < needed:
        raise OSError(
            errno.ENOSPC, f"a checkpoint needs {format_bytes(needed)}, and {format_bytes(free)} is free"
        )


def free_room(folder: Path) -> int:
    """Free bytes on the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(nearest(folder)).free


def used_room(folder: Path) -> int:
    """Bytes that the files of a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def nearest(folder: Path) -> Path:
    """The folder, or the nearest parent that exists."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())


def seconds_to_save(folder: Path, count: int) -> float:
    """How long a checkpoint of this size takes to save there, measured by writing and removing a small one."""
    tensors = {"weights": torch.rand(min(count, SAMPLE) // 4, generator=torch.Generator())}
    try:
        clear_trials(nearest(folder))
        with TemporaryDirectory(prefix=TRIAL, suffix=".writing", dir=nearest(folder)) as place:
            started = perf_counter()
            save(Path(place), {"step": 0}, tensors, keep=1)
            return (perf_counter() - started) * max(1.0, count / SAMPLE)
    except OSError:  # a plan may be made for a folder that is not writable
        return count / SLOW


def clear_trials(folder: Path) -> None:
    """Removes what a killed process left of such a save, once it is too old to belong to another run."""
    for left in folder.glob(f"{TRIAL}*"):
        if time() - left.stat().st_mtime > OLD:
            remove(left)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Rejects a run folder in which another process is training; removes its lock file at the end."""
    create_folder(folder)
    refusal = TrainingError(
        f"Another process is training in {folder}.\nWait until it ends, or name another --out."
    )
    with locked(folder / LOCK, refusal):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file, and filelock removes it there
                (folder / LOCK).unlink()


@contextmanager
def explain_full_disk(out: Path) -> Iterator[None]:
    """Says what to do if the disk of a run folder is full."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if not is_full(error):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TrainingError(
            f"The disk of {out} is full: {reason}.\n"
            "Everything saved before is intact. Free some space, then resume: "
            f"clearhead train {shlex.quote(str(out))} --resume"
        ) from None


def is_full(error: Exception) -> bool:
    """Whether an error means that a disk is full."""
    if isinstance(error, OSError):
        return error.errno in FULL
    return any(os.strerror(number) in str(error) for number in FULL)


def format_bytes(count: float) -> str:
    """A number of bytes for people; small disks need more digits."""
    if count >= 1e8:
        return f"{count / 1e9:.1f} GB"
    if count >= 1e7:
        return f"{round(count / 1e6)} MB"
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{max(1, round(count / 1e3))} kB"
