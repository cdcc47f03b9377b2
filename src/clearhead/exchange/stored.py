"""Tensors that lie in files: what a safetensors file holds is known from its header, and read when asked for.

A folder enters, a `Stored` for each tensor's name leaves. Before any number is read, a header has to account
for every byte of its file once: tensors that overlap, leave gaps or claim more than there is are refused.
Format: https://github.com/huggingface/safetensors
"""

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.checkpoint import read_json, why_unreadable
from clearhead.errors import CheckpointError
from clearhead.exchange.folder import Folder, plain_name

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"
LARGEST_HEADER = 100_000_000  # bytes, as the format says
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True)
class Span:
    """Bytes of a file."""

    path: Path
    start: int
    count: int

    def read(self) -> NDArray[np.uint8]:
        """The bytes, in memory of their own."""
        content = np.empty(self.count, np.uint8)
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.start)
            view, done = content.data, 0
            while done < self.count:
                got = file.readinto(view[done:])
                if not got:
                    raise CheckpointError(f"{self.path} became shorter while it was read.\nTry again.")
                done += got
        return content


@dataclass(frozen=True)
class Stored:
    """A tensor that is read when it is asked for; `span` where its bytes stand in a file as they are."""

    shape: torch.Size
    dtype: torch.dtype
    read: Callable[[], Tensor]
    span: Span | None = None


def find_weights(folder: Folder, allow_pickle: bool = False) -> dict[str, Stored]:
    """The tensors of a folder: one safetensors file, or shards of it, or pickles where they are allowed."""
    for name, ending, read in (
        (SAFETENSORS, ".safetensors", read_safetensors),
        (PICKLE, ".bin", read_pickle),
    ):
        path, index = folder.find(name), folder.find(name + INDEX)
        if (path or index) and read is read_pickle and not allow_pickle:
            raise CheckpointError(
                f"{folder.path} has its weights in a pickle ({name}), and no {SAFETENSORS}.\n"
                "A pickle can hold code. To read only its tensors, say --allow-pickle; safer is a revision of "
                "the model that has safetensors."
            )
        if path is not None:
            return read(path)
        if index is not None:
            return read_shards(folder, index, ending, read)
    present = ", ".join(sorted(file.name for file in folder.path.iterdir())[:12]) or "nothing"
    raise CheckpointError(f"{folder.path} has no {SAFETENSORS} and no index of shards.\nIt holds: {present}.")


def read_shards(
    folder: Folder, index: Path, ending: str, read: Callable[[Path], dict[str, Stored]]
) -> dict[str, Stored]:
    """The tensors of several files, each where the index says and nowhere else."""
    table = read_json(index)
    places = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(places, dict) or not places:
        raise CheckpointError(f"{index} has no weight_map.\nThe file is not complete; copy it again.")
    shards: dict[str, dict[str, Stored]] = {}
    for name in sorted({plain_name(file, ending, index) for file in places.values()}):
        path = folder.find(name)
        if path is None:
            raise CheckpointError(f"{index} names {name}, which is not there.\nCopy all of the shards.")
        shards[name] = read(path)
    held = {tensor: file for file, tensors in shards.items() for tensor in tensors}
    for tensor in {**places, **held}:
        if places.get(tensor) != held.get(tensor):
            raise CheckpointError(
                f"{index} says that {tensor} stands in {places.get(tensor)}, but it stands in "
                f"{held.get(tensor)}.\nThe shards are of different models; copy all of them again."
            )
    if sum(map(len, shards.values())) != len(held):
        raise CheckpointError(f"A tensor stands in two shards of {index}.\nCopy all of them again.")
    return {tensor: shards[file][tensor] for tensor, file in places.items()}


def read_safetensors(path: Path) -> dict[str, Stored]:
    """The tensors of one file, from its header."""
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        if not 0 < length <= min(size - 8, LARGEST_HEADER):
            reason = f"a header of {length} bytes in a file of {size}"
            raise CheckpointError(f"{path} {why_unreadable(path, ValueError(reason))}")
        try:
            header = json.loads(file.read(length), object_pairs_hook=without_twins)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} {why_unreadable(path, error)}") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: the header is not a table of tensors.\nCopy the file again.")
    header.pop("__metadata__", None)
    start = 8 + length
    found = {name: entry_of(path, name, entry, start) for name, entry in header.items()}
    check_cover(path, found, start, size)
    return found


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of JSON, refused where it has a name twice: one of the two would be lost."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands twice in its header")
    return table


def entry_of(path: Path, name: str, entry: Any, start: int) -> Stored:
    """One tensor of a header, whose data begins at `start` of the file."""
    try:
        dtype, shape, (begin, end) = TYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in [*shape, begin, end]):
            raise ValueError("sizes must be whole numbers")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: {name} is described as {str(entry)[:200]}, which cannot be read ({error!r:.80}).\n"
            f"A tensor has a dtype of {', '.join(TYPES)}, a shape and two data_offsets."
        ) from None
    count = math.prod(shape) * dtype.itemsize
    if end - begin != count:
        raise CheckpointError(
            f"{path}: {name} of shape {shape} and type {entry['dtype']} has {count} bytes, but its header gives "
            f"it {end - begin}.\nThe file is damaged or made to mislead; copy it again."
        )
    span, size = Span(path, start + begin, count), torch.Size(shape)

    def read() -> Tensor:
        return (
            torch.from_numpy(span.read()).view(dtype).view(size) if count else torch.empty(size, dtype=dtype)
        )

    return Stored(size, dtype, read, span)


def check_cover(path: Path, tensors: Mapping[str, Stored], start: int, size: int) -> None:
    """Every byte after the header belongs to one tensor."""
    at = start
    spans = [(stored.span.start, stored.span.count, name) for name, stored in tensors.items() if stored.span]
    for begin, count, name in sorted(spans):
        if begin != at:
            what = "overlaps the tensor before it" if begin < at else "leaves a gap before it"
            raise CheckpointError(
                f"{path}: {name} {what} (byte {begin} instead of {at}).\n"
                "The file is damaged or made to mislead; copy it again."
            )
        at += count
    if at != size:
        raise CheckpointError(
            f"{path}: the header speaks of {at} bytes, but the file has {size}.\n"
            "It is damaged or cut short; copy it again."
        )


def read_pickle(path: Path) -> dict[str, Stored]:
    """The tensors of a pickle, by PyTorch's reader that builds tensors and nothing else."""
    try:
        loaded = load_pickle(path)
    except Exception as error:  # whatever a damaged or hostile file brings about
        raise CheckpointError(
            f"{path} is not a plain pickle of tensors: {str(error).splitlines()[0] if str(error) else error!r}\n"
            "Nothing but tensors is read from a pickle; ask for the model as safetensors."
        ) from None
    if not isinstance(loaded, dict) or not all(
        isinstance(name, str) and isinstance(X, Tensor) for name, X in loaded.items()
    ):
        raise CheckpointError(
            f"{path} holds more than a table of tensors.\nAsk for the model as safetensors."
        )
    return {name: Stored(X.shape, X.dtype, X.detach) for name, X in loaded.items()}


def load_pickle(path: Path) -> Any:
    """What a pickle holds; files of old versions cannot be mapped into memory."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        return torch.load(path, map_location="cpu", weights_only=True)
