"""Files and folders that exist completely or not at all, whenever their writer is killed; and locks.

What is written goes to a hidden name beside its place, is flushed to the disk, and is then renamed. `recover` repairs
what a killed process left on the way:

    .NAME.TOKEN.writing   a folder that is being written
    .NAME.TOKEN.new       a file that is being written
    .NAME.previous        the folder that a new one is replacing, on systems that cannot swap two folders
    .NAME.removing        a folder that is being removed
"""

import ctypes
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from os.path import lexists
from pathlib import Path

from clearhead.errors import ClearheadError, ModelFolderError


def backup_of(folder: Path) -> Path:
    """Where a folder is kept while a new one replaces it."""
    return folder.with_name(f".{folder.name}.previous")


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A new folder to write into, which replaces `folder` once all of it is on disk."""
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError(
            f"{folder} is a file, so it cannot become a model folder.\nChoose another path."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".writing", dir=folder.parent))
    with replace_on_exit(new, folder):
        yield new


@contextmanager
def replace_on_exit(new: Path, folder: Path) -> Iterator[None]:
    """Replaces `folder` by the new one once its contents are on disk; after an error, removes the new one."""
    try:
        yield
        new.chmod(0o755)
        flush_folder(new)
        rename_over(new, folder)
        flush(folder.parent)
        remove(backup_of(folder))
    finally:
        remove(new)


def rename_over(new: Path, folder: Path) -> None:
    """Renames a folder; an existing one is swapped out in the same instant, where the system can do that."""
    if lexists(folder) and not swap(new, folder):
        remove(backup_of(folder))
        folder.rename(backup_of(folder))
    if not lexists(folder):
        new.rename(folder)


def swap(one: Path, other: Path) -> bool:
    """Exchanges the names of two folders in one instant, which only Linux can; whether it did."""
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of its headers
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


@contextmanager
def atomic_file(path: Path, is_durable: bool = True) -> Iterator[Path]:
    """A new file to write, which becomes `path` once all of it is on disk; after an error, it is removed."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        yield new
        if is_durable:
            flush(new)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    if is_durable:
        flush(path.parent)


def write_atomically(path: Path, text: str, is_durable: bool = True) -> None:
    """Writes a file beside its path and renames it: a reader finds the old contents or the new ones.

    A file that is not durable may be lost in a power failure, but costs no wait for the disk.
    """
    with atomic_file(path, is_durable) as new:
        new.write_text(text, encoding="utf-8")


def checksum(path: Path) -> str:
    """The SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def is_unfinished(path: Path, name: str) -> bool:
    """Whether a path is what a killed process left of writing the file of this name."""
    return path.match(f".{name}.*.new")


def remove(path: Path) -> None:
    """Removes a folder with its contents, or a file, if possible; of a symlink only the symlink."""
    if path.is_symlink() or path.is_file():
        with suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_atomically(folder: Path) -> None:
    """Removes a folder: a reader finds all of it or nothing."""
    removing = folder.with_name(f".{folder.name}.removing")
    remove(removing)
    folder.rename(removing)
    remove(removing)


def recover(folder: Path) -> None:
    """Repairs what a killed process left in a folder: removes what is incomplete, restores what was being replaced."""
    for old in folder.glob(".*.previous"):
        place = folder / old.name[1 : -len(".previous")]
        if lexists(place):
            remove(old)
        else:
            old.rename(place)
    for ending in ("writing", "removing", "new"):
        for left in folder.glob(f".*.{ending}"):
            remove(left)


def flush_folder(folder: Path) -> None:
    """Waits until a folder and its files are on disk."""
    for path in [*folder.iterdir(), folder]:
        flush(path)


def flush(path: Path) -> None:
    """Waits until a file, or the listing of a folder, is on disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():  # not every system opens folders
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, refusal: ClearheadError | None = None) -> Iterator[None]:
    """Holds the lock of a file, which ends with its process however that ends.

    Where another process holds it, waits for it, or raises `refusal` at once.
    """
    from filelock import FileLock, Timeout  # most commands need no lock

    # A lock that only exists as a file would outlive a killed process. A generator may release it in another thread.
    lock = FileLock(path, fallback_to_soft=False, thread_local=False)
    try:
        lock.acquire(blocking=refusal is None)
    except Timeout:
        assert refusal is not None
        raise refusal from None
    try:
        yield
    finally:
        lock.release()
