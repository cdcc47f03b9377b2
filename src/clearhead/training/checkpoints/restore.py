"""Restoring: the latest undamaged checkpoint of a folder becomes the state of a trainer.

A damaged checkpoint is reported and the one before it is tried. One of another run is refused.
"""

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from safetensors import SafetensorError

from clearhead.errors import CheckpointError, ModelFolderError
from clearhead.folder_files import read_json
from clearhead.storage import checksum
from clearhead.training.checkpoints.files import (
    CHECKSUMS,
    FORMAT,
    METADATA,
    list_checkpoints,
    shard_names,
    step_of,
)
from clearhead.training.checkpoints.group import CheckpointGroup
from clearhead.training.checkpoints.identity import (
    check_init_from,
    check_same_run,
    environment_of,
    identity_of,
    is_extended,
    report_extension,
    warn_of_changes,
)
from clearhead.training.checkpoints.metadata import Metadata, progress_of
from clearhead.training.checkpoints.sharded import StoredTensor, read_shards
from clearhead.training.checkpoints.state import load_tensors
from clearhead.training.distributed.ranks import broadcast_from_first, ranks
from clearhead.training.loop.trainer import Trainer

log = logging.getLogger(__name__)


class DamagedCheckpointError(CheckpointError):
    """A checkpoint that is not as it was written."""


def restore_latest(folder: Path, trainer: Trainer) -> Metadata | None:
    """Restores a trainer from the latest undamaged checkpoint, alike on all ranks; its metadata, if there is one."""
    restored: list[Metadata] = []

    def restore_from(checkpoint: Path) -> None:
        metadata, tensors = read(checkpoint)
        restore(checkpoint, metadata, tensors, trainer)
        restored.append(metadata)

    return restored[-1] if latest_undamaged(folder, CheckpointGroup(ranks()), restore_from) else None


def latest_undamaged(
    folder: Path, group: CheckpointGroup, use: Callable[[Path], None] = lambda checkpoint: None
) -> Path | None:
    """The latest checkpoint that passes its checks and `use`, if there is any; warns of damaged ones."""
    found = broadcast_from_first(lambda: " ".join(path.name for path in list_checkpoints(folder))).split()
    for name in reversed(found):
        checkpoint = folder / name
        damages = find_damage(group, partial(check, checkpoint, group)) or find_damage(
            group, partial(use, checkpoint)
        )
        if not damages:
            return checkpoint
        if group.rank == 0:
            log.warning("%s%s", damages[0], "" if name == found[0] else " Trying the one before.")
    if found:
        raise CheckpointError(
            f"All {len(found)} checkpoints in {folder} are damaged; the run cannot be resumed.\n"
            f"Start a new run, from the model of this one if you like: --training.init_from "
            + shlex.quote(str(folder.parent / "best"))
        )
    return None


def find_damage(group: CheckpointGroup, action: Callable[[], None]) -> list[str]:
    """What the ranks of a group find damaged in a checkpoint while they check or use it."""
    damage = ""
    try:
        action()
    except DamagedCheckpointError as error:
        damage = str(error)
    return [damage for damage in group.gather(damage) if damage]


def check(checkpoint: Path, group: CheckpointGroup | None = None) -> None:
    """Raises if a file of a checkpoint is not as it was written; each rank of a group checks some files."""
    group = group or CheckpointGroup()
    try:
        checksums = read_json(checkpoint / CHECKSUMS)
        check_file(checkpoint / METADATA, checksums)
        metadata = read_json(checkpoint / METADATA)
        if metadata["format"] == FORMAT:  # the files of other formats are not known
            for name in islice(shard_names(metadata["parts"]), group.rank, None, group.size):
                check_file(checkpoint / name, checksums)
    except (OSError, ValueError, KeyError, TypeError, ModelFolderError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DamagedCheckpointError(f"{checkpoint} is damaged: {reason}.") from None


def check_file(path: Path, checksums: dict[str, str]) -> None:
    """Raises if a file does not have its checksum."""
    if checksum(path) != checksums[path.name]:
        raise ValueError(f"{path.name} does not match its checksum")


def read(checkpoint: Path) -> tuple[Metadata, dict[str, StoredTensor]]:
    """The metadata and tensors of a checkpoint; the tensors are read when they are used."""
    metadata = read_json(checkpoint / METADATA)
    with damage_reported(checkpoint):
        if metadata.get("format") != FORMAT:
            raise CheckpointError(
                f"{checkpoint} has format {metadata.get('format')}, but this version reads format {FORMAT}.\n"
                "Resume with the version of clearhead that wrote it."
            )
        return metadata, read_shards(checkpoint, metadata["parts"])


@contextmanager
def damage_reported(checkpoint: Path) -> Iterator[None]:
    """Names the checkpoint whose contents no run can have written, though its checksums are right."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, SafetensorError) as error:
        raise DamagedCheckpointError(
            f"{checkpoint} is not a checkpoint as clearhead writes them: {error!r}."
        ) from None


def restore(
    checkpoint: Path, metadata: Metadata, tensors: Mapping[str, StoredTensor], trainer: Trainer
) -> None:
    """Restores a trainer from a checkpoint; one of another run is refused before anything changes."""
    ours = identity_of(trainer)
    with damage_reported(checkpoint):
        check_init_from(metadata, trainer)
        extends = is_extended(metadata, trainer)
        check_same_run(checkpoint, metadata["run"] | ({"steps": trainer.steps} if extends else {}), ours)
        counts, position = progress_of(metadata, step_of(checkpoint), trainer)
        environment = metadata["surroundings"]
        # `torchrun` gives each of several processes one thread, which is far too few for a single process.
        if trainer.training.threads is None and environment["ranks"] == ranks():
            torch.set_num_threads(environment["threads"])
        load_tensors(tensors, trainer)
        warn_of_changes(environment, environment_of(trainer))
    trainer.position = position
    for name, value in counts.items():
        setattr(trainer, name, value)
    if extends:
        trainer.evaluations_since_best = 0
        report_extension(trainer, metadata["run"]["steps"])
