"""The models of a run after some of its steps, weights only: training writes them, the explorer scrubs through them.

    RUN/models/step-N.safetensors    the weights after N steps; its metadata has N and the training loss before it

Settings and tokenizers are those of the model folder beside them, and so are the names of the weights.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from clearhead.errors import ModelFolderError
from clearhead.folder_files import why_unreadable
from clearhead.model_folder import Bundle, read_weights, weights_of
from clearhead.models.int8 import pack
from clearhead.storage import atomic_file

MODELS = "models"  # the folder, in a run or in a model folder
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class KeptModel:
    """The weights after a step, and the mean training loss of the steps before it, if there were any."""

    step: int
    loss: float | None
    path: Path


def kept_steps(count: int, steps: int) -> set[int]:
    """After which steps a run keeps models: before the first, after the last, and between them more early ones."""
    return {round(steps * (place / max(1, count - 1)) ** 2) for place in range(count)}


def keep_model(folder: Path, bundle: Bundle, step: int, loss: float | None) -> Path:
    """Writes the weights of a model into the folder of a run, or of a model; of an int8 model in int8."""
    place = folder / MODELS / f"step-{step}{SUFFIX}"
    place.parent.mkdir(parents=True, exist_ok=True)
    facts = {"format": "pt", "step": str(step)} | ({} if loss is None else {"loss": repr(loss)})
    weights = pack(bundle.module) if bundle.is_int8 else weights_of(bundle.module)
    with atomic_file(place, is_durable=False) as new:
        new.write_bytes(save(weights, metadata=facts))
    return place


def kept_models(folder: Path) -> list[KeptModel]:
    """The models that were kept beside a model folder, or in a run folder, by step."""
    places = [folder, *([folder.parent] if folder.name in ("best", "last") else [])]
    found = [path for place in places for path in (place / MODELS).glob(f"step-*{SUFFIX}")]
    return sorted(map(read_facts, found), key=lambda one: one.step)


def read_facts(path: Path) -> KeptModel:
    """What the metadata of a kept model says."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = file.metadata() or {}
        return KeptModel(int(facts["step"]), float(facts["loss"]) if "loss" in facts else None, path)
    except SafetensorError as error:
        raise ModelFolderError(f"{path} {why_unreadable(path, error)}") from None
    except (KeyError, ValueError):
        raise ModelFolderError(
            f"{path} does not say after which step it was kept.\nRemove it, or keep it again with training.keep_models."
        ) from None


def load_kept(bundle: Bundle, kept: KeptModel) -> Bundle:
    """The model as it was after that step."""
    module, is_int8 = read_weights(kept.path, bundle.config, torch.float32)
    return replace(bundle, module=module, is_int8=is_int8)
