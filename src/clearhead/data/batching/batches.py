"""What a model is given in one step, and the position of a run in its data.

A position (epoch, step) enters; a `Batch` of tensors leaves, or one rank's rows of it. Padding is always on
the right and described by counts, never by a mask. Where nothing is to be predicted a target is `IGNORE`, which
every loss skips. Every batch is a pure function of its position, so two integers are all the state
there is, and a run that is resumed sees the same batches as one that was never stopped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from clearhead.data.batching.plans import BatchPlan
from clearhead.data.order import Integers

IGNORE = -100  # what torch's cross-entropy skips by default


@dataclass(frozen=True)
class Batch:
    """What a model is given and what it should answer; counts are None where no row is padded."""

    inputs: Tensor  # (b, n) ids
    counts: Tensor | None = None  # (b,) real tokens of each row of the inputs
    targets: Tensor | None = None  # (b, n) ids, IGNORE where nothing is to be predicted
    documents: Tensor | None = None  # (b, n) which document of its row a token belongs to
    source: Tensor | None = None  # (b, m) ids
    source_counts: Tensor | None = None  # (b,)
    types: Tensor | None = None  # (b, n) 1 for the tokens of a second text
    labels: Tensor | None = None  # (b,) numbers of classes, or (b, classes) whether each fits
    total: int = 0  # how much is to be predicted in the whole batch, over all ranks

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return self.inputs.shape[0]

    @property
    def tokens(self) -> int:
        """How many real tokens the model reads, source and inputs."""
        inputs = self.inputs.numel() if self.counts is None else int(self.counts.sum())
        if self.source is None:
            return inputs
        return inputs + (self.source.numel() if self.source_counts is None else int(self.source_counts.sum()))

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def share(self, rank: int, ranks: int) -> "Batch":
        """The rows of one rank: each row goes to exactly one, so the union is the same for any ranks.

        A rank for which no row is left is given the first row with nothing to predict, since it has to take
        part in the step all the same.
        """
        if rank < self.rows:
            return self._each(lambda tensor: tensor[rank::ranks])._trimmed()
        idle = self._each(lambda tensor: tensor[:1])._trimmed()
        targets = None if idle.targets is None else torch.full_like(idle.targets, IGNORE)
        labels = None if idle.labels is None else torch.full_like(idle.labels, IGNORE)
        return replace(idle, targets=targets, labels=labels)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changes = {name: change(value) for name, value in values.items() if isinstance(value, Tensor)}
        return Batch(**(values | changes))

    def _trimmed(self) -> "Batch":
        """Without the places that are padding in every row."""
        batch = self
        if self.counts is not None:
            n = int(self.counts.max())
            targets = None if self.targets is None else self.targets[:, :n]
            documents = None if self.documents is None else self.documents[:, :n]
            batch = replace(batch, inputs=self.inputs[:, :n], counts=unless_full(self.counts, n))
            types = None if self.types is None else self.types[:, :n]
            batch = replace(batch, targets=targets, documents=documents, types=types)
        if self.source is not None and self.source_counts is not None:
            m = int(self.source_counts.max())
            batch = replace(
                batch, source=self.source[:, :m], source_counts=unless_full(self.source_counts, m)
            )
        return batch


def unless_full(counts: Tensor, n: int) -> Tensor | None:
    """The counts, or None where every row is full: models are faster when they need not look."""
    return None if bool((counts == n).all()) else counts


class Collate(Protocol):
    """Makes the whole batch of some examples; the epoch matters where something is drawn."""

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The batch of these examples."""
        ...


@dataclass(frozen=True, order=True)
class Position:
    """The position of a run in its data, the next batch: all that has to be saved."""

    epoch: int = 0
    step: int = 0


@dataclass(frozen=True)
class Batches:
    """All batches of a data set, each a pure function of its position."""

    plan: BatchPlan
    collate: Collate

    def count(self, epoch: int = 0) -> int:
        """How many batches an epoch has."""
        return self.plan.count(epoch)

    def at(self, position: Position, rank: int = 0, ranks: int = 1) -> Batch:
        """One rank's rows of the batch at a position."""
        examples = self.plan.examples(position.epoch, position.step)
        batch = self.collate(examples, position.epoch)
        return batch if ranks == 1 else batch.share(rank, ranks)

    def after(self, position: Position) -> Position:
        """The next position: the next step, or the first of the next epoch."""
        epoch, step = position.epoch, position.step + 1
        return Position(epoch, step) if self.plan.has(epoch, step) else Position(epoch + 1)

    def epoch(self, epoch: int = 0, rank: int = 0, ranks: int = 1) -> Iterator[Batch]:
        """All batches of one epoch, in order."""
        for step in range(self.count(epoch)):
            yield self.at(Position(epoch, step), rank, ranks)
