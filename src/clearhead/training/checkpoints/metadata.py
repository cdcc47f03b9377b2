"""What a checkpoint contains besides tensors, as JSON: counts, the position in the data, identity and settings."""

import math
import tomllib
from typing import Any

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.errors import ConfigError
from clearhead.training.checkpoints.files import FORMAT
from clearhead.training.loop.trainer import Trainer

COUNTS = ("step", "seconds", "skipped", "skipped_in_a_row", "best_loss", "evaluations_since_best")
Metadata = dict[str, Any]


def metadata_of(trainer: Trainer, identity: Metadata, environment: Metadata) -> Metadata:
    """Everything of a trainer's state that is not a tensor."""
    metadata = {"format": FORMAT, "run": identity, "surroundings": environment}
    metadata["settings"] = tomllib.loads(trainer.run.to_toml())
    metadata |= {"position": [trainer.position.epoch, trainer.position.step]}
    metadata |= {name: getattr(trainer, name) for name in COUNTS}
    if not math.isfinite(trainer.best_loss):
        metadata["best_loss"] = None  # JSON has no infinity
    return metadata


def settings_of(metadata: Metadata) -> RunConfig | None:
    """The settings of the run up to a checkpoint; None if they are missing or of another version."""
    try:
        return RunConfig.model_validate(metadata["settings"])
    except (KeyError, ConfigError):
        return None


def progress_of(metadata: Metadata, saved_at: int, trainer: Trainer) -> tuple[dict[str, float], Position]:
    """The counts and the position in the data of a checkpoint of this step; raises if no run can have reached them."""
    epoch, at = metadata["position"]
    counts, step = {name: metadata[name] for name in COUNTS}, metadata["step"]
    if step != saved_at or step > trainer.steps:
        raise ValueError(f"step = {step!r} of {trainer.steps}")
    for name, value in (counts | {"epoch": epoch, "position": at}).items():
        if name in ("seconds", "best_loss"):
            is_possible = math.isfinite(value) if value is not None else name == "best_loss"
        else:  # a step has at most one batch, one evaluation and one reason to be skipped
            is_possible = type(value) is int and 0 <= value <= step
        if not is_possible:
            raise ValueError(f"{name} = {value!r}")
    if counts["best_loss"] is None:
        counts["best_loss"] = math.inf
    if not trainer.batches.plan.has(epoch, at):
        raise ValueError(f"epoch {epoch} has no batch {at}")
    return counts, Position(epoch, at)
