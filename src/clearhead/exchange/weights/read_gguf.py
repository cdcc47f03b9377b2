"""Reads GGUF files within bounds: a path enters; the metadata and a `StoredTensor` for each name leave.

The header lists keys with values, then tensors with types and offsets. It is parsed here rather than by the `gguf`
package, whose reader trusts every count that a file states; the package dequantises blocks.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import ModelFolderError
from clearhead.exchange.weights.read import StoredTensor

MAGIC, VERSIONS = b"GGUF", (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
PLAIN = {
    0: torch.float32,
    1: torch.float16,
    28: torch.float64,
    30: torch.bfloat16,
}  # types that need no dequantisation


@dataclass(frozen=True)
class Span:
    """Bytes of a file."""

    path: Path
    start: int
    count: int

    def read(self) -> NDArray[np.uint8]:
        """A copy of the bytes."""
        content = np.empty(self.count, np.uint8)
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.start)
            view, done = content.data, 0
            while done < self.count:
                got = file.readinto(view[done:])
                if not got:
                    raise ModelFolderError(f"{self.path} became shorter while it was being read.\nTry again.")
                done += got
        return content


@dataclass
class Cursor:
    """A position in a file, which never passes its end."""

    file: BinaryIO
    size: int

    def take(self, count: int) -> bytes:
        """The next bytes."""
        left = self.size - self.file.tell()
        if count > left:
            raise ValueError(f"it claims {count} bytes at {self.file.tell()}, but {left} are left")
        return self.file.read(count)

    def number(self, kind: str) -> Any:
        """The next number, in a format of `struct`."""
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]

    def text(self) -> str:
        """The next text."""
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        """The next value of a GGUF type."""
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.number(SCALARS[kind])
        kind, count = self.number("I"), self.number("Q")
        if kind == ARRAY:
            raise ValueError("it has an array of arrays")
        least = 8 if kind == STRING else struct.calcsize(SCALARS[kind])
        if count * least > self.size - self.file.tell():
            raise ValueError(f"it claims an array of {count} values, more than the file has")
        if kind == STRING:
            return [self.text() for _ in range(count)]
        return list(struct.unpack(f"<{count}{SCALARS[kind]}", self.take(count * least)))


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
    """The metadata and the tensors of a file."""
    package = import_gguf(path)
    try:
        with path.open("rb") as file:
            return parse(Cursor(file, path.stat().st_size), path, package)
    except (ValueError, KeyError, OverflowError, MemoryError, struct.error) as error:
        raise ModelFolderError(
            f"{path} is not a valid GGUF file: {error}.\nIt is damaged or malicious; copy it again."
        ) from None


def import_gguf(path: Path) -> ModuleType:
    """The package that knows the types of GGUF."""
    try:
        import gguf
    except ImportError:
        raise ModelFolderError(
            f"{path} needs the package gguf, which is not installed.\nInstall it: pip install 'clearhead[hub]'."
        ) from None
    return gguf


def parse(cursor: Cursor, path: Path, package: ModuleType) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
    """Keys and values, then the tensors."""
    if cursor.take(4) != MAGIC:
        raise ValueError("it does not start with GGUF")
    version, tensors, keys = cursor.number("I"), cursor.number("Q"), cursor.number("Q")
    if version not in VERSIONS:
        raise ValueError(f"it has version {version}; {VERSIONS} are supported")
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("I"))
    found = []
    for _ in range(tensors):
        name, axes = cursor.text(), cursor.number("I")
        if axes > 4:
            raise ValueError(f"{name} has {axes} axes")
        sizes = [cursor.number("Q") for _ in range(axes)]
        found.append((name, sizes[::-1], cursor.number("I"), cursor.number("Q")))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1:
        raise ValueError(f"general.alignment = {alignment!r}")
    start = -(-cursor.file.tell() // alignment) * alignment
    stored = {}
    for name, shape, kind, offset in found:
        stored[name] = tensor_of(path, start + offset, shape, kind, package)
        if (end := start + offset + size_of(shape, kind, package)) > cursor.size:
            raise ValueError(f"{name} ends at byte {end} of {cursor.size}")
    return metadata, stored


def size_of(shape: list[int], kind: int, package: ModuleType) -> int:
    """The size of a tensor in bytes; its rows consist of blocks."""
    block, size = package.GGML_QUANT_SIZES[package.GGMLQuantizationType(kind)]
    row = shape[-1] if shape else 1
    if row % block:
        raise ValueError(f"a row of {row} numbers does not divide into blocks of {block}")
    return math.prod(shape) // block * size


def tensor_of(path: Path, start: int, shape: list[int], kind: int, package: ModuleType) -> StoredTensor:
    """A tensor in a file; quantised blocks become float32 when they are read."""
    span, quantised = Span(path, start, size_of(shape, kind, package)), package.GGMLQuantizationType(kind)
    read = reader_of(span, shape, kind, lambda X: package.quants.dequantize(X, quantised))
    return StoredTensor(torch.Size(shape), PLAIN.get(kind, torch.float32), read)


def reader_of(
    span: Span, shape: list[int], kind: int, dequantize: Callable[[Any], Any]
) -> Callable[[], Tensor]:
    """The function that reads a tensor."""

    def read() -> Tensor:
        content = span.read()
        if kind in PLAIN:
            return torch.from_numpy(content).view(PLAIN[kind]).view(shape)
        rows = content.reshape(*shape[:-1], -1)
        return torch.from_numpy(np.ascontiguousarray(dequantize(rows), np.float32)).view(shape)

    return read
