"""What must be equal to resume a run, and what may change but affects its bits.

A trainer becomes a description; that of a checkpoint is compared with that of the trainer that resumes it.
"""

import logging
import shlex
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clearhead import __version__
from clearhead.data.cache import key_of
from clearhead.errors import CheckpointError, ConfigError, first_few
from clearhead.training.checkpoints.metadata import Metadata, settings_of
from clearhead.training.distributed.collectives import full_tensor
from clearhead.training.distributed.ranks import ranks
from clearhead.training.loop.device import pick_precision, should_compile
from clearhead.training.loop.trainer import Trainer

log = logging.getLogger(__name__)

NEW = ("tokenizers", "model.family")  # that old checkpoints do not have


def identity_of(trainer: Trainer) -> Metadata:
    """What must be equal for a run to resume as if it had never stopped."""
    training, tokenizers = trainer.training, trainer.data.tokenizers
    weights = trainer.model.named_parameters()
    model = trainer.run.model.model_dump(mode="json", exclude={"dropout", "attention_dropout"})
    return {
        "steps": trainer.steps,
        "training.batch_tokens": training.batch_tokens,
        "training.seed": training.seed,
        "training.optimizer": training.optimizer,
        "training.average": training.average,
        "training data": data_key(trainer, "train"),
        "validation data": data_key(trainer, "validation"),
        "tokenizers": [each.digest for each in (tokenizers.target, tokenizers.source)],
        **{f"model.{key}": value for key, value in model.items()},
        "training.lora_scale": training.lora_scale,
        "weights": {name: list(weight.shape) for name, weight in weights if weight.requires_grad},
        "frozen weights": frozen_key(trainer.model),
    }


def data_key(trainer: Trainer, split: Any) -> str | None:
    """A hash of the contents of a split."""
    shards = trainer.data.splits.get(split)
    return key_of({name: facts.sha256 for name, facts in shards.files.items()}) if shards else None


def frozen_key(model: nn.Module) -> str | None:
    """A hash of the frozen weights."""
    frozen = [(name, weight) for name, weight in model.named_parameters() if not weight.requires_grad]
    digest = sha256()
    for name, weight in frozen:
        digest.update(name.encode())
        digest.update(full_tensor(weight.detach()).cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest() if frozen else None


def check_same_run(checkpoint: Path, theirs: Metadata, ours: Metadata) -> None:
    """Refuses a checkpoint of another run; the message says what differs and what to do."""
    for name, value in ours.items():
        if theirs.get(name) == value or (name in NEW and name not in theirs):
            continue
        if name.endswith("data"):
            raise CheckpointError(
                f"{checkpoint} was trained on other {name}: the files, or how they are read, have changed since.\n"
                "Restore them to resume. Or start a new run on the new data from the model of this one: "
                f"--training.init_from {shlex.quote(str(checkpoint.parent.parent / 'best'))}"
            )
        if name == "tokenizers":
            raise CheckpointError(
                f"{checkpoint} was trained with another tokenizer: the same ids would mean other texts.\n"
                "Restore tokenizer.json of the model in training.init_from, or the data and the settings that the "
                "tokenizer was trained with."
            )
        if name == "frozen weights":
            raise CheckpointError(
                f"{checkpoint} was trained with other frozen weights: the model in training.init_from has changed, "
                "or other parts are frozen.\nRestore the model and the recipe that the run started with."
            )
        if name == "steps":
            raise CheckpointError(
                f"{checkpoint} belongs to a run of {theirs.get(name)} steps, which cannot become {value}.\n"
                "A run can be extended once it has finished: resume it without training.steps first. Or start a new "
                f"run from its model: --training.init_from {shlex.quote(str(checkpoint.parent.parent / 'best'))}"
            )
        what = difference(theirs[name], value) if name == "weights" else f"{name} = {theirs.get(name)}"
        mine = "" if name == "weights" else f", while this one has {value}"
        raise CheckpointError(
            f"{checkpoint} belongs to a run with {what}{mine}.\n"
            "Resume with the recipe and the data of that run, or start a new one."
        )


def is_extended(metadata: Metadata, trainer: Trainer) -> bool:
    """Whether a checkpoint is the end of a run that is now to have more steps."""
    settings, steps = settings_of(metadata), metadata["run"]["steps"]
    patience = settings.training.patience if settings else None
    has_stalled = patience is not None and metadata["evaluations_since_best"] >= patience
    return bool(steps < trainer.steps and (metadata["step"] == steps or has_stalled))


def report_extension(trainer: Trainer, steps: int) -> None:
    """Says which learning rate an extended run continues with."""
    before, now = (
        schedule(trainer.step) for schedule in (replace(trainer.schedule, steps=steps), trainer.schedule)
    )
    log.warning(
        "The run is extended at step %s from %s to %s steps. Its learning rate now follows the schedule of %s steps: "
        "%.3g %% of the peak at this step, instead of %.3g %%.",
        *(f"{count:,}" for count in (trainer.step, steps, trainer.steps, trainer.steps)),
        100 * now,
        100 * before,
    )


def difference(theirs: dict[str, list[int]], ours: dict[str, list[int]]) -> str:
    """In which trained weights two runs differ."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return f"other trained weights: they differ in {first_few(names)}"


def check_init_from(metadata: Metadata, trainer: Trainer) -> None:
    """Refuses another model to start from if all weights are in the checkpoint; frozen ones may have moved."""
    settings, now = settings_of(metadata), trainer.training.init_from
    before = settings.training.init_from if settings else now
    if now != before and all(weight.requires_grad for weight in trainer.model.parameters()):
        raise ConfigError(
            f"training.init_from = {now!r}: the run has already started, from {before or 'random weights'}.\n"
            "Leave it unchanged to resume, or start a new run with it."
        )


def environment_of(trainer: Trainer) -> Metadata:
    """What the bits of a run depend on besides its recipe and its data."""
    return {
        "clearhead": __version__,
        "torch": torch.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "device": trainer.device.type,
        "ranks": ranks(),
        "threads": torch.get_num_threads(),
        "precision": pick_precision(trainer.training, trainer.device),
        "compiled": should_compile(trainer.training, trainer.device),
    }


def warn_of_changes(then: Metadata, now: Metadata) -> None:
    """Warns if the environment of a run has changed so that its bits may change."""
    changes = [
        f"{name} was {then.get(name)} and is {now[name]}" for name in now if then.get(name) != now[name]
    ]
    if changes:
        log.warning(
            "The run resumes, but may not end with the same bits as one that never stopped: %s.",
            ", ".join(changes),
        )
