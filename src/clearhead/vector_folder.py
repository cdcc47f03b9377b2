"""A vectors folder contains words and one vector for each: what `clearhead vectors` writes and training may start from.

    vectors.json          format, width, number of words, and how they were made
    words.json            the words, most frequent first, with their counts if known
    vectors.safetensors   the table E: (words, width)
    checksums.json        the SHA-256 of the three

Like a model folder it is written beside its path, flushed and renamed, and nothing in it is executed.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clearhead.config.vectors import MOST_WORDS, WIDEST_VECTOR
from clearhead.errors import ModelFolderError
from clearhead.folder_files import (
    changed_files,
    check_file,
    read_checksums,
    read_json,
    why_unreadable,
    write_checksums,
)
from clearhead.storage import atomic_folder

FORMAT = 1
FACTS, WORDS, VECTORS = "vectors.json", "words.json", "vectors.safetensors"
FILES = (FACTS, WORDS, VECTORS)
LARGEST_WORDS = 1 << 29  # bytes of the file of words
TABLE = "vectors"  # the name of the tensor


@dataclass(frozen=True)
class VectorTable:
    """Words, most frequent first, and the vector of each: E is (words, width)."""

    words: list[str]
    E: Tensor
    counts: list[int] | None = None
    made: Mapping[str, Any] = field(default_factory=dict)  # how: settings, source, versions

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        return self.E.shape[1]


def save(folder: str | Path, table: VectorTable) -> None:
    """Writes a vectors folder; the path must be free."""
    check_free(Path(folder))
    facts = {"format": FORMAT, "width": table.width, "words": len(table.words), "made": dict(table.made)}
    words = {"words": table.words} | ({} if table.counts is None else {"counts": table.counts})
    with atomic_folder(Path(folder)) as place:
        (place / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (place / WORDS).write_text(json.dumps(words, ensure_ascii=False) + "\n", encoding="utf-8")
        save_file({TABLE: table.E.float().contiguous()}, place / VECTORS)
        shutil.copymode(place / FACTS, place / VECTORS)  # safetensors writes files that only we may read
        write_checksums(place, FILES)


def check_free(folder: Path) -> None:
    """Rejects a path that already exists, before anything is computed for it."""
    if folder.exists() or folder.is_symlink():
        raise ModelFolderError(f"{folder} already exists.\nChoose another path, or remove it.")


def is_vectors(folder: str | Path) -> bool:
    """Whether a path is a vectors folder."""
    return (Path(folder) / FACTS).exists()


def load(folder: str | Path) -> VectorTable:
    """Reads a vectors folder; a damaged one is refused."""
    folder = Path(folder)
    if not is_vectors(folder):
        what = "is no vectors folder" if folder.exists() else "does not exist"
        raise ModelFolderError(
            f"{folder} {what}: it has no {FACTS}.\n"
            "Make one with `clearhead vectors train SOURCE OUT` or `clearhead vectors import FILE OUT`."
        )
    changed = changed_files(folder, read_checksums(folder), names=FILES)
    if changed:
        lines = "\n".join(f"{folder / name} {what}." for name, what in changed)
        raise ModelFolderError(f"{lines}\nThe folder is damaged; copy it again.")
    facts = read_json(folder / FACTS)
    check_facts(folder, facts)
    words, counts = read_words(folder / WORDS, facts["words"])
    E = read_table(folder / VECTORS, (facts["words"], facts["width"]))
    return VectorTable(words, E, counts, facts.get("made") or {})


def check_facts(folder: Path, facts: Any) -> None:
    """Raises if the facts are not those of a vectors folder that this version reads."""
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise ModelFolderError(
            f"{folder / FACTS} has format {found!r}, but this version reads format {FORMAT}.\nUpdate clearhead."
        )
    for key, most in (("words", MOST_WORDS), ("width", WIDEST_VECTOR)):
        if type(facts.get(key)) is not int or not 0 < facts[key] <= most:
            raise ModelFolderError(
                f"{folder / FACTS}: {key} = {facts.get(key)!r} is not a number from 1 to {most:,}.\n"
                "The file is damaged; copy the folder again."
            )


def read_words(path: Path, count: int) -> tuple[list[str], list[int] | None]:
    """The words of a folder, all different, and how often each was counted."""
    table = read_json(path, LARGEST_WORDS)
    words: Any = table.get("words") if isinstance(table, dict) else None
    is_list = isinstance(words, list) and all(isinstance(word, str) and word for word in words)
    if not is_list or not len(words) == len({*words}) == count:
        raise ModelFolderError(
            f"{path} is not a list of {count:,} different words.\nIt is damaged; copy the folder again."
        )
    counts = table.get("counts")
    fits = counts is None or (
        isinstance(counts, list) and len(counts) == count and all(type(each) is int for each in counts)
    )
    if not fits:
        raise ModelFolderError(
            f"{path}: the counts do not fit the words.\nIt is damaged; copy the folder again."
        )
    return words, counts


def read_table(path: Path, shape: tuple[int, int]) -> Tensor:
    """The vectors of a folder, as float32."""
    check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            if list(file.keys()) != [TABLE] or tuple(file.get_slice(TABLE).get_shape()) != shape:
                raise ModelFolderError(
                    f"{path} does not contain one tensor {TABLE!r} of shape {list(shape)}.\n"
                    f"{FACTS} and {path.name} belong to different folders."
                )
            E = file.get_tensor(TABLE).float().clone()
    except SafetensorError as error:
        raise ModelFolderError(f"{path} {why_unreadable(path, error)}") from None
    if not bool(E.isfinite().all()):
        raise ModelFolderError(f"{path} contains NaN or infinity.\nIt is damaged; copy the folder again.")
    return E
