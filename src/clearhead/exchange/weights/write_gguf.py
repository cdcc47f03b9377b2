"""Writes a GGUF file tensor by tensor: metadata and a `StoredTensor` for each name enter.

Vectors stay float32, and so does a table of positions; matrices are written in the type that is asked for. Blocks of
q8_0 have 32 numbers, so that a matrix with other rows becomes float16.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import ConfigError
from clearhead.exchange.weights.read import StoredTensor
from clearhead.exchange.weights.read_gguf import import_gguf, size_of
from clearhead.storage import atomic_file

NumberType = Literal["float32", "float16", "q8_0"]
NUMBER_TYPES: tuple[NumberType, ...] = get_args(NumberType)
GGML_NAMES = {"float32": "F32", "float16": "F16", "q8_0": "Q8_0"}
FILE_TYPES = {"float32": 0, "float16": 1, "q8_0": 7}  # general.file_type
BLOCK_OF_Q8 = 32
LARGEST_HALF = 65504.0  # the largest float16

Value = str | bool | int | float | list[str] | list[int] | list[float]


def write_gguf(
    path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, StoredTensor], kind: NumberType
) -> None:
    """Writes the file, complete or not at all."""
    package = import_gguf(path)
    types = {name: package.GGMLQuantizationType[ggml_type(name, X, kind)] for name, X in tensors.items()}
    with (
        atomic_file(path) as new,
        closing(package.GGUFWriter(new, metadata["general.architecture"])) as writer,
    ):
        add_metadata(writer, {**metadata, "general.file_type": FILE_TYPES[kind]}, package)
        for name, stored in tensors.items():
            size = size_of(list(stored.shape), types[name], package)
            writer.add_tensor_info(name, stored.shape, np.dtype(np.float32), size, types[name])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for name, stored in tensors.items():
            writer.write_tensor_data(numbers_of(name, stored.read(), types[name], package))


def add_metadata(writer: Any, metadata: Mapping[str, Value], package: ModuleType) -> None:
    """Adds keys; integers have 32 bits and no sign, as llama.cpp expects sizes and ids."""
    kinds = package.GGUFValueType
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif key != "general.architecture":  # which the writer has added
            by_type = {bool: kinds.BOOL, int: kinds.UINT32, float: kinds.FLOAT32, str: kinds.STRING}
            writer.add_key_value(key, value, by_type[type(value)])


def ggml_type(name: str, stored: StoredTensor, kind: NumberType) -> str:
    """The name of the type in which a tensor is written."""
    if len(stored.shape) < 2 or name.startswith("position_embd"):
        return "F32"
    return GGML_NAMES["float16" if kind == "q8_0" and stored.shape[-1] % BLOCK_OF_Q8 else kind]


def numbers_of(name: str, X: Tensor, kind: Any, package: ModuleType) -> NDArray[Any]:
    """The numbers of a tensor in a type of GGML."""
    values = X.float().contiguous().numpy()
    if kind.name == "F32":
        return values
    if kind.name == "Q8_0":
        quantised: NDArray[Any] = package.quants.quantize(values, kind)
        return quantised
    if np.abs(values).max(initial=0) > LARGEST_HALF:
        raise ConfigError(
            f"{name} has numbers beyond {LARGEST_HALF:g}, the largest of float16.\nUse --type float32."
        )
    return values.astype(np.float16)
