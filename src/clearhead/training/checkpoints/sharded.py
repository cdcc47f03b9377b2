"""Tensors in several files, of which each rank writes one: the rows that it has.

A tensor is its rows in all files, concatenated. One that every rank has in full is in the first file only. So a file
need not say how tensors were sharded, and any number of ranks can read the rows that they need.
"""

from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from clearhead.storage import checksum, flush
from clearhead.training.checkpoints.files import shard_names


def write_shard(path: Path, tensors: dict[str, Tensor]) -> str:
    """Writes one file until it is on disk; its checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)
    for place in (path, path.parent):
        flush(place)
    return checksum(path)


def read_shards(folder: Path, count: int) -> dict[str, "StoredTensor"]:
    """All tensors of so many files, by name; they are read when they are used."""
    tensors: dict[str, StoredTensor] = {}
    for name in shard_names(count):
        file: Any = safe_open(folder / name, framework="pt")
        for key in file.keys():  # noqa: SIM118
            tensors.setdefault(key, StoredTensor()).slices.append(file.get_slice(key))
    return tensors


class StoredTensor:
    """A tensor on disk: only the rows that are asked for are read, from whichever files have them."""

    def __init__(self) -> None:
        self.slices: list[Any] = []  # of safetensors, the first rows first

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the full tensor."""
        shapes = [part.get_shape() for part in self.slices]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:]) if shapes[0] else ()

    def __getitem__(self, rows: slice | EllipsisType) -> Tensor:
        """Some rows, or all with `...`."""
        if len(self.slices) == 1:
            return torch.as_tensor(self.slices[0][rows])
        first, last, _ = (slice(None) if rows is ... else rows).indices(self.shape[0])
        found = []
        for part in self.slices:
            count = part.get_shape()[0]
            found.append(part[min(max(first, 0), count) : min(max(last, 0), count)])
            first, last = first - count, last - count
        return torch.cat(found)
