"""Folders that are costly to make are made once: in a cache, under a key that says what they contain.

A description (the contents of the sources, the settings, the format) enters; a folder leaves. It is written
beside its place, flushed, and renamed into it, so a folder that exists is complete, whenever its maker was
killed. Two processes that need the same folder at once take turns: the second finds it made by the first.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from clearhead.config.data import Reading
from clearhead.errors import DataError
from clearhead.storage import checksum, flush, flush_folder, locked, write_atomically
from clearhead.text.sources.parts import AlignedPart, BuiltinPart, FilePart, HubPart, SourcePart
from clearhead.text.sources.read import ExampleReader

log = logging.getLogger(__name__)

# Part of every key. Raise it in the commit after which the same sources and settings give other examples, tokens
# or shards: a change to a reader, a built-in corpus, the training of a tokenizer, frames or the encoding. A change
# that leaves them alone, such as a rename, keeps what users have already prepared.
VERSION = 2
SETTLED_SECONDS = 2.0  # a file changed later than this before it was read may change again in the same tick

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


def cache_folder() -> Path:
    """Where the cache is: CLEARHEAD_CACHE, else below XDG_CACHE_HOME, else ~/.cache/clearhead."""
    if stated := os.environ.get("CLEARHEAD_CACHE"):
        return Path(stated).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "clearhead"


def key_of(description: Mapping[str, Value]) -> str:
    """A name for what is described: the same for the same description, another for any other."""
    text = json.dumps(description, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return sha256(text.encode()).hexdigest()[:32]


def find_or_make(folder: Path, is_good: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    """The folder, made by `make` in a place beside it if it does not exist or is not good."""
    if folder.is_dir() and is_good(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not (folder.is_dir() and is_good(folder)):
                _replace(folder, make)
    except OSError as error:
        raise DataError(
            f"The cache folder {folder.parent} cannot be written: {error.strerror or error}.\n"
            "Free some space, check its permissions, or name another folder in the variable CLEARHEAD_CACHE."
        ) from error
    return folder


def _replace(folder: Path, make: Callable[[Path], None]) -> None:
    for left in folder.parent.glob(f"{folder.name}.partial-*"):
        log.info("removing %s, which is incomplete", left)
        shutil.rmtree(left, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
    try:
        make(partial)
        flush_folder(partial)
        shutil.rmtree(folder, ignore_errors=True)  # what is not good
        partial.rename(folder)
        flush(folder.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def content_of(path: Path) -> str:
    """The checksum of a source file, remembered for as long as its size and time of change stay the same."""
    status = path.stat()
    # A program can keep the time of modification, as `cp -p` and `touch -r` do, but not that of the change.
    stamp = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
    note = cache_folder() / "files" / f"{key_of({'path': str(path.absolute())})}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(note.read_text())
        if known["stamp"] == stamp:
            return str(known["checksum"])
    content = checksum(path)
    if time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_SECONDS:
        with suppress(OSError):  # a cache that cannot be written is reported where it matters
            note.parent.mkdir(parents=True, exist_ok=True)
            facts = {"path": str(path.absolute()), "stamp": stamp, "checksum": content}
            write_atomically(note, json.dumps(facts), is_durable=False)
    return content


def identity(reader: ExampleReader) -> dict[str, Value]:
    """What a reader will give, by contents and settings, not by the names of files."""
    return {
        "parts": [_part_identity(part) for part in reader.parts],
        "reading": reader.reading.model_dump(mode="json", include=set(Reading.model_fields)),
        "side": reader.side,
        "shares": dict(reader.shares),
        "version": VERSION,
    }


def _part_identity(part: SourcePart) -> dict[str, Value]:
    contents: list[Value] = [content_of(path) for path in part.paths]
    match part:
        case FilePart(_, form, schema):
            return {"file": contents, "format": form, "kind": schema.kind, "label": schema.label}
        case AlignedPart():
            return {"aligned": contents}
        case BuiltinPart(corpus, kind, split):
            return {"builtin": corpus.name, "kind": kind, "split": split, "python": sys.version}
        case HubPart(dataset, split_name, schema):
            return {"hub": dataset, "split": split_name, "kind": schema.kind}
    raise AssertionError(f"{type(part).__name__} has no identity")
