"""Vectors of tokens beside each other: nearest neighbours in the table, and a projection onto two dimensions (N4)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import InputError
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.tensors import stack_of, tensor
from clearhead.text.tokenizers.tokenizer import Tokenizer

NEAREST = 10


@dataclass(frozen=True)
class Neighbour:
    """A token, and how near its embedding is."""

    id: int
    text: str
    value: float


@dataclass(frozen=True)
class Neighbours:
    """The tokens nearest to one, by two measures."""

    cosine: list[Neighbour]
    dot: list[Neighbour]


@dataclass(frozen=True)
class Projection:
    """Vectors on their first two principal components, and the share of the variance that each explains."""

    points: list[list[float]]  # (n, 2)
    share: list[float]


def neighbours(captured: Pass, stack: str, id: int) -> Neighbours:
    """The tokens whose embeddings are nearest to one, by cosine and by dot product."""
    E = stack_of(captured, stack).tokens.weight.detach().float()
    if not 0 <= id < len(E):
        raise InputError(f"{id} is not an id of this model, which has 0 to {len(E) - 1}.")
    tokenizer = captured.inspector.tokenizer(stack)
    dot, norms = E @ E[id], E.norm(dim=-1)  # no copy of the table, as `F.cosine_similarity` would make
    cosine = dot / (norms * norms[id]).clamp(min=1e-8)
    return Neighbours(nearest(tokenizer, cosine, id), nearest(tokenizer, dot, id))


def nearest(tokenizer: Tokenizer, values: Tensor, id: int) -> list[Neighbour]:
    """The tokens with the largest values, except for one."""
    values[id] = -torch.inf
    best = values.topk(min(NEAREST, len(values) - 1))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [Neighbour(other, tokenizer.piece(other), value) for other, value in pairs]


def projection(captured: Pass, site: str) -> Projection:
    """The tokens' vectors at a site on their first two principal components."""
    X = tensor(captured, site).double()
    if X.ndim != 2:
        raise InputError(
            f"{site} has shape {tuple(X.shape)}, not one vector for each token, so it has no projection.\n"
            f"Choose another site, such as {captured.top}.embeddings.out."
        )
    if not bool(X.isfinite().all()):
        raise InputError(f"{site} contains NaN or infinity, so it has no projection.")
    X = X - X.mean(0)
    U, S, _ = torch.linalg.svd(X, full_matrices=False)
    points = U[:, :2] * S[:2]
    points = F.pad(points, (0, 2 - points.shape[1]))
    total = float(S.square().sum())
    share = [float(value) / total if total else 0.0 for value in S[:2].square()]
    return Projection(points.tolist(), share)
