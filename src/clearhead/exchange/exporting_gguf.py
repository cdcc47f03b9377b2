"""Exports to llama.cpp: a model folder of ours enters, one GGUF file with weights and tokenizer leaves.

Weights go from file to file, one tensor at a time.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from clearhead.errors import ModelFolderError
from clearhead.exchange.exporting import checked_weights, exportable_config, load_tokenizer
from clearhead.exchange.families.export_gguf import choose_architecture, gguf_metadata, gguf_tensors
from clearhead.exchange.families.registry import FAMILIES
from clearhead.exchange.tokenizers.write_gguf import gguf_tokenizer
from clearhead.exchange.weights.export_weights import family_tensors
from clearhead.exchange.weights.write_gguf import NumberType, write_gguf
from clearhead.model_folder import TOKENIZER, find
from clearhead.models.build import empty

ENDING = ".gguf"


@dataclass(frozen=True)
class GgufFile:
    """What was written: the architecture, the type of its matrices, and what is different in llama.cpp."""

    architecture: str
    number_type: NumberType
    notes: tuple[str, ...]


def export_gguf(folder: str | Path, out: str | Path, number_type: NumberType | None = None) -> GgufFile:
    """Writes the file `out` for llama.cpp; `number_type` is by default that of the weights, or float32."""
    folder, out = find(Path(folder)), Path(out)
    if os.path.lexists(out):
        raise ModelFolderError(f"{out} already exists.\nName another file, or delete it first.")
    config = exportable_config(folder)
    chosen = choose_architecture(config)
    keys, notes = gguf_tokenizer(load_tokenizer(folder / TOKENIZER), config)
    weights = checked_weights(folder, config)
    is_half = all(stored.dtype == torch.float16 for stored in weights.values())
    kind = number_type or ("float16" if is_half else "float32")
    names, target = FAMILIES[chosen.architecture].weight_names, chosen.made.target
    theirs = family_tensors(empty(target), names, weights, chosen.fill(kind))
    metadata = gguf_metadata(chosen.architecture, target) | {"general.name": out.stem} | keys
    out.parent.mkdir(parents=True, exist_ok=True)
    write_gguf(out, metadata, gguf_tensors(chosen.architecture, target, theirs), kind)
    return GgufFile(chosen.architecture, kind, (*chosen.notes, *notes))
