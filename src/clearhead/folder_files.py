"""The files of a folder that is opened: a path enters; JSON leaves, or an error that says what is wrong with the file.

`checksums.json` has the SHA-256 of files when they were written, so that a later reader knows which have changed.
"""

import json
import math
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clearhead.errors import ModelFolderError
from clearhead.storage import checksum, write_atomically

CHECKSUMS = "checksums.json"
LARGEST_JSON = 1 << 24  # bytes; configs and lists of labels are far smaller


def read_json(path: Path, largest: int | None = None) -> Any:
    """A JSON file of bounded size."""
    check_file(path)
    largest = largest or LARGEST_JSON
    if path.stat().st_size > largest:
        raise ModelFolderError(f"{path} has {path.stat().st_size} bytes; the limit is {largest}.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # the first also for an integer of thousands of digits
        raise ModelFolderError(
            f"{path} is not valid JSON: {error}.\nThe file is damaged; copy it again."
        ) from None


def check_file(path: Path) -> None:
    """Raises if a file is missing."""
    if path.is_dir() or (path.is_symlink() and not path.exists()):
        what = "is a folder" if path.is_dir() else f"is a symlink to {path.readlink()}, which does not exist"
        raise ModelFolderError(f"{path} {what}.\nPut the file itself there.")
    if not path.is_file():
        present = ", ".join(sorted(file.name for file in path.parent.iterdir())) or "nothing"
        raise ModelFolderError(f"{path} is missing.\nThe folder contains: {present}.")


def why_unreadable(path: Path, error: Exception) -> str:
    """What is wrong with a file that should be safetensors."""
    with path.open("rb") as file:
        start = file.read(2)
    if start in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        return (
            "is a pickle under another name.\n"
            "A pickle can run code, so it is not opened; save the model as safetensors."
        )
    return f"is not a complete safetensors file ({error}).\nIt is damaged or truncated; copy it again."


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Writes the checksums of the files as they are now."""
    found = {name: checksum(folder / name) for name in names if (folder / name).exists()}
    write_atomically(folder / CHECKSUMS, json.dumps({"sha256": found}, indent=2) + "\n")


def read_checksums(folder: Path) -> dict[str, str] | None:
    """The checksums of the files when they were written, by name; None for a folder that has none."""
    if not (folder / CHECKSUMS).exists():
        return None
    table = read_json(folder / CHECKSUMS)
    found = table.get("sha256") if isinstance(table, dict) else None
    if not isinstance(found, dict):
        raise ModelFolderError(
            f"{folder / CHECKSUMS} has no table 'sha256'.\nThe file is damaged; copy it again."
        )
    return found


def changed_files(
    folder: Path, written: dict[str, str] | None, names: Iterable[str], largest: float = math.inf
) -> list[tuple[str, str]]:
    """The files that are not as they were written, each with what is wrong; larger ones are not looked at."""
    changed = []
    for name in names if written is not None else ():
        path, expected = folder / name, (written or {}).get(name)
        if not path.exists():
            changed += [(name, "is missing, but was written")] if expected is not None else []
        elif expected is None:
            changed.append((name, "was not written with this model"))
        elif path.stat().st_size <= largest and checksum(path) != expected:
            changed.append((name, "is not as it was written: its SHA-256 differs"))
    return changed


def refuse_changes(folder: Path, changed: list[tuple[str, str]]) -> None:
    """Raises if files are not as they were written."""
    if changed:
        lines = [f"{folder / name} {what}." for name, what in changed]
        raise ModelFolderError(
            "\n".join(lines) + "\nDamaged, or of another model: copy the folder again. "
            f"If you changed it on purpose: clearhead check {shlex.quote(str(folder))} --accept"
        )
