"""Activation patching: what carries the difference between two texts, part by part and token by token.

The model reads the corrupted text; at one part and one token it is given what it had there in the clean text. The
score is 0 if the answer stays that of the corrupted text, and 1 if it becomes that of the clean one (Vig et al., 2020;
Meng et al., 2022, who call it causal tracing).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import InputError
from clearhead.inspection.attribution.ablation import same_length, values_in
from clearhead.inspection.attribution.goals import Metric, answers, one_text, transformer_of
from clearhead.inspection.attribution.passes import Progress, edited_outcomes
from clearhead.inspection.capture import replace
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.transformer.stack import TransformerStack

LEAST = 1e-4  # between the two answers, of their size: less cannot be divided by


@dataclass(frozen=True)
class Patching:
    """The score of every part at every token, and the answers that 1 and 0 mean."""

    places: list[str]
    scores: Tensor  # (places, tokens); NaN beyond the text that a part reads
    outcomes: Tensor  # the answers behind them
    clean: float
    corrupted: float


@torch.no_grad()
def activation_patching(
    model: Any,
    clean: Inputs,
    corrupted: Inputs,
    metric: Metric,
    places: Sequence[str] | None = None,
    progress: Progress = lambda done, of: None,
) -> Patching:
    """Puts each part of the clean pass, token by token, into the pass of the corrupted text.

    If omitted, the parts are the stream before and after every block, and what every sublayer adds; of a translator in
    both stacks. Heads are named decoder.0.self.3.
    """
    module, corrupted = transformer_of(model), one_text(corrupted)
    clean = same_length(corrupted, clean)
    places = list(patch_places(module) if places is None else places)
    ends = [float(answers(module, inputs, metric)) for inputs in (clean, corrupted)]
    gap = ends[0] - ends[1]
    if abs(gap) <= LEAST * max(1.0, *map(abs, ends)):
        raise InputError(
            f"Both texts give the same answer, {ends[0]:.4f} and {ends[1]:.4f}, so there is nothing to explain.\n"
            "Change a word that matters to the answer."
        )
    values = values_in(module, clean, places)
    counts = {place: tokens_of(place, corrupted) for place in places}
    cells = [(row, token) for row, place in enumerate(places) for token in range(counts[place])]
    edits = [
        replace(places[row], values[places[row]][..., token, :].unsqueeze(-2), token=token)
        for row, token in cells
    ]
    found = edited_outcomes(module, corrupted, edits, metric, progress)
    outcomes = torch.full((len(places), max(counts.values(), default=0)), torch.nan)
    if cells:
        rows, tokens = torch.tensor(cells).mT
        outcomes[rows, tokens] = found
    return Patching(places, (outcomes - ends[1]) / gap, outcomes, ends[0], ends[1])


def patch_places(module: Model) -> list[str]:
    """The stream before the first and after every block, and every sublayer, of all stacks."""
    places = []
    for name in ("encoder", "decoder"):
        stack = getattr(module, name, None)
        if not isinstance(stack, TransformerStack):
            continue
        places.append(f"{name}.embeddings.out")
        for i in range(len(stack.blocks)):
            places += [f"{name}.{i}.{sublayer}" for sublayer in stack.sublayers]
            places.append(f"{name}.{i}.residual.{len(stack.sublayers) - 1}")
    return places


def tokens_of(place: str, inputs: Inputs) -> int:
    """How many tokens a part reads."""
    if place.endswith((".scores", ".weights", ".k", ".v", "logits", "pooled")):
        raise InputError(f"{place} is not patched token by token.\nTake a sublayer, a head, or the stream.")
    X = inputs.source if place.startswith("encoder.") and inputs.source is not None else inputs.tokens
    return X.shape[1]
