"""One pass for each of many edits, many at a time: row i of a batch is the same text with edit i made in it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clearhead.inspection.attribution.goals import Metric, answers, one_text, repeated, transformer_of
from clearhead.inspection.capture import Edit, apply, check_edit, edit, intervene, locate
from clearhead.layers.sites import site_names
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

Progress = Callable[[int, int], None]  # passes done, of how many; what it raises ends the work
BATCH_TOKENS = 2048


@torch.no_grad()
def edited_outcomes(
    model: Any,
    inputs: Inputs,
    edits: Sequence[Edit],
    metric: Metric,
    progress: Progress = lambda done, of: None,
) -> Tensor:
    """The metric of one text with each edit made by itself: (edits,)."""
    module, inputs = transformer_of(model), one_text(inputs)
    found = [torch.empty(0)]
    for first, chunk in chunks(edits, inputs):
        with intervene(module, *by_row(module, chunk)):
            found.append(answers(module, repeated(inputs, len(chunk)), metric).float().cpu())
        progress(first + len(chunk), len(edits))
    return torch.cat(found)


def chunks(edits: Sequence[Edit], inputs: Inputs) -> Iterator[tuple[int, Sequence[Edit]]]:
    """The edits of each batch, with the number of the first."""
    longest = max(inputs.tokens.shape[1], 0 if inputs.source is None else inputs.source.shape[1])
    size = max(1, BATCH_TOKENS // longest)
    for first in range(0, len(edits), size):
        yield first, edits[first : first + size]


def by_row(module: Model, edits: Sequence[Edit]) -> list[Edit]:
    """One edit for each site, which changes some rows of a batch, each in its own way."""
    known = site_names(module)
    sites: dict[str, list[tuple[int, Edit]]] = {}
    for row, one in enumerate(edits):
        check_edit(one)
        for name, simple in locate(one, known):
            sites.setdefault(name, []).append((row, simple))
    return [edit(name, partial(change_rows, rows, name)) for name, rows in sites.items()]


def change_rows(changes: list[tuple[int, Edit]], name: str, X: Tensor) -> Tensor:
    """X with an edit in some of its rows."""
    X = X.clone()
    for row, one in changes:
        X[row : row + 1] = apply(one, X[row : row + 1], name)
    return X
