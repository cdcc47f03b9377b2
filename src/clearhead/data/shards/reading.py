"""A folder of shards enters; its columns of token ids leave, mapped into memory and not loaded."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.data.order import Integers
from clearhead.data.shards.columns import TokenColumn, by_piece
from clearhead.data.shards.manifest import FORMAT, LABELS, MANIFEST, TAGS, FileFacts, Manifest
from clearhead.errors import DataError
from clearhead.storage import checksum

SMALL_BYTES = 1 << 14
AGAIN = "Delete the folder, and the data will be prepared again."


@dataclass(frozen=True)
class Shards:
    """A folder of prepared examples, opened: sizes are checked, contents only by `verify`."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, folder: Path) -> "Shards":
        """The prepared examples of a folder; an incomplete folder is an error."""
        try:
            manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{folder} contains no complete prepared data: {reason}.\n{AGAIN}") from None
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

    def column(self, name: str) -> TokenColumn:
        """The ids of one column."""
        return TokenColumn(self.arrays(f"{name}.ids"), self.arrays(f"{name}.borders"))

    def arrays(self, name: str) -> tuple[NDArray[Any], ...]:
        """An array of every shard, mapped, not loaded."""
        return tuple(_mapped(self.folder / f"{n:05}.{name}.npy") for n in range(len(self.manifest.shards)))

    @cached_property
    def _labels(self) -> tuple[NDArray[Any], ...]:
        return self.arrays(LABELS)

    def label_numbers(self) -> Iterator[Integers]:
        """The numbers of all labels, of examples or of words, shard by shard."""
        names = {name.partition(".")[2] for name in self.files}
        if f"{TAGS}.ids.npy" in names:
            yield from (tags[tags > 0].astype(np.int64) - 1 for tags in self.arrays(f"{TAGS}.ids"))
        else:
            yield from self.arrays(f"{LABELS}.ids" if f"{LABELS}.ids.npy" in names else LABELS)

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
