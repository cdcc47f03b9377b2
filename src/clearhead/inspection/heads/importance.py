"""How much the loss depends on each head and each feed-forward unit (N19).

A gate ξ = 1 is put on what a head returns. Its importance is the mean of |∂loss/∂ξ| over the texts of a data set
(Michel et al., 2019); all heads are found in one pass forward and back. Slower, and exact: the loss with the head at
zero.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.data.batching.batches import IGNORE
from clearhead.errors import DataError, InputError
from clearhead.inspection.attribution.passes import Progress
from clearhead.inspection.capture import Edit, edit, intervene, module_of, zero
from clearhead.models.heads import choices
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

# What a model reads, and what is right: ids (b, n), IGNORE where nothing is to be predicted, classes (b,),
# or for each class whether it fits (b, classes).
Task = tuple[Inputs, Tensor]


def headed(model: Any) -> tuple[Model, ModelConfig]:
    """The module of a model that has heads and a loss, and its settings."""
    module = module_of(model)
    if not isinstance(module, Model) or not isinstance(module.config, ModelConfig):
        raise InputError("This model has no attention heads.\nGive a transformer.")
    if module.config.head == "none":
        raise InputError(
            "This model only computes vectors, so it has no loss that its heads could matter to."
        )
    return module, module.config


def head_names(config: ModelConfig) -> list[str]:
    """Every head by its name, in the order of the model."""
    return [f"{name}.{head}" for name in config.attentions() for head in config.heads(name)]


def summed_loss(module: Model, task: Task) -> tuple[Tensor, int]:
    """The sum of −log P of what is right, and of how many predictions."""
    inputs, wanted = task
    Z = choices(module(inputs), wanted).flatten(0, -2).float()
    count = int((wanted != IGNORE).sum())
    return F.cross_entropy(Z, wanted.flatten(), ignore_index=IGNORE, reduction="sum"), count


@torch.no_grad()
def mean_loss(model: Any, tasks: Iterable[Task], removed: Iterable[str] = ()) -> float:
    """The mean loss of a data set, with some heads put to zero."""
    module, _ = headed(model)
    total, count = 0.0, 0
    with intervene(module, *(zero(head) for head in removed)):
        for task in tasks:
            loss, predictions = summed_loss(module, task)
            total, count = total + float(loss), count + predictions
    return total / check_count(count)


def check_count(count: int) -> int:
    """Rejects a data set in which there is nothing to predict."""
    if not count:
        raise DataError(
            "There is nothing to predict in these data.\nGive data that this model could be evaluated on."
        )
    return count


def gate_importance(
    model: Any, tasks: Iterable[Task], progress: Progress = lambda done, of: None
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The mean of |∂loss/∂gate| by head, and of the units of each feed-forward (units,)."""
    module, config = headed(model)
    heads = [name for name in config.attentions() if config.heads(name)]
    sites = [f"{name}.heads" for name in heads] + [f"{name}.hidden" for name in config.feedforwards()]
    sums = {site: torch.zeros(0) for site in sites}
    count = 0
    for done, task in enumerate(tasks):
        gates: dict[str, Tensor] = {}
        with torch.enable_grad(), intervene(module, *(gate(site, gates) for site in sites)):
            loss, predictions = summed_loss(module, task)
        passed = [site for site in sites if site in gates]
        found = torch.autograd.grad(loss, [gates[site] for site in passed], allow_unused=True)
        for site, g in zip(passed, found, strict=True):
            if g is not None:
                size = g.flatten(1).abs().sum(0).cpu()
                sums[site] = size if not len(sums[site]) else sums[site] + size
        count += predictions
        progress(done + 1, 0)
    check_count(count)
    by_head = {
        f"{name}.{head}": float(value) / count
        for name in heads
        for head, value in zip(config.heads(name), sums[f"{name}.heads"].tolist(), strict=True)
    }
    return by_head, {name: sums[f"{name}.hidden"] / count for name in config.feedforwards()}


def gate(site: str, gates: dict[str, Tensor]) -> Edit:
    """Multiplies what passes a site by ones, one for each text and head or unit, and keeps them for their gradients."""

    def multiply(X: Tensor) -> Tensor:
        shape = (len(X), X.shape[1], 1, 1) if site.endswith(".heads") else (len(X), 1, X.shape[-1])
        gates[site] = X.new_ones(shape, requires_grad=True)
        return X * gates[site]

    return edit(site, multiply)


def loss_importance(
    model: Any, tasks: Sequence[Task], progress: Progress = lambda done, of: None
) -> dict[str, float]:
    """By how much the loss of the data rises when each head is put to zero, by itself."""
    _, config = headed(model)
    before, names = mean_loss(model, tasks), head_names(config)
    found = {}
    for done, name in enumerate(names):
        found[name] = mean_loss(model, tasks, [name]) - before
        progress(done + 1, len(names))
    return found
