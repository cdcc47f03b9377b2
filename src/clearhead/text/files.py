"""From a path, a folder, a pattern or stdin to the files that are meant, always in the same order.

A folder gives the files below it whose extension says their format, and lists what it ignores. What can be
read only once (stdin, a pipe) is copied to a temporary file, so that every source can be read again.
"""

import atexit
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
from clearhead.text.formats import EXTENSIONS, is_known
from clearhead.text.lines import File


def find_files(source: str, ignored: list[str]) -> list[File]:
    """The files that a source names, sorted; what a folder holds beside them is added to `ignored`."""
    if source == "-":
        return [File("stdin", spooled("-"), is_pipe=True)]
    path = Path(source).expanduser()
    if path.is_dir():
        return _below(path, ignored)
    if path.is_fifo():
        return [File(source, spooled(source), is_pipe=True)]
    if path.exists():
        return [File(source, path)]
    if is_glob(source):
        return _matches(str(path), ignored)
    raise DataError(f"{source} does not exist.\n{_guess(path)}")


def _below(folder: Path, ignored: list[str]) -> list[File]:
    found: list[File] = []
    others: list[str] = []
    for path in _walk(folder):
        if path.is_file() and is_known(path.name) and not path.name.startswith("."):
            found.append(File(str(path), path))
        else:
            others.append(f"{path}{os.sep}" if path.is_dir() else str(path))
    ignored.extend(others)
    if not found:
        held = f"it holds {len(others)} others, such as {others[0]}" if others else "it is empty"
        raise DataError(
            f"{folder} has no file of a known format: {held}.\n"
            f"A folder gives its files that end in {', '.join(EXTENSIONS)}, each also with .gz; "
            f"for others give a pattern, such as {folder / '*.md'}."
        )
    return found


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder in the order of names; folders that are hidden or links are not entered."""
    try:
        held = sorted(folder.iterdir())
    except OSError as error:
        fault = f"{folder} cannot be opened: {error.strerror}."
        raise DataError(f"{fault}\nCheck the rights to read it.") from None
    for path in held:
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield from _walk(path)
        else:
            yield path


def _matches(pattern: str, ignored: list[str]) -> list[File]:
    found = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]
    ignored.extend(f"{path}{os.sep}" for path in found if path.is_dir())
    files = [File(str(path), path) for path in found if not path.is_dir()]
    if not files:
        raise DataError(
            f"No file matches {pattern}.\nCheck the folder and the pattern: * stands for any name."
        )
    return files


def _guess(path: Path) -> str:
    if not path.parent.is_dir():
        return f"There is no folder {path.parent} either."
    near = get_close_matches(path.name, os.listdir(path.parent), n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else f"Looked in {path.parent.absolute()}."


@cache
def spooled(name: str) -> Path:
    """What a pipe, or stdin for `-`, gives, as a file that lives as long as the process."""
    folder = tempfile.mkdtemp(prefix="clearhead-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder, "pipe")
    with copy.open("wb") as target:
        if name == "-":
            shutil.copyfileobj(sys.stdin.buffer, target)
        else:
            with open(name, "rb") as pipe:
                shutil.copyfileobj(pipe, target)
    return copy
