"""What a checkpoint is on disk, a folder `step-N`:

state-1-of-1.safetensors   every tensor: the trained weights, and what training keeps of them; one file per shard
state.json                 counts, the position in the data, what the run is, its settings, and what it runs on
checksums.json             the SHA-256 of the others

Frozen weights are not in it: the run reads them again where it started, and a checksum shows whether they are the same.
"""

from collections.abc import Iterator
from pathlib import Path

FORMAT = 4
METADATA, CHECKSUMS = "state.json", "checksums.json"
PREFIX = "step-"


def shard_names(count: int) -> Iterator[str]:
    """The names of so many files of tensors."""
    return (f"state-{number}-of-{count}.safetensors" for number in range(1, count + 1))


def checkpoint_at(folder: Path, step: int) -> Path:
    """The checkpoint of a step."""
    return folder / f"{PREFIX}{step}"


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, the latest last."""
    found = folder.glob(f"{PREFIX}*")
    return sorted(
        (path for path in found if path.name[len(PREFIX) :].isdecimal() and path.is_dir()), key=step_of
    )


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was saved."""
    return int(checkpoint.name[len(PREFIX) :])
