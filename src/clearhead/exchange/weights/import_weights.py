"""Imports weights: tensors under Hugging Face's names enter, our safetensors file leaves.

All names and shapes are checked before the first tensor is read. Tensors are read and written one at a time and
keep their number type, so that nothing is rounded and nothing grows.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from clearhead.config.model_base import Head
from clearhead.errors import ModelFolderError, first_few
from clearhead.exchange.weights.read import StoredTensor
from clearhead.exchange.weights.rename import Conversion, WeightNames, conversions
from clearhead.exchange.weights.write import write_safetensors, written_dtype
from clearhead.models.model import Model

Matched = tuple[str, Conversion]  # a tensor's name in the source, and how it becomes ours


def import_weights(path: Path, model: Model, names: WeightNames, weights: Mapping[str, StoredTensor]) -> None:
    """Writes the weights of a source as those of `model`, which may be on the meta device."""
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    table = match_weights(model, names, weights)
    first: dict[tuple[str, ...], Matched] = {}
    for name, conversion in table:
        first.setdefault(conversion.ours, (name, conversion))
    dtypes = {
        ours: written_dtype(name, weights[name].dtype)
        for name, found in first.values()
        for ours in found.ours
    }

    def converted() -> Iterator[Tensor]:
        for name, conversion in first.values():
            for part in conversion.layout.split(weights[name].read()):
                yield part.to(dtypes[conversion.ours[0]])

    write_safetensors(path, [(ours, shapes[ours], dtype) for ours, dtype in dtypes.items()], converted())
    for name, conversion in table:
        if first[conversion.ours][0] != name:
            check_tied(first[conversion.ours], (name, conversion), weights)


def match_weights(model: Model, names: WeightNames, weights: Mapping[str, StoredTensor]) -> list[Matched]:
    """Which tensor of the source becomes which of ours."""
    table = conversions(model, names)
    present = {names.bare(name): name for name in weights}
    check_complete(table, names, weights, model.config.head)
    parameters = dict(model.named_parameters())
    found = []
    for conversion in table:
        name = present.get(names.bare(conversion.theirs))
        if name is not None:
            check_shape(name, weights[name].shape, conversion, parameters)
            found.append((name, conversion))
    return found


def check_complete(table: list[Conversion], names: WeightNames, weights: Iterable[str], head: Head) -> None:
    """Refuses weights of which some are missing or unexpected."""
    known = {names.bare(conversion.theirs) for conversion in table}
    present, unexpected = set(), []
    for name in weights:
        bare = names.bare(name)
        if bare in present or (bare not in known and not names.is_unused(bare, head)):
            unexpected.append(name)  # with the prefix or without it, but not both
        present.add(bare)
    found = {conversion.ours for conversion in table if names.bare(conversion.theirs) in present}
    missing: dict[tuple[str, ...], str] = {}
    for conversion in table:
        if conversion.ours not in found:
            missing.setdefault(conversion.ours, conversion.theirs)
    if missing or unexpected:
        problems = [f"Missing weights: {first_few(sorted(missing.values()), 8)}.\n"] if missing else []
        problems += [f"Unexpected weights: {first_few(sorted(unexpected), 8)}.\n"] if unexpected else []
        raise ModelFolderError(f"{''.join(problems)}Check that config.json belongs to these weights.")


def check_shape(
    name: str, shape: torch.Size, conversion: Conversion, parameters: Mapping[str, Tensor]
) -> None:
    """Refuses a tensor whose shape is not the one that config.json implies."""
    expected = conversion.joined_shape({ours: parameters[ours].shape for ours in conversion.ours})
    if shape != expected:
        raise ModelFolderError(
            f"{name} has shape {tuple(shape)}, but config.json implies {tuple(expected)}.\n"
            "Check that config.json belongs to these weights."
        )


def check_tied(kept: Matched, other: Matched, weights: Mapping[str, StoredTensor]) -> None:
    """Refuses a second copy of a tied tensor that differs from the first."""
    ours, copies = (conversion.layout.split(weights[name].read()) for name, conversion in (kept, other))
    if not all(torch.equal(copy.to(X.dtype), X) for X, copy in zip(ours, copies, strict=True)):
        if other[1].is_copy:
            raise ModelFolderError(
                f"{kept[0]} and {other[0]} differ: a gate with relu is unsupported.\n"
                "Only one with the same weights on both sides can be imported; it is relu²."
            )
        raise ModelFolderError(
            f"{kept[0]} and {other[0]} differ, but config.json ties them.\n"
            "If they are meant to differ, set tie_word_embeddings = false in config.json."
        )
