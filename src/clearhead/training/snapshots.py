"""The state of a run, so that it can go on: weights, optimizers, averages, random numbers and the place in the data.

A snapshot is a folder `checkpoints/step-N` of safetensors and JSON, written beside its place and then renamed.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead.checkpoint import weights_of, written_beside
from clearhead.data.batches import Position
from clearhead.errors import CheckpointError
from clearhead.training.trainer import Trainer

FORMAT = 2
COUNTS = ("step", "seconds", "skipped", "skipped_in_a_row", "best_loss", "evaluations_since_best")


def save(folder: Path, trainer: Trainer, keep: int) -> Path:
    """Writes the snapshot of this step, then removes all but the newest `keep`."""
    place = folder / f"step-{trainer.step}"
    facts = {"format": FORMAT, "run": identity(trainer)}
    facts |= {"position": [trainer.position.epoch, trainer.position.step]}
    facts |= {name: getattr(trainer, name) for name in COUNTS}
    if not math.isfinite(trainer.best_loss):
        facts["best_loss"] = None  # JSON has no infinity
    with written_beside(place) as new:
        save_file(tensors_of(trainer), new / "state.safetensors")
        (new / "state.json").write_text(json.dumps(facts, allow_nan=False) + "\n", encoding="utf-8")
    for old in snapshots(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return place


def identity(trainer: Trainer) -> dict[str, Any]:
    """What must be the same for a run to go on as if it had never stopped."""
    training = trainer.training
    return {
        "steps": trainer.steps,
        "training.batch_tokens": training.batch_tokens,
        "training.seed": training.seed,
        "training.optimizer": training.optimizer,
        "training.average": training.average,
        "data": trainer.data.fingerprint,
        "weights": {name: list(weight.shape) for name, weight in trainer.model.named_parameters()},
    }


def snapshots(folder: Path) -> list[Path]:
    """The snapshots of a run, the newest last."""
    found = [path for path in folder.glob("step-*") if path.name[5:].isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def restore(place: Path, trainer: Trainer) -> None:
    """Puts a trainer where a snapshot was taken."""
    try:
        facts = json.loads((place / "state.json").read_text(encoding="utf-8"))
        if facts["format"] != FORMAT:
            raise ValueError(f"its format is {facts['format']}, and this version reads {FORMAT}")
        check_same(place, facts["run"], identity(trainer))
        put_back(load_file(place / "state.safetensors"), trainer)
        trainer.position = Position(*facts["position"])
        for name in COUNTS:
            setattr(trainer, name, facts[name])
        trainer.best_loss = math.inf if facts["best_loss"] is None else facts["best_loss"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"{place} cannot be read: {reason}.\nRemove it to go on from the one before."
        ) from None


def check_same(place: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Refuses a snapshot of another run, and names what differs."""
    for name, value in ours.items():
        if theirs[name] != value:
            is_long = name in ("data", "weights")
            what = f"other {name}" if is_long else f"{name} = {theirs[name]}, while this one has {value}"
            raise CheckpointError(
                f"{place} is of a run with {what}.\n"
                "Go on with the recipe and the data of that run, or begin a new one."
            )


def tensors_of(trainer: Trainer) -> dict[str, Tensor]:
    """Everything of a trainer that is a tensor, by name."""
    tensors = {f"weights.{name}": weight for name, weight in weights_of(trainer.model).items()}
    for number, name, state in optimizer_states(trainer):
        tensors |= {f"optimizer.{number}.{name}.{key}": value.contiguous() for key, value in state.items()}
    tensors |= {f"average.{name}": value.contiguous() for name, value in trainer.average.state().items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if trainer.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(trainer.device)
    return tensors


def put_back(tensors: dict[str, Tensor], trainer: Trainer) -> None:
    """The reverse of `tensors_of`."""
    with torch.no_grad():
        for name, weight in trainer.model.named_parameters():
            weight.copy_(tensors[f"weights.{name}"])
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    for number, optimizer in enumerate(trainer.optimizers):
        for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
            prefix = f"optimizer.{number}.{names[id(weight)]}."
            kept = {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
            optimizer.state[weight] = {key: value.to(weight.device) for key, value in kept.items()}
    prefix = "average."
    trainer.average.restore(
        {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
    )
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and trainer.device.type == "cuda":
        torch.cuda.set_rng_state(tensors["random.cuda"], trainer.device)


def optimizer_states(trainer: Trainer) -> list[tuple[int, str, dict[str, Any]]]:
    """The number of an optimizer, the name of a weight, and what the optimizer remembers of it."""
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    return [
        (number, names[id(weight)], dict(state))
        for number, optimizer in enumerate(trainer.optimizers)
        for weight, state in optimizer.state.items()
    ]
