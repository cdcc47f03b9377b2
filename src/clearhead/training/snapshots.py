"""The state of a run, so that it can go on: weights, optimizers, averages, random numbers and the place in the data.

A snapshot is a folder `checkpoints/step-N` of safetensors and JSON, written beside its place and then renamed.
"""

import json
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

FORMAT = 1
COUNTS = ("step", "seconds", "skipped", "skipped_in_a_row", "best_loss", "evaluations_since_best")


def save(folder: Path, trainer: Trainer, keep: int) -> Path:
    """Writes the snapshot of this step, then removes all but the newest `keep`."""
    place = folder / f"step-{trainer.step}"
    with written_beside(place) as new:
        save_file(tensors_of(trainer), new / "state.safetensors")
        facts = {
            "format": FORMAT,
            "position": [trainer.position.epoch, trainer.position.step],
            "steps": trainer.steps,
        }
        facts |= {name: getattr(trainer, name) for name in COUNTS}
        (new / "state.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    for old in snapshots(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return place


def snapshots(folder: Path) -> list[Path]:
    """The snapshots of a run, the newest last."""
    found = [path for path in folder.glob("step-*") if path.name[5:].isdigit() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def restore(place: Path, trainer: Trainer) -> None:
    """Puts a trainer where a snapshot was taken."""
    try:
        facts = json.loads((place / "state.json").read_text(encoding="utf-8"))
        tensors = load_file(place / "state.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(
            f"{place} cannot be read: {error}.\nRemove it to go on from the one before."
        ) from None
    if facts.get("format") != FORMAT or facts["steps"] != trainer.steps:
        raise CheckpointError(
            f"{place} is of a run of {facts.get('steps')} steps (format {facts.get('format')}), this one has "
            f"{trainer.steps}.\nGo on with the recipe in the run folder, or start a new run."
        )
    put_back(tensors, trainer)
    trainer.position = Position(*facts["position"])
    for name in COUNTS:
        setattr(trainer, name, facts[name])


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
            # AdamW counts its steps on the CPU; all else lies beside the weight.
            optimizer.state[weight] = {
                key: value if value.ndim == 0 else value.to(weight.device) for key, value in kept.items()
            }
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
