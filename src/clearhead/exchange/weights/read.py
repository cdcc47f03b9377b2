"""Reads weights: a Hugging Face folder enters, a `StoredTensor` for each name leaves.

Names, shapes and types come from the header of a safetensors file; a tensor is mapped into memory only when it
is read, and unmapped when it is dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from clearhead.errors import ModelFolderError
from clearhead.exchange.hf_folder import HuggingFaceFolder, check_plain_name
from clearhead.folder_files import read_json, why_unreadable

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, read only when `read` is called."""

    shape: torch.Size
    dtype: torch.dtype
    read: Callable[[], Tensor]


def read_weights(folder: HuggingFaceFolder, allow_pickle: bool = False) -> dict[str, StoredTensor]:
    """The tensors of a folder: of one safetensors file, of shards, or of pickles if they are allowed."""
    for name, ending, read in (
        (SAFETENSORS, ".safetensors", read_safetensors),
        (PICKLE, ".bin", read_pickle),
    ):
        path, index = folder.find(name), folder.find(name + INDEX)
        if (path or index) and read is read_pickle and not allow_pickle:
            raise ModelFolderError(
                f"{folder.path} has its weights in a pickle ({name}), not in {SAFETENSORS}.\n"
                "A pickle can contain code. Use --allow-pickle to read nothing but its tensors, or, safer, a "
                "revision of the model that has safetensors."
            )
        if path is not None:
            return read(path)
        if index is not None:
            return read_shards(folder, index, ending, read)
    raise ModelFolderError(
        f"{folder.path} has no {SAFETENSORS} and no index of shards.\nIt contains: {folder.listing()}."
    )


def read_shards(
    folder: HuggingFaceFolder, index: Path, ending: str, read: Callable[[Path], dict[str, StoredTensor]]
) -> dict[str, StoredTensor]:
    """The tensors of several files, each in the file that the index names and in no other."""
    table = read_json(index)
    places = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(places, dict) or not places:
        raise ModelFolderError(f"{index} has no weight_map.\nThe file is incomplete; copy it again.")
    shards: dict[str, dict[str, StoredTensor]] = {}
    for name in sorted({check_plain_name(file, ending, index) for file in places.values()}):
        path = folder.find(name)
        if path is None:
            raise ModelFolderError(f"{index} names {name}, which does not exist.\nCopy all shards.")
        shards[name] = read(path)
    held = {tensor: file for file, tensors in shards.items() for tensor in tensors}
    for tensor in {**places, **held}:
        if places.get(tensor) != held.get(tensor):
            raise ModelFolderError(
                f"{index} says that {tensor} is in {places.get(tensor)}, but it is in {held.get(tensor)}.\n"
                "The shards are of different models; copy all of them again."
            )
    if sum(map(len, shards.values())) != len(held):
        raise ModelFolderError(f"A tensor is in two shards of {index}.\nCopy all of them again.")
    return {tensor: shards[file][tensor] for tensor, file in places.items()}


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """The tensors of one file; the library refuses a header that does not cover every byte exactly once."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: stored_in(path, name, file.get_tensor(name)) for name in file.offset_keys()}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise ModelFolderError(f"{path} {why_unreadable(path, error)}") from None


def stored_in(path: Path, name: str, mapped: Tensor) -> StoredTensor:
    """One tensor; each read maps the file anew, so that the memory is released with the tensor."""

    def read() -> Tensor:
        with safe_open(path, framework="pt") as file:
            return file.get_tensor(name)

    return StoredTensor(mapped.shape, mapped.dtype, read)


def read_pickle(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a pickle, by PyTorch's reader that builds nothing else."""
    try:
        loaded = load_pickle(path)
    except Exception as error:  # whatever a damaged or hostile file causes
        raise ModelFolderError(
            f"{path} is not a plain pickle of tensors: {str(error).splitlines()[0] if str(error) else error!r}\n"
            "Nothing but tensors is read from a pickle; get the model as safetensors."
        ) from None
    if not isinstance(loaded, dict) or not all(
        isinstance(name, str) and isinstance(X, Tensor) for name, X in loaded.items()
    ):
        raise ModelFolderError(
            f"{path} contains more than a table of tensors.\nGet the model as safetensors."
        )
    return {name: StoredTensor(X.shape, X.dtype, X.detach) for name, X in loaded.items()}


def load_pickle(path: Path) -> Any:
    """The content of a pickle; files of old versions cannot be mapped into memory."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        return torch.load(path, map_location="cpu", weights_only=True)
