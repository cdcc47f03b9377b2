"""Saving: metadata and tensors become a folder `step-N`, and older folders are removed.

`save` is all there is to a safe save: write beside, with checksums, flush, rename, and only then remove old ones.
"""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

from torch import Tensor

from clearhead.errors import TrainingError, first_few
from clearhead.storage import checksum, remove_atomically, replace_on_exit
from clearhead.training.checkpoints.files import (
    CHECKSUMS,
    METADATA,
    checkpoint_at,
    list_checkpoints,
    shard_names,
    step_of,
)
from clearhead.training.checkpoints.group import CheckpointGroup
from clearhead.training.checkpoints.metadata import Metadata
from clearhead.training.checkpoints.sharded import write_shard


def save(
    folder: Path,
    metadata: Metadata,
    tensors: dict[str, Tensor],
    keep: int,
    group: CheckpointGroup | None = None,
) -> Path:
    """Saves a checkpoint, and removes all but the latest `keep`.

    Every rank of a group writes the tensors that it has; the first writes the rest once all shards are on disk.
    Whenever any of them is killed, every folder called step-N is complete, and the previous ones still exist.
    """
    group = group or CheckpointGroup()
    checkpoint, is_first = checkpoint_at(folder, metadata["step"]), group.rank == 0
    new, shards = folder / f".{checkpoint.name}.{group.token}.writing", list(shard_names(group.size))
    with (
        replace_on_exit(new, checkpoint) if is_first else nullcontext()
    ):  # flushes the folder, and renames it
        checksums = group.all_or_none(lambda: write_shard(new / shards[group.rank], tensors))
        if is_first:
            check_visible(new, shards)
            write_metadata(new, metadata | {"parts": group.size}, dict(zip(shards, checksums, strict=True)))
    for old in superseded(folder, metadata["step"], keep) if is_first else ():
        remove_atomically(old)
    return checkpoint


def check_visible(checkpoint: Path, shards: list[str]) -> None:
    """Refuses shards that other ranks have written where the first rank does not see them."""
    if missing := [name for name in shards if not (checkpoint / name).is_file()]:
        raise TrainingError(
            f"{first_few(missing)} of a checkpoint is missing in {checkpoint.parent}, though its rank has written it.\n"
            "All machines need the run folder at the same path, on a shared disk: choose such an --out."
        )


def write_metadata(checkpoint: Path, metadata: Metadata, checksums: dict[str, str]) -> None:
    """Writes everything but the tensors, with the checksums of all files."""
    (checkpoint / METADATA).write_text(json.dumps(metadata, allow_nan=False) + "\n", encoding="utf-8")
    for name in checksums:
        shutil.copymode(
            checkpoint / METADATA, checkpoint / name
        )  # safetensors writes files that only we may read
    checksums = {METADATA: checksum(checkpoint / METADATA), **checksums}
    (checkpoint / CHECKSUMS).write_text(json.dumps(checksums) + "\n", encoding="utf-8")


def superseded(folder: Path, step: int, keep: int) -> list[Path]:
    """The checkpoints that one of this step makes superfluous: all but the latest `keep` up to it.

    Those of later steps were damaged, or the run would have resumed from them.
    """
    until = [checkpoint for checkpoint in list_checkpoints(folder) if step_of(checkpoint) <= step]
    return [checkpoint for checkpoint in list_checkpoints(folder) if checkpoint not in until[-keep:]]
