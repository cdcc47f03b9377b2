"""Small trainers for tests: data of a few lines in, a trainer that is ready to start out; no run folder, no plan."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.config.run import RunConfig
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config
from tests.training.small import small_config

TASKS = ("language-model", "masked-language-model", "translate", "classify")


def configured(task: str, folder: Path, model: dict[str, Any] | None = None, **training: Any) -> RunConfig:
    """The small run of a task, with other settings of the model or of training."""
    config = small_config(task, folder, threads=1, **training)
    return config.replace(model=config.model.replace(**model)) if model else config


def make_trainer(
    task: str, folder: Path, model: dict[str, Any] | None = None, steps: int = 6, **training: Any
) -> Trainer:
    """A trainer of this task, always with the same first weights."""
    config = configured(task, folder, model, **training)
    data = prepare(config)
    return Trainer(config, data, build(model_config(config, data), seed=3), steps)


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of the weights."""
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}


def state_of(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of everything that a step may change: weights, what optimizers remember, averages."""
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    state = weights_of(trainer)
    for number, optimizer in enumerate(trainer.optimizers):
        for weight, kept in optimizer.state.items():
            state |= {f"{number}.{names[id(weight)]}.{key}": X.clone() for key, X in kept.items()}
    return state | {f"average.{key}": X.clone() for key, X in trainer.average.state().items()}


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether two states are equal to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def farthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference between two states."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def gradients_of(trainer: Trainer) -> Iterator[Tensor]:
    """The gradients that are there."""
    return (weight.grad for weight in trainer.model.parameters() if weight.grad is not None)


def run_through(trainer: Trainer) -> tuple[list[StepRecord], list[EvaluationRecord]]:
    """All the records of a trainer, by kind."""
    records = list(trainer.train())
    steps = [record for record in records if isinstance(record, StepRecord)]
    return steps, [record for record in records if isinstance(record, EvaluationRecord)]
