"""Which heads and units to keep: their importance enters; what `pruned` takes leaves, and the curve of the loss."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError, suggest
from clearhead.inspection.attribution.passes import Progress
from clearhead.inspection.heads.importance import (
    Task,
    gate_importance,
    head_names,
    headed,
    loss_importance,
    mean_loss,
)
from clearhead.inspection.heads.shares import check_share
from clearhead.models.model import Model
from clearhead.models.transformer.pruned import pruned

Order = Literal["importance", "reverse", "random"]
ImportanceKind = Literal["gradient", "loss"]


@dataclass(frozen=True)
class CurvePoint:
    """The loss of the data with so many heads left."""

    order: str
    kept: int
    heads: int
    loss: float


def kept_by_sublayer(config: ModelConfig, removed: Iterable[str]) -> dict[str, list[int]]:
    """What is left of each sublayer that loses heads."""
    gone = set(removed)
    known = head_names(config)
    if unknown := sorted(gone - set(known)):
        raise InputError(f"{unknown[0]} is not a head of this model. {suggest(unknown[0], known)}")
    names = {head.rpartition(".")[0] for head in gone}
    return {
        name: [head for head in config.heads(name) if f"{name}.{head}" not in gone]
        for name in config.attentions()
        if name in names
    }


def removal_order(importance: Mapping[str, float], order: Order = "importance", seed: int = 1) -> list[str]:
    """The heads in the order in which they go: the least important first, the most important first, or any."""
    names = sorted(importance, key=lambda name: importance[name], reverse=order == "reverse")
    if order == "random":
        random.Random(seed).shuffle(names)
    return names


def kept_units(importance: Mapping[str, Tensor], share: float) -> dict[str, list[int]]:
    """The most important units of each feed-forward, a share of them, at least one."""
    check_share(share, "The share of units")
    return {
        name: sorted(values.topk(max(1, round(share * len(values)))).indices.tolist())
        for name, values in importance.items()
    }


def importance_by(by: ImportanceKind, model: Any, tasks: Sequence[Task]) -> dict[str, float]:
    """The importance of every head: by the gradient of its gate, or by the loss without it."""
    return gate_importance(model, tasks)[0] if by == "gradient" else loss_importance(model, tasks)


def prune_to(
    model: Any,
    tasks: Sequence[Task],
    count: int,
    rounds: int = 1,
    by: ImportanceKind = "gradient",
    progress: Progress = lambda done, of: None,
    known: Mapping[str, float] | None = None,
) -> Model:
    """The model with so many heads left; in each round the least important go, as they are in what is left then.

    `known` is the importance of the heads of the whole model, if it was measured before.
    """
    module, config = headed(model)
    before = len(head_names(config))
    for round_ in range(1, rounds + 1):
        importance = importance_by(by, module, tasks) if known is None or round_ > 1 else known
        left = before - round((before - count) * round_ / rounds)
        gone = removal_order(importance)[: len(importance) - left]
        assert isinstance(module.config, ModelConfig)
        module = pruned(module, kept_by_sublayer(module.config, gone))
        progress(round_, rounds)
    return module


def most_removable(
    model: Any,
    tasks: Sequence[Task],
    order: Sequence[str],
    most: float,
    progress: Progress = lambda done, of: None,
) -> int:
    """How many heads can go, in this order, before the loss rises by more than a share of it; found by halving."""
    if most < 0:
        raise InputError(f"The loss cannot be allowed to rise by {most:.1%}.\nGive a share such as 1%.")
    limit = mean_loss(model, tasks) * (1 + most)
    low, high, done = 0, len(order), 0
    while low < high:
        middle = (low + high + 1) // 2
        if mean_loss(model, tasks, order[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
        done += 1
        progress(done, len(order).bit_length())
    return low


def pruning_curve(
    model: Any,
    tasks: Sequence[Task],
    importance: Mapping[str, float],
    points: int = 9,
    progress: Progress = lambda done, of: None,
) -> list[CurvePoint]:
    """The loss as heads go, by importance, in reverse, and at random: evenly spaced, from all to none."""
    heads = len(importance)
    counts = sorted({round(heads * i / (points - 1)) for i in range(points)})
    orders: tuple[Order, ...] = ("importance", "random", "reverse")
    found = []
    for number, order in enumerate(orders):
        names = removal_order(importance, order)
        for gone in counts:
            found.append(CurvePoint(order, heads - gone, heads, mean_loss(model, tasks, names[:gone])))
            progress(number * len(counts) + counts.index(gone) + 1, len(orders) * len(counts))
    return found
