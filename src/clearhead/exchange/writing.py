"""Weights on their way from file to file, one tensor at a time: never is more than one of them in memory.

What keeps its form is copied as bytes; what is kept transposed or joined is read, taken apart and written.
A tensor keeps its type of number, so that nothing is rounded and nothing grows.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from clearhead.errors import CheckpointError
from clearhead.exchange.rules import AS_IS, Move, Names, check_tied, placed
from clearhead.exchange.stored import Span, Stored
from clearhead.models.build import Model

KEPT = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
BLOCK = (
    1 << 20
)  # bytes copied at once; with 16 MB, which leave the processor's cache, it took 4 times as long
ALIGNMENT = 64  # bytes, so that a reader that maps the file finds its first tensor well placed


def write_weights(path: Path, model: Model, names: Names, weights: Mapping[str, Stored]) -> None:
    """Writes their weights as ours; the model, which needs no memory, says what belongs there."""
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    table = placed(model, names, weights)
    first: dict[tuple[str, ...], tuple[str, Move]] = {}
    for name, move in table:
        first.setdefault(move.ours, (name, move))
    kinds = {ours: kind_of(name, weights[name]) for name, move in first.values() for ours in move.ours}
    with path.open("wb") as file:
        file.write(header((ours, shapes[ours], kinds[ours]) for ours in kinds))
        for name, move in first.values():
            move_weights(file, weights[name], move, kinds[move.ours[0]])
    for name, move in table:
        if first[move.ours][0] != name:
            check_equal(first[move.ours], (name, move), weights)


def kind_of(name: str, stored: Stored) -> torch.dtype:
    """The type that a tensor is written in; of numbers with more digits than any model here, the widest."""
    if stored.dtype == torch.float64:
        return torch.float32
    if stored.dtype not in KEPT:
        raise CheckpointError(
            f"{name} is kept as {str(stored.dtype).removeprefix('torch.')}: these weights are quantised.\n"
            "Bring in the model that it was made from; `clearhead quantize` makes int8 of it again."
        )
    return stored.dtype


def header(tensors: Iterable[tuple[str, torch.Size, torch.dtype]]) -> bytes:
    """The beginning of a safetensors file with these tensors, one behind the other."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape, dtype in tensors:
        end = at + math.prod(shape) * dtype.itemsize
        table[name] = {"dtype": KEPT[dtype], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def move_weights(file: BinaryIO, stored: Stored, move: Move, dtype: torch.dtype) -> None:
    """Writes one tensor of theirs as ours."""
    if stored.span is not None and move.operation is AS_IS and stored.dtype == dtype:
        copy_span(file, stored.span)
        return
    for piece in move.operation.split(stored.read()):
        write_tensor(file, piece.to(dtype))


def write_tensor(file: BinaryIO, X: Tensor) -> None:
    """The numbers of a tensor as they stand in memory."""
    if not X.numel():
        return
    content = X.contiguous().flatten().view(torch.uint8).numpy().data
    for start in range(0, len(content), BLOCK):
        file.write(content[start : start + BLOCK])


def copy_span(file: BinaryIO, span: Span) -> None:
    """Bytes from one file to another."""
    buffer = memoryview(bytearray(min(BLOCK, span.count)))
    with span.path.open("rb", buffering=0) as source:
        source.seek(span.start)
        left = span.count
        while left:
            got = source.readinto(buffer[: min(BLOCK, left)])
            if not got:
                raise CheckpointError(f"{span.path} became shorter while it was read.\nTry again.")
            file.write(buffer[:got])
            left -= got


def check_equal(kept: tuple[str, Move], other: tuple[str, Move], weights: Mapping[str, Stored]) -> None:
    """Refuses a second copy of a tied tensor that is not the same."""
    targets = kept[1].operation.split(weights[kept[0]].read())
    check_tied(kept[0], other[0], other[1].operation.split(weights[other[0]].read()), targets)
