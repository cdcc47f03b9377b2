"""Ablation: what an answer loses without a part, which is put to zero, to its mean, or to what it was in another text.

A part is a head (`decoder.2.cross.3`), a unit of a feed-forward (`decoder.2.ffn.17`), a sublayer (`decoder.2.ffn`) or
any site; with `token`, only what it holds of one token.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead.errors import DataError, InputError
from clearhead.inspection.attribution.goals import Metric, answers, one_text, transformer_of
from clearhead.inspection.attribution.passes import Progress, edited_outcomes
from clearhead.inspection.capture import Edit, capture, locate, replace, zero
from clearhead.layers.masks import real_tokens
from clearhead.layers.sites import site_names
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

Instead = Literal["zero"] | Mapping[str, Tensor] | Inputs


@torch.no_grad()
def ablate(
    model: Any,
    inputs: Inputs,
    metric: Metric,
    places: Sequence[str],
    instead: Instead = "zero",
    token: int | None = None,
    progress: Progress = lambda done, of: None,
) -> dict[str, float]:
    """How much the metric changes when each part is replaced, by itself.

    `instead` is "zero", the means that `mean_activations` found, or the inputs of another text of the same length.
    """
    module, inputs = transformer_of(model), one_text(inputs)
    before = float(answers(module, inputs, metric))
    if isinstance(instead, Inputs):
        values: Mapping[str, Tensor] | None = values_in(module, same_length(inputs, instead), places, token)
    else:
        values = None if instead == "zero" else instead
    edits = [one_edit(place, values, token) for place in places]
    after = edited_outcomes(module, inputs, edits, metric, progress)
    return {place: float(value) - before for place, value in zip(places, after, strict=True)}


def one_edit(place: str, values: Mapping[str, Tensor] | None, token: int | None) -> Edit:
    """The edit that replaces a part by zero or by a value."""
    if values is None:
        return zero(place, token=token)
    if place not in values:
        raise InputError(
            f"There is no mean of {place}.\nCompute it too: mean_activations(model, batches, '{place}')."
        )
    return replace(place, values[place], token=token)


def same_length(one: Inputs, other: Inputs) -> Inputs:
    """Another text, whose tokens must be as many: position i of one is put in the place of position i of the other."""
    other = one_text(other)
    for what, X, Y in (("text", one.tokens, other.tokens), ("source", one.source, other.source)):
        check_aligned(0 if X is None else X.shape[1], 0 if Y is None else Y.shape[1], what)
    return other


def check_aligned(n: int, m: int, what: str = "text") -> None:
    """Rejects two texts whose numbers of tokens differ."""
    if n != m:
        raise InputError(
            f"The tokens of the two texts do not line up: one {what} has {n}, the other {m}.\n"
            "Replace words by words with the same number of tokens."
        )


def values_in(
    module: Model, inputs: Inputs, places: Iterable[str], token: int | None = None
) -> dict[str, Tensor]:
    """What each part held in a pass, of all tokens or of one."""
    located = {place: locate_one(module, place) for place in places}
    with capture(module, *({site for site, _ in located.values()} or {""})) as trace:
        module(inputs)
    return {place: part_of(trace[site], one, token) for place, (site, one) in located.items()}


def locate_one(module: Model, place: str) -> tuple[str, Edit]:
    """The site of a part, and its head and unit there."""
    found = locate(zero(place), site_names(module))
    if len(found) > 1:
        raise InputError(f"{place} means {len(found)} sites.\nName one of them, such as {found[0][0]}.")
    return found[0]


def part_of(X: Tensor, one: Edit, token: int | None = None) -> Tensor:
    """A head, a unit or a token of a site's tensor; axes are kept."""
    X = X if one.head is None else X[:, one.head : one.head + 1]
    X = X if one.unit is None else X[..., one.unit : one.unit + 1]
    return X if token is None else X[..., token % X.shape[-2], :].unsqueeze(-2)


@torch.no_grad()
def mean_activations(model: Any, batches: Iterable[Inputs], *places: str) -> dict[str, Tensor]:
    """The mean of each part over all real tokens of a data set, which is read once, in a stream."""
    module = transformer_of(model)
    located = {place: locate_one(module, place) for place in places}
    for place, (site, _) in located.items():
        if site.endswith((".scores", ".weights", "logits", "pooled")):
            raise InputError(
                f"{place} has no mean over texts of different lengths.\nTake {site.rpartition('.')[0]}.out."
            )
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    for inputs in batches:
        with capture(module, *(site for site, _ in located.values())) as trace:
            module.vectors(inputs)
        for place, (site, one) in located.items():
            X = part_of(trace[site], one)
            real = real_at(site, inputs, X).to(X.device)  # (b, n)
            mask = real[..., None] if X.ndim == 3 else real[:, None, :, None]
            new = torch.where(mask, X, 0.0).double().sum((0, -2), keepdim=True)
            sums[place] = sums[place] + new if place in sums else new
            counts[place] = counts.get(place, 0) + int(real.sum())
    if not sums:
        raise DataError(
            "There are no texts to take a mean over.\nGive at least one batch, and at least one part."
        )
    return {place: (sums[place] / counts[place]).float() for place in sums}


def real_at(site: str, inputs: Inputs, X: Tensor) -> Tensor:
    """Which tokens along X's axis of tokens are real: (b, n)."""
    is_source = inputs.source is not None and (
        site.startswith("encoder.") or site.endswith((".cross.k", ".cross.v"))
    )
    counts = inputs.source_counts if is_source else inputs.counts
    real = real_tokens(counts, X.shape[-2])
    return torch.ones(X.shape[0], X.shape[-2], dtype=torch.bool) if real is None else real.cpu()
