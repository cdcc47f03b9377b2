"""Saliency: which tokens an answer depends on, by gradients and by removal.

    gradient × input        Σ_k x_k ∂f/∂x_k of each token's vector x
    integrated gradients    the same, averaged from a baseline to x: the scores add up to f(x) − f(baseline)
    leave-one-out           f of the text − f of the text without the token

x is the vector in the table of embeddings, before positions are added (Shrikumar et al., 2016; Sundararajan et al.,
2017).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import InputError
from clearhead.inspection.attribution.goals import Logit, Metric, answers, one_text, repeated, transformer_of
from clearhead.inspection.attribution.passes import BATCH_TOKENS
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.stack import Stack

STEPS = 64
LARGE = 0.01  # a completeness error that is worth a warning


@dataclass(frozen=True)
class Saliency:
    """The score of each token, of a translator also of its source."""

    tokens: Tensor  # (n,)
    source: Tensor | None
    value: float  # of the metric for the text
    baseline: float | None = None  # and for the baseline, if there is one
    # Of the text, and of the source: vectors (1, n, d) and gradients, whose products add up to the scores.
    factors: tuple[tuple[Tensor, Tensor], ...] = ()

    @property
    def error(self) -> float | None:
        """How far the scores are from adding up to value − baseline, as a share of it: the completeness error."""
        if self.baseline is None:
            return None
        # Summed in double: what remains is often as small as the rounding of a sum in float32.
        total = sum(
            float(scores.double().sum()) for scores in (self.tokens, self.source) if scores is not None
        )
        gap = self.value - self.baseline
        return abs(total - gap) / max(abs(gap), 1e-12)

    @property
    def advice(self) -> str:
        """What to do about a large completeness error; empty if it is small."""
        if self.error is None or self.error <= LARGE:
            return ""
        return f"The scores miss the difference by {self.error:.1%}: take more steps, or another baseline."


def gradient_times_input(model: Any, inputs: Inputs, metric: Metric) -> Saliency:
    """Σ_k x_k ∂f/∂x_k of each token."""
    module, inputs = transformer_of(model), one_text(inputs)
    X = vectors_of(module, inputs)
    value, G = gradients(module, inputs, X, metric)
    return Saliency(*scores(X, G), value=float(value), factors=tuple(zip(X, G, strict=True)))


def integrated_gradients(
    model: Any,
    inputs: Inputs,
    metric: Metric,
    baseline: int | None = None,
    steps: int = STEPS,
    batch_tokens: int | None = None,
) -> Saliency:
    """The gradient averaged on the straight way from a baseline, times the way.

    The baseline is the vector of a token, such as that of padding, in every place; if omitted, the mean of all vectors.
    The mean over the way is Gauss's quadrature, whose error falls faster with the steps than that of even ones. At most
    `batch_tokens` tokens, if given, are computed at once.
    """
    module, inputs = transformer_of(model), one_text(inputs)
    if steps < 1:
        raise InputError(f"steps = {steps}, but there must be at least one.")
    X = vectors_of(module, inputs)
    start = baseline_of(module, X, baseline)
    way = [end - begin for begin, end in zip(start, X, strict=True)]
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = [torch.zeros_like(part) for part in X]
    most = BATCH_TOKENS if batch_tokens is None else min(BATCH_TOKENS, batch_tokens)
    size = max(1, most // max(part.shape[1] for part in X))
    for first in range(0, steps, size):
        at = torch.tensor((nodes[first : first + size] + 1) / 2, dtype=X[0].dtype, device=X[0].device)
        share = torch.tensor(weights[first : first + size] / 2, dtype=X[0].dtype, device=X[0].device)
        points = [begin + at[:, None, None] * step for begin, step in zip(start, way, strict=True)]
        _, G = gradients(module, inputs, points, metric)
        total = [
            sum_ + (share[:, None, None] * g).sum(0, keepdim=True) for sum_, g in zip(total, G, strict=True)
        ]
    with torch.no_grad():
        ends = [float(answers(module, with_vectors(inputs, at), metric)) for at in (X, start)]
    factors = tuple(zip(way, total, strict=True))
    return Saliency(*scores(way, total), value=ends[0], baseline=ends[1], factors=factors)


def vectors_of(module: Model, inputs: Inputs) -> list[Tensor]:
    """The vectors of the tokens, and of the source if there is one: (1, n, d) each."""
    return [stack.tokens.weight.detach()[ids] for stack, ids in tables_of(module, inputs)]


def tables_of(module: Model, inputs: Inputs) -> list[tuple[Stack, Tensor]]:
    """The stack that reads the tokens, and the one that reads the source, each with its ids."""
    top = getattr(module, "decoder" if module.config.shape != "encoder" else "encoder")
    pairs = [(top, inputs.tokens)]
    if inputs.source is not None:
        pairs.append((module.encoder, inputs.source))
    return pairs


def baseline_of(module: Model, X: list[Tensor], baseline: int | None) -> list[Tensor]:
    """The vectors that a path starts from."""
    start = []
    for (stack, _), part in zip(
        tables_of(module, Inputs(X[0], source=X[1] if X[1:] else None)), X, strict=True
    ):
        E = stack.tokens.weight.detach()
        if baseline is not None and not 0 <= baseline < len(E):
            raise InputError(f"{baseline} is not an id of this model, which has 0 to {len(E) - 1}.")
        start.append((E.mean(0) if baseline is None else E[baseline]).expand_as(part))
    return start


def with_vectors(inputs: Inputs, X: list[Tensor]) -> Inputs:
    """The inputs with vectors in the place of ids."""
    text = repeated(Inputs(torch.empty(1, 0), types=inputs.types), len(X[0]))
    return Inputs(X[0], source=X[1] if X[1:] else None, types=text.types)


def gradients(module: Model, inputs: Inputs, X: list[Tensor], metric: Metric) -> tuple[Tensor, list[Tensor]]:
    """The metric of each row (b,), and its gradients by the vectors."""
    X = [part.detach().clone().requires_grad_() for part in X]
    with torch.enable_grad():
        value = answers(module, with_vectors(inputs, X), metric)
        return value.detach(), list(torch.autograd.grad(value.sum(), X))


def scores(X: list[Tensor], G: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """x · g of every token, and of every token of the source."""
    found = [(part * g).sum(-1)[0] for part, g in zip(X, G, strict=True)]
    return found[0], found[1] if found[1:] else None


@torch.no_grad()
def leave_one_out(model: Any, inputs: Inputs, metric: Metric) -> Saliency:
    """How much the metric falls without each token; later tokens move up.

    Where a logit is read at a position, it is read at the same token, or at the one before if that token is missing.
    """
    module, inputs = transformer_of(model), one_text(inputs)
    value = float(answers(module, inputs, metric))
    texts = [without_each(inputs.tokens)]
    if inputs.source is not None:
        texts.append(without_each(inputs.source))
    found = []
    for which, rows in enumerate(texts):
        n = rows.shape[1] + 1
        kept = torch.full((n,), torch.nan)
        for token in range(n if n > 1 else 0):
            changed = with_row(inputs, rows[token : token + 1], which, token)
            if (goal := moved(metric, token, n) if which == 0 else metric) is not None:
                kept[token] = value - float(answers(module, changed, goal))
        found.append(kept)
    return Saliency(found[0], found[1] if found[1:] else None, value)


def without_each(ids: Tensor) -> Tensor:
    """Row i has all ids but number i: (1, n) -> (n, n − 1)."""
    n = ids.shape[1]
    return ids.expand(n, n)[~torch.eye(n, dtype=torch.bool)].view(n, n - 1)


def with_row(inputs: Inputs, row: Tensor, which: int, token: int) -> Inputs:
    """The inputs with a shorter text, or with a shorter source."""
    if which == 1:
        return inputs._replace(source=row)
    types = inputs.types
    if types is not None:
        types = torch.cat([types[:, :token], types[:, token + 1 :]], 1)
    return inputs._replace(tokens=row, types=types)


def moved(metric: Metric, token: int, n: int) -> Metric | None:
    """The metric for a text of n tokens without one; None if nothing is left to read it from."""
    if not isinstance(metric, Logit):
        return metric
    at = metric.position_in(n)
    at -= token <= at
    return Logit(metric.id, metric.against, at) if at >= 0 else None
