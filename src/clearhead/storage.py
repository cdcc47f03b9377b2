"""Files and folders that are there as a whole or not at all, whenever their writer is killed.

A text or a function that fills a folder enters; what it writes stands beside its place until all of it is on the
disk, and is then renamed. `mend` clears away what a kill left on the way.
"""

import ctypes
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clearhead.errors import CheckpointError


def previous(folder: Path) -> Path:
    """Where a folder stands while another takes its place."""
    return folder.with_name(f".{folder.name}.previous")


@contextmanager
def written_beside(folder: Path) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `folder` when all is on disk."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file, so no model folder can stand there.\nName another place.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".writing", dir=folder.parent))
    with taking_place(place, folder):
        yield place


@contextmanager
def taking_place(place: Path, folder: Path) -> Iterator[None]:
    """Moves a new folder to the place of `folder` when all that is written into it is on disk; else it goes."""
    try:
        yield
        place.chmod(0o755)
        flush_all(place)
        put_in_place(place, folder)
        flush(folder.parent)
        remove(previous(folder))
    finally:
        remove(place)


def put_in_place(new: Path, folder: Path) -> None:
    """Renames a folder; one that stands in its place leaves it at the same moment, where the system can do that."""
    if stands(folder) and not exchanged(new, folder):
        remove(previous(folder))
        folder.rename(previous(folder))
    if not stands(folder):
        new.rename(folder)


def exchanged(one: Path, other: Path) -> bool:
    """Whether two folders have changed places at one moment, as only Linux can."""
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of its headers
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def write_whole(place: Path, text: str, is_lasting: bool = True) -> None:
    """Writes a file beside its place and moves it there: whoever reads it finds the old one or the new one.

    One that does not last may be lost with the power of the machine, and costs no wait for the disk.
    """
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        if is_lasting:
            flush(beside)
        os.replace(beside, place)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    if is_lasting:
        flush(place.parent)


def is_half_written(path: Path, name: str) -> bool:
    """Whether a path is what a kill left of writing the file of this name."""
    return path.match(f".{name}.*.new")


def stands(path: Path) -> bool:
    """Whether there is anything of this name, be it a link to nowhere."""
    return path.exists() or path.is_symlink()


def remove(path: Path) -> None:
    """Removes a folder with all that is in it, or a file, if it can; of a link only the link."""
    if path.is_symlink() or path.is_file():
        with suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_whole(folder: Path) -> None:
    """Removes a folder: whoever looks finds all of it or nothing."""
    beside = folder.with_name(f".{folder.name}.removing")
    remove(beside)
    folder.rename(beside)
    remove(beside)


def mend(folder: Path) -> None:
    """Ends what a kill left half done among the things of a folder: nothing half written or removed stays.

    What another was about to replace stands in its place again, unless the other had already come.
    """
    for old in folder.glob(".*.previous"):
        place = folder / old.name[1 : -len(".previous")]
        if stands(place):
            remove(old)
        else:
            old.rename(place)
    for ending in ("writing", "removing", "new"):
        for left in folder.glob(f".*.{ending}"):
            remove(left)


def flush_all(folder: Path) -> None:
    """Waits until a folder and the files in it are on disk."""
    for path in [*folder.iterdir(), folder]:
        flush(path)


def flush(path: Path) -> None:
    """Waits until a file, or the list of what a folder holds, is on disk."""
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
