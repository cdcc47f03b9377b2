"""Checkpoints written while training goes on: the state is copied between two steps, and a thread writes the copy.

Each rank copies and writes what only it holds; of what all hold, the first does.
At most one is on its way. What goes wrong with it is raised in the loop, at the next save or at the end.
"""

from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from clearhead.training import snapshots
from clearhead.training.disk import check_room
from clearhead.training.distributed import is_first
from clearhead.training.facts import Facts, facts_of, identity
from clearhead.training.shares import is_sharded, rows_here, total
from clearhead.training.teams import Team
from clearhead.training.trainer import Trainer

SPARE = 1 << 20  # bytes beside the tensors: names, facts, folders


class Saver:
    """Saves the state of a trainer; use it in a `with`, at whose end all that was saved is on disk."""

    def __init__(self, folder: Path, trainer: Trainer) -> None:
        self.folder, self.trainer = folder, trainer
        self.keep = trainer.training.keep_checkpoints
        self.run = identity(trainer)
        self.team = Team(trainer.parallel.parts)
        self.saved = trainer.step if trainer.step else None  # where it goes on from is on disk already
        self.copy: dict[str, Tensor] = {}
        self.writer: Thread | None = None
        self.error: Exception | None = None

    def save(self) -> None:
        """Copies the state as it is now, and lets the thread write it."""
        self.wait()
        if self.saved == self.trainer.step:
            return
        self.saved = self.trainer.step
        facts = facts_of(self.trainer, self.run)
        self.copy = copied(snapshots.tensors_of(self.trainer), self.copy)
        (needed,) = total(self.trainer.device, SPARE + sum(X.nbytes for X in self.copy.values()))
        if not self.copy:
            return
        check_room(self.folder, int(needed))
        self.writer = Thread(target=self.write, args=(facts,), name="clearhead-checkpoint", daemon=True)
        self.writer.start()

    def write(self, facts: Facts) -> None:
        """What the thread does."""
        try:
            snapshots.write(self.folder, facts, self.copy, self.keep, self.team)
        except Exception as error:  # raised again where somebody hears it
            self.error = error

    def wait(self) -> None:
        """Until the save that is on its way is done; what went wrong with it is raised."""
        if self.writer is not None:
            self.writer.join()
        self.writer, error, self.error = None, self.error, None
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.wait()
        elif self.writer is not None and kind is not KeyboardInterrupt:  # who interrupts is in a hurry
            self.writer.join()


def copied(tensors: dict[str, Tensor], buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    """A copy in main memory of what this rank writes, in the buffers of the last one where they fit."""
    copy = {}
    for name, tensor in tensors.items():
        if not is_sharded(tensor) and not is_first():
            continue
        X = rows_here(tensor.detach())
        buffer = buffers.get(name)
        if buffer is None or buffer.shape != X.shape or buffer.dtype != X.dtype:
            buffer = torch.empty(X.shape, dtype=X.dtype)
        copy[name] = buffer.copy_(X)
    return copy
