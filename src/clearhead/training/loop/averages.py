"""Averages of weights over training: the noise of the last steps cancels, and the mean is often better."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from clearhead.config.training import TrainingConfig
from clearhead.training.distributed.collectives import Rows, distribute_like, local_rows

Weights = list[Tensor]


def local(weights: Weights) -> Weights:
    """The rows of weights that this rank has; a mean is elementwise, so each rank averages its own."""
    return [local_rows(weight) for weight in weights]


class NoAverage:
    """The latest weights, not averaged."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = [weight.data for weight in model.parameters() if weight.requires_grad]

    def after_step(self) -> None:
        """Called after every step."""

    def before_evaluation(self) -> None:
        """Called before every evaluation."""

    def mean(self) -> Weights | None:
        """The average, or None if it is the latest weights themselves."""
        return None

    def state(self) -> dict[str, Tensor]:
        """The tensors for a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, Rows]) -> None:
        """Restores the tensors of a checkpoint."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replaces the weights by their average, for an evaluation or a save."""
        mean = self.mean()
        kept = [weight.clone() for weight in self.weights] if mean is not None else []
        if mean is not None:
            torch._foreach_copy_(local(self.weights), local(mean))
        try:
            yield
        finally:
            if mean is not None:
                torch._foreach_copy_(local(self.weights), local(kept))


class Exponential(NoAverage):
    """a ← decay · a + (1 − decay) · w after every step; with a smaller decay at first, so that it does not lag."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model)
        self.decay, self.steps = decay, 0
        self.average = [weight.clone() for weight in self.weights]

    def after_step(self) -> None:
        """Moves the average towards the weights."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        torch._foreach_lerp_(local(self.average), local(self.weights), 1 - decay)

    def mean(self) -> Weights | None:
        """The average."""
        return self.average

    def state(self) -> dict[str, Tensor]:
        """The tensors for a checkpoint."""
        kept = {f"exponential.{i}": weight for i, weight in enumerate(self.average)}
        return kept | {"exponential.steps": torch.tensor([self.steps])}

    def restore(self, state: Mapping[str, Rows]) -> None:
        """Restores the tensors of a checkpoint."""
        self.steps = int(state["exponential.steps"][...])
        kept = [distribute_like(state[f"exponential.{i}"], mean) for i, mean in enumerate(self.average)]
        torch._foreach_copy_(local(self.average), local(kept))


class Last(NoAverage):
    """The mean of the weights at the last evaluations."""

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__(model)
        self.kept: deque[Weights] = deque(maxlen=count)

    def before_evaluation(self) -> None:
        """Adds the latest weights."""
        self.kept.append([weight.clone() for weight in self.weights])

    def mean(self) -> Weights | None:
        """The mean of the weights added so far."""
        return (
            [torch.stack(versions).mean(0) for versions in zip(*map(local, self.kept), strict=True)]
            if self.kept
            else None
        )

    def state(self) -> dict[str, Tensor]:
        """The tensors for a checkpoint."""
        return {
            f"last.{k}.{i}": weight for k, weights in enumerate(self.kept) for i, weight in enumerate(weights)
        }

    def restore(self, state: Mapping[str, Rows]) -> None:
        """Restores the tensors of a checkpoint."""
        versions = 1 + max(
            (int(name.split(".")[1]) for name in state if name.startswith("last.")), default=-1
        )
        self.kept.clear()
        for k in range(versions):
            kept = [state[f"last.{k}.{i}"] for i in range(len(self.weights))]
            self.kept.append([distribute_like(old, new) for old, new in zip(kept, self.weights, strict=True)])


def make_average(model: nn.Module, training: TrainingConfig) -> NoAverage:
    """The average that the settings ask for."""
    if training.average == "exponential":
        return Exponential(model, training.average_decay)
    return Last(model, training.average_last) if training.average == "last" else NoAverage(model)
