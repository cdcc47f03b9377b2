"""The disk of a run: its room, asked before a run and before each save; its speed; and who else writes there."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time

import torch
from safetensors import SafetensorError

from clearhead.errors import TrainingError
from clearhead.storage import remove
from clearhead.training.place import TRIAL
from clearhead.training.snapshots import write

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SAMPLE = 1 << 24  # bytes that are written to see how fast the disk is
OLD = 3600  # seconds after which nobody is writing it any more
SLOW = 2e7  # bytes a second, where nothing can be tried


def check_room(folder: Path, needed: int) -> None:
    """Refuses to begin a checkpoint that the disk has no room for."""
    if (free := free_room(folder)) < needed:
        raise OSError(errno.ENOSPC, f"a checkpoint needs {size(needed)}, and {size(free)} are free")


def free_room(folder: Path) -> int:
    """Bytes that are free on the disk of a folder, which need not be there yet."""
    return shutil.disk_usage(nearest(folder)).free


def used_room(folder: Path) -> int:
    """Bytes that the files of a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())


def seconds_to_save(folder: Path, count: int) -> float:
    """How long a checkpoint of so many bytes takes there: a small one is written, and removed."""
    tensors = {"weights": torch.rand(min(count, SAMPLE) // 4, generator=torch.Generator())}
    try:
        clear_trials(nearest(folder))
        with TemporaryDirectory(prefix=TRIAL, suffix=".writing", dir=nearest(folder)) as place:
            started = perf_counter()
            write(Path(place), {"step": 0}, tensors, keep=1)
            return (perf_counter() - started) * max(1.0, count / SAMPLE)
    except OSError:  # a plan may be asked for where nothing can be written
        return count / SLOW


def clear_trials(folder: Path) -> None:
    """Removes what a kill has left of such a save, once it is too old to be that of another run."""
    for left in folder.glob(f"{TRIAL}*"):
        if time() - left.stat().st_mtime > OLD:
            remove(left)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Refuses a run folder that another process writes to; the lock is the system's, and ends with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle, folder)
        yield
    finally:
        os.close(handle)


def lock(handle: int, folder: Path) -> None:
    """Takes the lock of an open folder, where the system has such locks."""
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(
                f"Another process is training in {folder}.\nWait until it ends, or name another --out."
            ) from None


@contextmanager
def told_when_full(out: Path) -> Iterator[None]:
    """Says what to do where the disk under a run folder is full."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if not is_full(error):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TrainingError(
            f"The disk of {out} is full: {reason}.\n"
            f"What was kept before is whole. Make room, then go on with: clearhead train {out} --resume"
        ) from None


def is_full(error: Exception) -> bool:
    """Whether an error says that there is no room on a disk."""
    if isinstance(error, OSError):
        return error.errno in FULL
    return any(os.strerror(number) in str(error) for number in FULL)


def size(count: float) -> str:
    """Bytes in words; a small disk needs the more digits."""
    if count >= 1e8:
        return f"{count / 1e9:.1f} GB"
    if count >= 1e7:
        return f"{round(count / 1e6)} MB"
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{max(1, round(count / 1e3))} kB"
