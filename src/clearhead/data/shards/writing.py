"""Encoded examples enter; a folder of shards leaves, its manifest written last."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.shards.manifest import FORMAT, LABELS, MANIFEST, Account, FileFacts, Manifest, ShardFacts
from clearhead.data.shards.ragged import EncodedExamples
from clearhead.storage import checksum


@dataclass
class ShardWriter:
    """Writes encoded examples into a folder, a shard whenever enough have come together."""

    folder: Path
    columns: tuple[str, ...]
    vocabulary: int
    shard_tokens: int
    _held: list[EncodedExamples] = field(default_factory=list)
    _tokens: int = 0
    _shards: list[ShardFacts] = field(default_factory=list)

    @property
    def type(self) -> "np.dtype[np.integer]":
        """The smallest type that holds every id."""
        return np.dtype(np.uint16 if self.vocabulary <= 1 << 16 else np.uint32)

    def add(self, encoded: EncodedExamples) -> None:
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
        amounts = [encoded.label_counts for encoded in held if encoded.label_counts is not None]
        if amounts:
            files |= self._save(f"{LABELS}.ids", np.concatenate(labels))
            files |= self._save(f"{LABELS}.borders", np.cumsum([0, *np.concatenate(amounts)]))
        elif labels:
            files |= self._save(LABELS, np.concatenate(labels))
        self._shards.append(ShardFacts(examples=sum(len(encoded.hashes) for encoded in held), files=files))

    def _save(self, name: str, array: NDArray[Any]) -> dict[str, FileFacts]:
        path = self.folder / f"{len(self._shards):05}.{name}.npy"
        np.save(path, array, allow_pickle=False)
        return {path.name: FileFacts(bytes=path.stat().st_size, sha256=checksum(path))}
