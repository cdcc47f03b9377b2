"""Prepared examples on disk: memory-mapped shards of token ids, an index of their borders, and checksums.

Arrays of ids enter, a folder leaves, and is read back as columns without being loaded. A folder holds

    manifest.json                   format, columns, counts, and for each file its size and SHA-256
    00000.text.ids.npy              the ids of the first shard, one example after the other
    00000.text.borders.npy          where each example begins, and where the last ends
    00000.hashes.npy                8 bytes for each example: of its input, and of all of it
    00000.labels.npy                for texts with labels, the number of each

with one pair of ids and borders for each column (text; or source and target). The files are plain NumPy
arrays, ids in two bytes where the vocabulary allows it and in four where not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from clearhead.data.account import Account
from clearhead.data.cache import checksum
from clearhead.data.columns import Column, by_piece
from clearhead.data.order import Integers
from clearhead.data.ragged import Encoded
from clearhead.errors import DataError

FORMAT = 1
MANIFEST = "manifest.json"

SMALL_BYTES = 1 << 14

AGAIN = "Delete the folder, and it is prepared again."


class FileFacts(BaseModel):
    """What a file of a shard must be."""

    bytes: int
    sha256: str


class ShardFacts(BaseModel):
    """One shard: how many examples, in which files."""

    examples: int
    files: dict[str, FileFacts]


class Manifest(BaseModel):
    """All that is known of a folder; written last, so that a folder without one is nothing."""

    format: int
    columns: tuple[str, ...]
    labels: tuple[str, ...] | None
    account: Account
    shards: list[ShardFacts]


@dataclass
class Writer:
    """Writes encoded examples into a folder, a shard whenever enough have come together."""

    folder: Path
    columns: tuple[str, ...]
    vocabulary: int
    shard_tokens: int
    _held: list[Encoded] = field(default_factory=list)
    _tokens: int = 0
    _shards: list[ShardFacts] = field(default_factory=list)

    @property
    def type(self) -> "np.dtype[np.integer]":
        """The smallest type that holds every id."""
        return np.dtype(np.uint16 if self.vocabulary <= 1 << 16 else np.uint32)

    def add(self, encoded: Encoded) -> None:
        """Take some more examples."""
        ids = tuple(ids.astype(self.type, copy=False) for ids in encoded.ids)
        self._held.append(replace(encoded, ids=ids))
        self._tokens += sum(len(column) for column in ids)
        if self._tokens >= self.shard_tokens:
            self._write()

    def finish(self, account: Account, labels: Iterable[str] | None = None) -> None:
        """Write what is left, and last the manifest."""
        if self._held:
            self._write()
        names = None if labels is None else tuple(labels)
        manifest = Manifest(
            format=FORMAT, columns=self.columns, labels=names, account=account, shards=self._shards
        )
        (self.folder / MANIFEST).write_text(manifest.model_dump_json(indent=1), "utf-8")

    def _write(self) -> None:
        held, self._held, self._tokens = self._held, [], 0
        files: dict[str, FileFacts] = {}
        for at, column in enumerate(self.columns):
            counts = np.concatenate([encoded.counts[at] for encoded in held])
            files |= self._save(f"{column}.ids", np.concatenate([encoded.ids[at] for encoded in held]))
            files |= self._save(f"{column}.borders", np.concatenate([[0], np.cumsum(counts)]))
        files |= self._save("hashes", np.concatenate([encoded.hashes for encoded in held]))
        labels = [encoded.labels for encoded in held if encoded.labels is not None]
        if labels:
            files |= self._save("labels", np.concatenate(labels))
        self._shards.append(ShardFacts(examples=sum(len(encoded.hashes) for encoded in held), files=files))

    def _save(self, name: str, array: NDArray[Any]) -> dict[str, FileFacts]:
        path = self.folder / f"{len(self._shards):05}.{name}.npy"
        np.save(path, array, allow_pickle=False)
        return {path.name: FileFacts(bytes=path.stat().st_size, sha256=checksum(path))}


@dataclass(frozen=True)
class Shards:
    """A folder of prepared examples, opened: sizes are checked, contents only by `verify`."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, folder: Path) -> "Shards":
        """The prepared examples of a folder; a folder that is not whole is an error."""
        try:
            manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{folder} holds no whole prepared data: {reason}.\n{AGAIN}") from None
        if manifest.format != FORMAT:
            raise DataError(f"{folder} has format {manifest.format}; this version reads {FORMAT}.\n{AGAIN}")
        shards = cls(folder, manifest)
        for name, facts in shards.files.items():
            path = folder / name
            found = f"has {path.stat().st_size} bytes" if path.exists() else "is missing"
            if found != f"has {facts.bytes} bytes":
                raise DataError(f"{path} {found}; it should have {facts.bytes} bytes.\n{AGAIN}")
        return shards

    @property
    def files(self) -> dict[str, FileFacts]:
        """All files but the manifest."""
        return {name: facts for shard in self.manifest.shards for name, facts in shard.files.items()}

    @property
    def bytes(self) -> int:
        """The size of all of them."""
        return sum(facts.bytes for facts in self.files.values())

    def verify(self) -> None:
        """Read every file and compare its checksum; a byte that changed is an error."""
        for name, facts in self.files.items():
            if checksum(self.folder / name) != facts.sha256:
                raise DataError(f"{self.folder / name} has changed since it was written.\n{AGAIN}")

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return sum(shard.examples for shard in self.manifest.shards)

    def column(self, name: str) -> Column:
        """The ids of one column."""
        return Column(self.arrays(f"{name}.ids"), self.arrays(f"{name}.borders"))

    def arrays(self, name: str) -> tuple[NDArray[Any], ...]:
        """An array of every shard, mapped, not loaded."""
        return tuple(_mapped(self.folder / f"{n:05}.{name}.npy") for n in range(len(self.manifest.shards)))

    @cached_property
    def _labels(self) -> tuple[NDArray[Any], ...]:
        return self.arrays("labels")

    def labels(self, examples: Integers) -> Integers:
        """The numbers of the labels of some examples, as the manifest counts them."""
        borders = np.cumsum([0, *(shard.examples for shard in self.manifest.shards)])
        numbers = np.empty_like(examples)
        for piece, here, local in by_piece(borders, examples):
            numbers[here] = self._labels[piece][local]
        return numbers


def _mapped(path: Path) -> NDArray[Any]:
    # Small arrays are read at once: each map costs a page and a file handle, and an empty one is an error.
    mode: Literal["r"] | None = "r" if path.stat().st_size > SMALL_BYTES else None
    array: NDArray[Any] = np.load(path, mmap_mode=mode, allow_pickle=False)
    return array
