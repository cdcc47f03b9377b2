"""Writes a safetensors file tensor by tensor; the library's own writer needs all of them in memory at once."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from clearhead.errors import ModelFolderError

KEPT = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
BLOCK = 1 << 20  # bytes written at once; 16 MB, which do not fit the processor's cache, took 4 times as long
ALIGNMENT = 64  # bytes, so that the first tensor is aligned where the file is mapped into memory


def write_safetensors(
    path: Path, rows: list[tuple[str, torch.Size, torch.dtype]], tensors: Iterable[Tensor]
) -> None:
    """Writes tensors in the order of `rows`, which say their names, shapes and types."""
    with path.open("wb") as file:
        file.write(header(rows))
        for X in tensors:
            write_tensor(file, X)


def written_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    """The type in which a tensor is written: its own, but float32 for float64."""
    if dtype == torch.float64:
        return torch.float32
    if dtype not in KEPT:
        raise ModelFolderError(
            f"{name} has type {str(dtype).removeprefix('torch.')}: these weights are quantised.\n"
            "Import the model from which they were quantised."
        )
    return dtype


def header(rows: Iterable[tuple[str, torch.Size, torch.dtype]]) -> bytes:
    """The header of a safetensors file with these tensors, one after the other."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape, dtype in rows:
        end = at + math.prod(shape) * dtype.itemsize
        table[name] = {"dtype": KEPT[dtype], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def write_tensor(file: BinaryIO, X: Tensor) -> None:
    """Writes the numbers of a tensor as they are in memory."""
    if not X.numel():
        return
    content = X.contiguous().flatten().view(torch.uint8).numpy().data
    for start in range(0, len(content), BLOCK):
        file.write(content[start : start + BLOCK])
