"""The plan: a recipe and its data enter; steps, memory, disk and time of the run leave, before its first step.

Whatever does not fit is rejected before memory is allocated for it: first the weights, then a batch, judged by one
row of it, and then what the disk has no room for.
"""

import json
import logging
import math
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from clearhead.config.model_base import AnyModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.training import Precision, TrainingConfig
from clearhead.data.prepare import Prepared
from clearhead.machine.load import is_busy, usable_cores
from clearhead.models.model import Model
from clearhead.text.tokenizers.token_bytes import word_breaks
from clearhead.training.distributed.ranks import broadcast_from_first, is_first, ranks
from clearhead.training.run import requirements
from clearhead.training.run.allocations import release_memory
from clearhead.training.run.disk import seconds_to_save
from clearhead.training.run.trial_steps import take_trial_steps

log = logging.getLogger(__name__)

DEFAULT_EPOCHS = 10.0  # if a recipe gives neither steps, epochs nor minutes
SHARE_OF_SAVING = 0.02  # of the time, at most, even if training stood still while a checkpoint is written
SECONDS_BETWEEN_SAVES = 30.0  # at least: so much a kill may cost
UNSTEADY = 1.5  # times the fastest step


@dataclass(frozen=True)
class Plan:
    """What a run will be."""

    parameters: int
    steps: int
    tokens_per_step: int
    seconds_per_step: float
    memory_bytes: int  # an estimate of the peak
    free_bytes: int
    epochs: float
    disk_bytes: int  # the most that the run folder takes
    free_disk_bytes: int
    checkpoint_every: int
    trial_steps: int  # that were measured
    fastest_step: float  # seconds that a tenth of them took at most
    slowest_step: float  # seconds that a tenth of them exceeded
    busy_cores: float | None  # that other programs used meanwhile, if that is known
    precision: Precision = "float32"  # number format of the forward pass
    bfloat16_gain: float | None = (
        None  # times the speed of float32 that bfloat16 has here, if that was measured
    )

    @property
    def seconds(self) -> float:
        """How long the steps will take."""
        return self.steps * self.seconds_per_step

    @property
    def is_steady(self) -> bool:
        """Whether the trial steps took about the same time."""
        return self.slowest_step <= UNSTEADY * self.fastest_step


def model_config(run: RunConfig, data: Prepared) -> AnyModelConfig:
    """The model's settings with what only the data determines: sizes of the vocabularies, number of classes."""
    source, target = data.tokenizers.source.size, data.tokenizers.target.size
    if run.training.init_from is not None:  # its tables may have spare rows
        source, target = max(source, run.model.vocabulary_encoder), max(target, run.model.vocabulary)
    changes: dict[str, object] = {"vocabulary": target}
    if run.kind == "pair" and source != target:
        changes["source_vocabulary"] = source
    if getattr(run.model, "ngram_words", 0):
        changes["word_breaks"] = word_breaks(data.tokenizers.target)
    if run.kind == "labelled":
        changes |= {"head": "classifier", "classes": len(data.labels)}
        changes |= {"labels": run.data.labels, "texts": run.data.texts}
        if run.model.shape == "decoder" and "pool" not in run.model.model_fields_set:
            changes["pool"] = "last"
    return run.model.replace(**changes)


def make_plan(run: RunConfig, data: Prepared, model: Model, out: Path) -> Plan:
    """Takes trial steps, and turns epochs or minutes into steps; rejects what does not fit."""
    training = run.training
    lasting, free = requirements.lasting_bytes(training, model), requirements.free_memory(training.device)
    check = partial(requirements.check_fits, training, lasting, free)
    check(requirements.weight_bytes(model, True))  # the gradients
    disk = requirements.disk_bytes(training, model)
    free_disk = requirements.check_disk(training, disk, out)
    step = take_trial_steps(run, data, model, check)
    release_memory()
    passing = max(step.bytes, requirements.saving_bytes(training, model))
    check(passing)
    batches = data.batches("train", training.batch_tokens, training.seed).count(0)
    steps = count_steps(training, batches, step.seconds)
    saving = seconds_to_save(out, requirements.state_bytes(training, model)) if is_first() else 0.0
    plan = Plan(
        parameters=sum(weight.numel() for weight in model.parameters()),
        steps=steps,
        tokens_per_step=step.tokens,
        seconds_per_step=step.seconds,
        memory_bytes=lasting + int(passing * requirements.ALLOCATOR) + requirements.RUNTIME_BYTES,
        free_bytes=free,
        epochs=steps / batches,
        disk_bytes=disk,
        free_disk_bytes=free_disk,
        checkpoint_every=training.checkpoint_every
        or steps_between_saves(training.log_every, step.seconds, saving),
        trial_steps=len(step.times),
        fastest_step=step.quantile(0.1),
        slowest_step=step.quantile(0.9),
        busy_cores=step.others,
        precision=step.precision,
        bfloat16_gain=step.gain,
    )
    if is_first():
        warn_if_busy(plan, training)
    return (
        plan if ranks() == 1 else Plan(**json.loads(broadcast_from_first(lambda: json.dumps(asdict(plan)))))
    )


def warn_if_busy(plan: Plan, training: TrainingConfig) -> None:
    """Warns that other programs slowed the trial steps down, so that the plan depends on what they do next."""
    if not is_busy(plan.busy_cores, training.threads or torch.get_num_threads()):
        return
    consequence = (
        "The number of steps was computed from this speed: plan again when the machine is idle, or set training.steps."
        if training.steps is None and training.minutes is not None
        else "The run will be faster once they end."
    )
    log.warning(
        "The machine is busy: other programs used %.1f of %d cores during the trial steps. %s",
        plan.busy_cores,
        len(usable_cores()),
        consequence,
    )


def count_steps(training: TrainingConfig, batches: int, seconds: float) -> int:
    """The number of steps that the settings ask for."""
    if training.steps is not None:
        return training.steps
    limits = []
    if training.minutes is not None:
        limits.append(int(training.minutes * 60 / seconds))
    if training.epochs is not None or training.minutes is None:
        limits.append(round((training.epochs or DEFAULT_EPOCHS) * batches))
    return max(1, min(limits))


def steps_between_saves(log_every: int, seconds_per_step: float, seconds_per_save: float) -> int:
    """How many steps apart checkpoints are, so that saving takes little of the time.

    They fall on steps that are logged anyway, so that the log does not depend on how fast the machine is.
    """
    seconds = max(seconds_per_save / SHARE_OF_SAVING, SECONDS_BETWEEN_SAVES)
    return log_every * math.ceil(seconds / (seconds_per_step * log_every))
