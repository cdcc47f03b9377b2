"""Checkpoints as the tests make, damage and restore them."""

import json
from pathlib import Path
from typing import Any

from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.storage import checksum
from clearhead.training.checkpoints.background import copy_to_memory
from clearhead.training.checkpoints.identity import environment_of, identity_of
from clearhead.training.checkpoints.metadata import Metadata, metadata_of
from clearhead.training.checkpoints.restore import read, restore
from clearhead.training.checkpoints.save import save
from clearhead.training.checkpoints.state import collect_tensors
from clearhead.training.loop.records import EvaluationRecord, Record
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config
from tests.training.trainers import configured

TENSORS = "state-1-of-1.safetensors"
GONE = object()


def described(trainer: Trainer) -> Metadata:
    """The metadata of this moment."""
    return metadata_of(trainer, identity_of(trainer), environment_of(trainer))


def save_now(folder: Path, trainer: Trainer, keep: int = 2, **changes: Any) -> Path:
    """Saves a checkpoint of this moment, with some metadata changed."""
    return save(folder, described(trainer) | changes, copy_to_memory(collect_tensors(trainer), {}), keep)


def restore_from(checkpoint: Path, trainer: Trainer) -> None:
    """Restores a trainer from this one."""
    restore(checkpoint, *read(checkpoint), trainer)


def train_until(trainer: Trainer, step: int, folder: Path) -> tuple[Path, list[Record]]:
    """Trains up to the end of a step and saves there, as a run that is killed afterwards."""
    records = []
    for record in trainer.train():
        records.append(record)
        if record.step == step and trainer.is_last_of_step(record):
            break
    return save_now(folder, trainer), records


def timeless(record: Record) -> tuple[Any, ...]:
    """What of a record does not depend on the clock."""
    if isinstance(record, EvaluationRecord):
        return (record.step, record.validation_loss, record.predictions, record.accuracy, record.is_best)
    return (
        record.step,
        record.epoch,
        record.loss,
        record.learning_rate,
        record.gradient_norm,
        record.skipped,
    )


def flip(path: Path, place: int) -> None:
    """Changes one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    """Truncates a file to half its size."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rewrite(place: Path, name: str, value: object) -> None:
    """Changes the metadata of a checkpoint, and its checksum."""
    metadata = json.loads((place / "state.json").read_text())
    if value is GONE:
        del metadata[name]
    else:
        metadata[name] = value
    (place / "state.json").write_text(json.dumps(metadata))
    checksums = json.loads((place / "checksums.json").read_text())
    (place / "checksums.json").write_text(
        json.dumps(checksums | {"state.json": checksum(place / "state.json")})
    )


def frozen(folder: Path, **training: Any) -> Trainer:
    """A trainer whose encoder is frozen."""
    config = configured("translate", folder, **training)
    data = prepare(config)
    model = build(model_config(config, data), seed=3)
    model.get_submodule("encoder").requires_grad_(False)
    return Trainer(config, data, model, 6)
