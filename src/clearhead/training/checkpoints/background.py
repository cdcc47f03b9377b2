"""Saving during training: the state is copied between two steps, and a thread writes the copy.

Each rank copies and writes the rows that only it has; the first also what all ranks have.
At most one save is in progress. If it fails, the next save or the end of the loop raises its error.
"""

from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from clearhead.training.checkpoints.group import CheckpointGroup
from clearhead.training.checkpoints.identity import environment_of, identity_of
from clearhead.training.checkpoints.metadata import Metadata, metadata_of
from clearhead.training.checkpoints.save import save
from clearhead.training.checkpoints.state import collect_tensors
from clearhead.training.distributed.collectives import is_sharded, local_rows, sum_over_ranks
from clearhead.training.distributed.ranks import is_first
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.disk import check_room

OVERHEAD_BYTES = 1 << 20  # besides the tensors: names, metadata, folders


class Saver:
    """Saves the state of a trainer; use it in a `with`, at whose end everything is on disk."""

    def __init__(self, folder: Path, trainer: Trainer) -> None:
        self.folder, self.trainer = folder, trainer
        self.keep = trainer.training.keep_checkpoints
        self.identity = identity_of(trainer)
        self.group = CheckpointGroup(trainer.parallel.shards)
        self.saved_step = trainer.step if trainer.step else None  # a resumed run has its checkpoint already
        self.copy: dict[str, Tensor] = {}
        self.writer: Thread | None = None
        self.error: Exception | None = None

    def save(self) -> None:
        """Copies the state as it is now, and starts a thread that writes it."""
        self.wait()
        if self.saved_step == self.trainer.step:
            return
        self.saved_step = self.trainer.step
        metadata = metadata_of(self.trainer, self.identity, environment_of(self.trainer))
        self.copy = copy_to_memory(collect_tensors(self.trainer), self.copy)
        (needed,) = sum_over_ranks(
            self.trainer.device, OVERHEAD_BYTES + sum(X.nbytes for X in self.copy.values())
        )
        if not self.copy:
            return
        check_room(self.folder, int(needed))
        self.writer = Thread(target=self.write, args=(metadata,), name="clearhead-checkpoint", daemon=True)
        self.writer.start()

    def write(self, metadata: Metadata) -> None:
        """What the thread does."""
        try:
            save(self.folder, metadata, self.copy, self.keep, self.group)
        except Exception as error:  # raised by `wait`, in the loop
            self.error = error

    def wait(self) -> None:
        """Waits until the save in progress is done; raises its error."""
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


def copy_to_memory(tensors: dict[str, Tensor], buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    """A copy in main memory of what this rank writes, in the buffers of the last copy where they fit."""
    copy = {}
    for name, tensor in tensors.items():
        if not is_sharded(tensor) and not is_first():
            continue
        X = local_rows(tensor.detach())
        buffer = buffers.get(name)
        if buffer is None or buffer.shape != X.shape or buffer.dtype != X.dtype:
            buffer = torch.empty(X.shape, dtype=X.dtype)
        copy[name] = buffer.copy_(X)
    return copy
