"""Exports weights: our safetensors file enters, tensors with a family's names and layouts leave, one at a time.

What only the family has is filled with numbers that change nothing: zeros, a gate whose other side is 0 x + 1, a
dense layer of which gelu(z) − gelu(−z) = z leaves what entered. What only ours has goes into weights: a factor of the
scores into W_q, that of the head into the norm before it, the temperature of a classifier into its last layer.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from clearhead.exchange.weights.read import StoredTensor
from clearhead.exchange.weights.rename import Conversion, WeightNames, conversions
from clearhead.exchange.weights.write import write_safetensors, written_dtype
from clearhead.models.model import Model


@dataclass(frozen=True)
class Filling:
    """What a tensor is filled with: a tensor of our file times a number, or the number alone."""

    name: str | None
    number: float = 1.0
    arrange: Callable[[Tensor, torch.Size], Tensor] | None = None  # our tensor, for a tensor of another shape


Change = Callable[[dict[str, StoredTensor]], dict[str, StoredTensor]]
Fill = Callable[[str], Filling]  # the name of a tensor in the model to write -> its numbers


def export_weights(
    path: Path,
    model: Model,
    names: WeightNames,
    weights: Mapping[str, StoredTensor],
    fill: Fill = Filling,
    change: Change | None = None,
) -> None:
    """Writes `weights` for `model`, which has the family's settings and may be on the meta device.

    `change` is given the tensors of the family, and returns those that are written.
    """
    tensors = family_tensors(model, names, weights, fill)
    tensors = tensors if change is None else change(tensors)
    rows = [(name, stored.shape, stored.dtype) for name, stored in tensors.items()]
    write_safetensors(path, rows, (stored.read() for stored in tensors.values()))


def family_tensors(
    model: Model, names: WeightNames, weights: Mapping[str, StoredTensor], fill: Fill = Filling
) -> dict[str, StoredTensor]:
    """The tensors of the family by their names there; a tied one is listed once, under its first name."""
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    default = written_dtype("the first tensor", next(iter(weights.values())).dtype)
    seen: set[tuple[str, ...]] = set()
    found = {}
    for conversion in conversions(model, names):
        if conversion.is_copy or conversion.ours not in seen:
            found[conversion.theirs] = converted(conversion, shapes, weights, fill, default)
        seen.add(conversion.ours)
    return found


def converted(
    conversion: Conversion,
    shapes: Mapping[str, torch.Size],
    weights: Mapping[str, StoredTensor],
    fill: Fill,
    default: torch.dtype,
) -> StoredTensor:
    """One tensor of the family, made from ours when it is read."""
    fillings = {name: fill(name) for name in conversion.ours}
    first = fillings[conversion.ours[0]].name
    dtype = default if first is None or first not in weights else written_dtype(first, weights[first].dtype)

    def part(name: str) -> Tensor:
        source, number = fillings[name].name, fillings[name].number
        if source is None or source not in weights:
            return torch.full(shapes[name], 0.0 if source else number, dtype=dtype)
        X, arrange = weights[source].read(), fillings[name].arrange
        X = X if arrange is None else arrange(X, shapes[name])
        return X.to(dtype) if number == 1.0 else (X * number).to(dtype)

    def read() -> Tensor:
        return conversion.layout.join([part(name) for name in conversion.ours])

    return StoredTensor(conversion.joined_shape(shapes), dtype, read)


def new_gate(name: str) -> Filling:
    """A gate for a feed-forward without one: W_g is our W_1, and the other side is 0 x + 1."""
    if ".ffn.W_g." in name:
        return Filling(name.replace(".W_g.", ".W_1."))
    if name.endswith(".ffn.W_1.bias"):
        return Filling(None, 1.0)
    return Filling(None, 0.0) if name.endswith(".ffn.W_1.weight") else Filling(name)


def new_dense(name: str) -> Filling:
    """A dense layer with gelu for a classifier without one: z and −z of each class, whose gelus differ by z."""
    if name.startswith("head.dense."):
        return Filling(name.replace(".dense.", ".out."), arrange=with_both_signs)
    if name == "head.out.weight":
        return Filling(name, arrange=first_minus_second)
    return Filling(None, 0.0) if name == "head.out.bias" else Filling(name)


def with_both_signs(X: Tensor, shape: torch.Size) -> Tensor:
    """The rows of X, the same with the other sign, and zeros below."""
    return torch.cat([X, -X, X.new_zeros(shape[0] - 2 * len(X), *shape[1:])])


def first_minus_second(X: Tensor, shape: torch.Size) -> Tensor:
    """The matrix that takes those rows back to the first of each pair minus the second."""
    return with_both_signs(torch.eye(shape[0], dtype=X.dtype), torch.Size((shape[1], shape[0]))).t()


def either(*fills: Fill) -> Fill:
    """The numbers of the first of these that changes a tensor."""

    def fill(name: str) -> Filling:
        return next((found for one in fills if (found := one(name)) != Filling(name)), Filling(name))

    return fill


def scaled(fill: Fill, factors: Mapping[str, float]) -> Fill:
    """The same numbers, of which those in tensors whose names contain a part listed here are multiplied."""

    def filled(name: str) -> Filling:
        found = fill(name)
        number = math.prod(factor for part, factor in factors.items() if part in name)
        return replace(found, number=found.number * number)

    return filled
