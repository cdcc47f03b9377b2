"""What fires a unit or a head: the texts of a data set in which it is strongest, found in one stream over the data."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import DataError, InputError
from clearhead.inspection.attribution.ablation import locate_one, part_of, real_at
from clearhead.inspection.attribution.goals import transformer_of
from clearhead.inspection.capture import capture
from clearhead.layers.attention import Attention
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model


@dataclass(frozen=True, order=True)
class Firing:
    """A text in which a part is strong: how strong, the number of the text, and the token where."""

    value: float
    text: int  # in the order of the data
    position: int
    ids: tuple[int, ...]  # of the text that the part reads


@torch.no_grad()
def strongest(model: Any, batches: Iterable[Inputs], place: str, count: int = 10) -> list[Firing]:
    """The texts in which a unit (`decoder.1.ffn.17`) has its largest values, or a head adds the longest vectors.

    Each text counts once, by its strongest token. Only the best so far are kept.
    """
    module = transformer_of(model)
    site, one = locate_one(module, place)
    if one.unit is None and one.head is None:
        raise InputError(
            f"{place} is neither a unit nor a head.\nName one, such as decoder.0.ffn.3 or decoder.0.self.1."
        )
    best: list[Firing] = []
    seen = 0
    for inputs in batches:
        with capture(module, site) as trace:
            module.vectors(inputs)
        X = part_of(trace[site], one)
        strength = (
            X[..., 0] if one.head is None else added_by(module, site, one.head, X[:, 0]).norm(dim=-1)
        )  # (b, n)
        real = real_at(site, inputs, X).to(strength.device)
        values, places = strength.masked_fill(~real, -torch.inf).max(1)
        ids = inputs.source if site.startswith("encoder.") and inputs.source is not None else inputs.tokens
        for row, (value, at) in enumerate(zip(values.tolist(), places.tolist(), strict=True)):
            heapq.heappush(
                best, Firing(value, seen + row, at, tuple(ids[row][real[row].to(ids.device)].tolist()))
            )
            if len(best) > count:
                heapq.heappop(best)
        seen += len(values)
    if not seen:
        raise DataError("There are no texts to search.\nGive at least one batch.")
    return sorted(best, reverse=True)


def added_by(module: Model, site: str, head: int, H: Tensor) -> Tensor:
    """What a head adds to the stream, W_o A V: (b, n, d_v) -> (b, n, d)."""
    stack, block, sublayer, _ = site.split(".")
    attention = module.get_submodule(f"{stack}.blocks.{block}.{sublayer}")
    assert isinstance(attention, Attention)
    d_v = attention.size.d_v
    if not isinstance(attention.W_o, torch.nn.Linear):
        return H
    return H @ attention.W_o.weight[:, head * d_v : (head + 1) * d_v].mT
