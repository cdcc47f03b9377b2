"""Tensors in several files, of which each rank writes one: what it holds.

state-1-of-3.safetensors, state-2-of-3.safetensors, …

A tensor is what the files hold of it, one under the other. One that all ranks hold whole is in the first file only.
So a file needs no word on how tensors were spread, and any number of ranks can take up the rows that it needs.
"""

from collections.abc import Iterator
from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from clearhead.data.cache import checksum
from clearhead.storage import flush


def part_names(count: int) -> Iterator[str]:
    """The names of so many parts."""
    return (f"state-{number}-of-{count}.safetensors" for number in range(1, count + 1))


def write_part(path: Path, tensors: dict[str, Tensor]) -> str:
    """Writes one part until it is on disk; its checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)
    for place in (path, path.parent):
        flush(place)
    return checksum(path)


def read_parts(folder: Path, count: int) -> dict[str, "OnDisk"]:
    """All tensors of so many parts, by name; nothing of them is read yet."""
    tensors: dict[str, OnDisk] = {}
    for name in part_names(count):
        file: Any = safe_open(folder / name, framework="pt")
        for key in file.keys():  # noqa: SIM118
            tensors.setdefault(key, OnDisk()).pieces.append(file.get_slice(key))
    return tensors


class OnDisk:
    """A tensor on disk: only the rows that are asked for are read, whichever files they are in."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []  # slices of safetensors, the first rows first

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the whole tensor."""
        shapes = [piece.get_shape() for piece in self.pieces]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:]) if shapes[0] else ()

    def __getitem__(self, rows: slice | EllipsisType) -> Tensor:
        """Some rows, or with `...` all there is."""
        if len(self.pieces) == 1:
            return torch.as_tensor(self.pieces[0][rows])
        first, last, _ = (slice(None) if rows is ... else rows).indices(self.shape[0])
        found = []
        for piece in self.pieces:
            count = piece.get_shape()[0]
            found.append(piece[min(max(first, 0), count) : min(max(last, 0), count)])
            first, last = first - count, last - count
        return torch.cat(found)
