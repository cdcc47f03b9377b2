"""What a snapshot says of its run, as JSON: counts, the place in the data, what must be the same, what may change bits.

A trainer enters, facts leave; and facts of before are compared with a trainer of now.
"""

import logging
import math
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clearhead import __version__
from clearhead.checkpoint import some
from clearhead.config.run import RunConfig
from clearhead.data.batches import Position
from clearhead.data.cache import key_of
from clearhead.errors import CheckpointError, ConfigError
from clearhead.training.distributed import ranks
from clearhead.training.shares import whole
from clearhead.training.trainer import Trainer, pick_precision, should_compile

log = logging.getLogger(__name__)

FORMAT = 4
COUNTS = ("step", "seconds", "skipped", "skipped_in_a_row", "best_loss", "evaluations_since_best")
Facts = dict[str, Any]


def facts_of(trainer: Trainer, run: Facts) -> Facts:
    """Everything of a trainer that is no tensor; `run` is its identity."""
    facts = {"format": FORMAT, "run": run, "surroundings": surroundings(trainer)}
    facts["settings"] = tomllib.loads(trainer.run.to_toml())
    facts |= {"position": [trainer.position.epoch, trainer.position.step]}
    facts |= {name: getattr(trainer, name) for name in COUNTS}
    if not math.isfinite(trainer.best_loss):
        facts["best_loss"] = None  # JSON has no infinity
    return facts


def settings_of(facts: Facts) -> RunConfig | None:
    """The settings of the run until a snapshot; None where it does not say, or in words of another version."""
    try:
        return RunConfig.model_validate(facts["settings"])
    except (KeyError, ConfigError):
        return None


def check_start(facts: Facts, trainer: Trainer) -> None:
    """Refuses another model to start from where all that learns has begun; frozen weights may have moved."""
    settings, now = settings_of(facts), trainer.training.init_from
    before = settings.training.init_from if settings else now
    if now != before and all(weight.requires_grad for weight in trainer.model.parameters()):
        raise ConfigError(
            f"training.init_from = {now!r}: the run has begun, from {before or 'random weights'}.\n"
            "Leave it as it was to go on, or begin a new run with it."
        )


def identity(trainer: Trainer) -> Facts:
    """What must be the same for a run to go on as if it had never stopped."""
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
    """A name for the contents of a split."""
    shards = trainer.data.splits.get(split)
    return key_of({name: facts.sha256 for name, facts in shards.files.items()}) if shards else None


def frozen_key(model: nn.Module) -> str | None:
    """A name for the weights that do not learn."""
    frozen = [(name, weight) for name, weight in model.named_parameters() if not weight.requires_grad]
    digest = sha256()
    for name, weight in frozen:
        digest.update(name.encode())
        digest.update(whole(weight.detach()).cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest() if frozen else None


def check_same(place: Path, theirs: Facts, ours: Facts) -> None:
    """Refuses a snapshot of another run, and says what differs and what to do."""
    for name, value in ours.items():
        if theirs.get(name) == value or (name == "tokenizers" and name not in theirs):  # old ones do not say
            continue
        if name.endswith("data"):
            raise CheckpointError(
                f"The {name} is not what {place} was trained on: its files, or how they are read, have changed since.\n"
                "Put them back as they were to go on. Or begin a new run on the new data from the model that is "
                f"there: --training.init_from {place.parent.parent / 'best'}."
            )
        if name == "tokenizers":
            raise CheckpointError(
                f"{place} goes with another tokenizer than this one: the same ids would mean other texts.\n"
                "Put back tokenizer.json of the model in training.init_from, or the data and the settings that it was "
                "made from."
            )
        if name == "frozen weights":
            raise CheckpointError(
                f"{place} goes with other frozen weights than these: the model in training.init_from has changed, "
                "or other parts are frozen.\nPut back the model and the recipe that the run began with."
            )
        what = difference(theirs[name], value) if name == "weights" else f"{name} = {theirs.get(name)}"
        mine = "" if name == "weights" else f", while this one has {value}"
        raise CheckpointError(
            f"{place} is of a run with {what}{mine}.\n"
            "Go on with the recipe and the data of that run, or begin a new one."
        )


def difference(theirs: dict[str, list[int]], ours: dict[str, list[int]]) -> str:
    """In which weights that learn two runs differ."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return f"other weights that learn: they differ in {some(names)}"


def surroundings(trainer: Trainer) -> Facts:
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


def compare(then: Facts, now: Facts) -> None:
    """Says what has changed around a run, where that may change its bits."""
    changes = [
        f"{name} was {then.get(name)} and is {now[name]}" for name in now if then.get(name) != now[name]
    ]
    if changes:
        log.warning(
            "The run goes on, but may not end with the same bits as one that never stopped: %s.",
            ", ".join(changes),
        )


def numbers_of(facts: Facts, taken_at: int, trainer: Trainer) -> tuple[dict[str, float], Position]:
    """The counts of a snapshot that was taken at a step, and its place in the data, if a run can have come to them."""
    epoch, at = facts["position"]
    counts, step = {name: facts[name] for name in COUNTS}, facts["step"]
    if step != taken_at or step > trainer.steps:
        raise ValueError(f"step = {step!r} of {trainer.steps}")
    for name, value in (counts | {"epoch": epoch, "position": at}).items():
        if name in ("seconds", "best_loss"):
            is_sound = math.isfinite(value) if value is not None else name == "best_loss"
        else:  # a step has at most one batch, one evaluation and one reason to be skipped
            is_sound = type(value) is int and 0 <= value <= step
        if not is_sound:
            raise ValueError(f"{name} = {value!r}")
    if counts["best_loss"] is None:
        counts["best_loss"] = math.inf
    if not trainer.batches.plan.has(epoch, at):
        raise ValueError(f"epoch {epoch} has no batch {at}")
    return counts, Position(epoch, at)
