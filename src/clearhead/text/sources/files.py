"""From a path, a folder, a pattern or stdin to the files that are meant, always in the same order.

A folder gives the files below it whose extension says their format, and lists what it ignores. What can be
read only once (stdin, a pipe) is copied to a temporary file, so that every source can be read again.
"""

import atexit
import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from clearhead.config.data import is_glob
from clearhead.errors import DataError
from clearhead.text.sources.formats import EXTENSIONS, is_known, is_prose
from clearhead.text.sources.lines import File


def find_files(source: str, ignored: list[str], needs_columns: bool = False) -> list[File]:
    """The files that a source names, sorted; what else a folder contains is added to `ignored`.

    If columns are needed, a folder gives its tables, and the prose beside them, such as a README.md, is ignored.
    """
    if source == "-":
        return [File("stdin", spooled("-"), is_pipe=True)]
    path = Path(source).expanduser()
    if readable_name(source) != source:
        raise DataError(
            f"{readable_name(source)}: the name is not UTF-8, so a recipe cannot contain it.\n"
            "Rename the file, or name its folder."
        )
    if path.is_dir():
        return _below(path, ignored, needs_columns)
    if path.is_fifo():
        return [File(source, spooled(source), is_pipe=True)]
    if path.exists():
        return [File(source, path)]
    if is_glob(source):
        return _matches(str(path), ignored)
    if path.is_symlink():
        raise DataError(f"{source} is a broken symlink.\nIt points to {os.readlink(path)}.")
    raise DataError(f"{source} does not exist.\n{_guess(path)}")


def readable_name(path: str | Path) -> str:
    """A path as text that can be printed and kept; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _below(folder: Path, ignored: list[str], needs_columns: bool) -> list[File]:
    found: list[File] = []
    others: list[str] = []
    for path in _walk(folder):
        if path.is_file() and is_known(path.name) and not path.name.startswith("."):
            found.append(File(readable_name(path), path))
        else:
            others.append(readable_name(path) + os.sep * path.is_dir())
    tables = [file for file in found if not is_prose(file.path.name)] if needs_columns else found
    if tables and needs_columns:
        others += [file.name for file in found if is_prose(file.path.name)]
        found = tables
    ignored.extend(others)
    if not found:
        fault = (
            f"contains no file of a known format, only {len(others)} others, such as {others[0]}"
            if others
            else "is empty"
        )
        raise DataError(
            f"{folder} {fault}.\n"
            f"A folder is searched for files that end in {', '.join(EXTENSIONS)}, each also with .gz; "
            f"to read others, give a pattern, such as {folder / '*.py'}."
        )
    return found


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder in the order of names; hidden folders and symlinks are not entered."""
    try:
        held = sorted(folder.iterdir())
    except OSError as error:
        fault = f"{folder} cannot be opened: {error.strerror}."
        raise DataError(f"{fault}\nCheck its permissions.") from None
    for path in held:
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield from _walk(path)
        else:
            yield path


def _matches(pattern: str, ignored: list[str]) -> list[File]:
    found = [Path(path) for path in sorted(_expanded(pattern))]
    ignored.extend(f"{readable_name(path)}{os.sep}" for path in found if path.is_dir())
    files = [File(readable_name(path), path) for path in found if not path.is_dir()]
    if not files:
        raise DataError(f"No file matches {pattern}.\nCheck the folder and the pattern: * matches any name.")
    return files


def _expanded(pattern: str) -> set[str]:
    """What a pattern matches; `**` enters neither symlinks, which may lead back, nor hidden folders."""
    parts = Path(pattern).parts
    if "**" not in parts:
        return set(glob.glob(pattern))
    at = parts.index("**")
    rest = os.path.join(*parts[at + 1 :]) if parts[at + 1 :] else "*"
    found: set[str] = set()
    for base in glob.glob(os.path.join(*parts[:at])) if at else [""]:
        for folder, below, _ in os.walk(base or os.curdir):
            below[:] = [name for name in below if not name.startswith(".")]
            inside = os.path.join(base, os.path.relpath(folder, base or os.curdir))
            found |= _expanded(os.path.join(glob.escape(os.path.normpath(inside)), rest))
    return found


def _guess(path: Path) -> str:
    if not path.parent.is_dir():
        return f"There is no folder {path.parent} either."
    near = get_close_matches(path.name, map(readable_name, os.listdir(path.parent)), n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else f"Looked in {path.parent.absolute()}."


@cache
def spooled(name: str) -> Path:
    """What a pipe, or stdin for `-`, gives, as a file that lives as long as the process."""
    folder = tempfile.mkdtemp(prefix="clearhead-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder, "pipe")
    try:
        with copy.open("wb") as target:
            if name == "-":
                shutil.copyfileobj(sys.stdin.buffer, target)
            else:
                with open(name, "rb") as pipe:
                    shutil.copyfileobj(pipe, target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        shutil.rmtree(folder, ignore_errors=True)
        raise DataError(
            f"The temporary folder {tempfile.gettempdir()} is full; set TMPDIR.\n"
            "Data from stdin or a pipe is copied there, because it is read more than once."
        ) from None
    return copy
