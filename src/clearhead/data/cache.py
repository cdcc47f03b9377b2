"""Folders that are costly to make are made once: in a cache, under a name that tells what they hold.

A description (the contents of the sources, the settings, the format) enters; a folder leaves. It is written
beside its place, flushed, and renamed into it, so a folder that is there is whole, whenever its maker was
stopped. Two processes that need the same folder at once take turns: the second finds it made by the first.
"""

import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from clearhead.errors import DataError
from clearhead.storage import flush, flush_all, write_whole

log = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20
SETTLED_SECONDS = 2.0  # a file changed later than this before it was read may change again in the same tick

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


def cache_folder() -> Path:
    """Where the cache lies: CLEARHEAD_CACHE, else below XDG_CACHE_HOME, else ~/.cache/clearhead."""
    if stated := os.environ.get("CLEARHEAD_CACHE"):
        return Path(stated).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "clearhead"


def key_of(description: Mapping[str, Value]) -> str:
    """A name for what is described: the same for the same description, another for any other."""
    text = json.dumps(description, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return sha256(text.encode()).hexdigest()[:32]


def made(folder: Path, is_good: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    """The folder, made by `make` in a place beside it if it is not there or not good."""
    if folder.is_dir() and is_good(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(f"{folder.name}.lock")) as is_alone:
            if not (folder.is_dir() and is_good(folder)):
                _replace(folder, make, is_alone)
    except OSError as error:
        raise DataError(
            f"The cache folder {folder.parent} cannot be written: {error.strerror or error}.\n"
            "Make room or give rights, or name another folder in the variable CLEARHEAD_CACHE."
        ) from error
    return folder


def _replace(folder: Path, make: Callable[[Path], None], is_alone: bool) -> None:
    if is_alone:
        for left in folder.parent.glob(f"{folder.name}.partial-*"):
            log.info("removing %s, which was left unfinished", left)
            shutil.rmtree(left, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
    try:
        make(partial)
        flush_all(partial)
        shutil.rmtree(folder, ignore_errors=True)  # what is not good
        partial.rename(folder)
        flush(folder.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Wait for one's turn; false where the system has no locks, which makes work twice but harms nothing.

    The lock is the system's, so it ends with its process, however that ends.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield True


def checksum(path: Path) -> str:
    """The SHA-256 of a file, read in blocks."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def content_of(path: Path) -> str:
    """The checksum of a source file, remembered for as long as its size and time of change stay the same."""
    status = path.stat()
    stamp = f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
    note = cache_folder() / "files" / f"{key_of({'path': str(path.absolute())})}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(note.read_text())
        if known["stamp"] == stamp:
            return str(known["checksum"])
    content = checksum(path)
    if time.time() - status.st_mtime > SETTLED_SECONDS:
        with suppress(OSError):  # a cache that cannot be written is told of where it matters
            note.parent.mkdir(parents=True, exist_ok=True)
            facts = {"path": str(path.absolute()), "stamp": stamp, "checksum": content}
            write_whole(note, json.dumps(facts), is_lasting=False)
    return content
