"""The plan: what a run will be, before its first step. A recipe and its data enter; sizes, memory and time leave.

Time is measured on a few real batches with a copy of the model, so that weights and random state stay untouched.
"""

import copy
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.training import TrainingConfig
from clearhead.data.batches import Position
from clearhead.data.prepare import Prepared
from clearhead.errors import ConfigError
from clearhead.models.build import Model
from clearhead.training.trainer import Trainer

DEFAULT_EPOCHS = 10.0  # where a recipe says neither steps, epochs nor minutes
MEASURED_STEPS = 3
STATE_COPIES = {"muon": 1.3, "adamw": 2.0}  # of the weights, that an optimizer keeps


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

    @property
    def seconds(self) -> float:
        """How long the steps will take."""
        return self.steps * self.seconds_per_step


def model_config(run: RunConfig, data: Prepared) -> ModelConfig:
    """The model's settings with what only the data knows: sizes of the vocabularies, and the classes."""
    source, target = data.tokenizers.source, data.tokenizers.target
    changes: dict[str, object] = {"vocabulary": target.size}
    if run.task == "translate" and source.size != target.size:
        changes["source_vocabulary"] = source.size
    if run.task == "classify":
        changes |= {"head": "classifier", "classes": len(data.labels)}
        if run.model.shape == "decoder" and "pool" not in run.model.model_fields_set:
            changes["pool"] = "last"
    return run.model.replace(**changes)


def make_plan(run: RunConfig, data: Prepared, model: Model) -> Plan:
    """Measures a few steps, and turns epochs or minutes into steps."""
    seconds, tokens, activations = measure(run, data, model)
    batches = data.batches("train", run.training.batch_tokens, run.training.seed).count(0)
    steps = count_steps(run.training, batches, seconds)
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    state = STATE_COPIES[run.training.optimizer]
    averaged = {"none": 0, "exponential": 1, "last": run.training.average_last}[run.training.average]
    memory = int(weights * (2 + state + averaged) + activations)
    plan = Plan(
        sum(w.numel() for w in model.parameters()),
        steps,
        tokens,
        seconds,
        memory,
        free_memory(),
        steps / batches,
    )
    if plan.memory_bytes > plan.free_bytes:
        raise ConfigError(
            f"The run needs about {plan.memory_bytes / 1e9:.1f} GB of memory, and {plan.free_bytes / 1e9:.1f} GB "
            f"are free.\n"
            f"Use a smaller training.batch_tokens than {run.training.batch_tokens}, or the same in parts with "
            "training.accumulate, training.recompute = true, or a smaller model."
        )
    return plan


def count_steps(training: TrainingConfig, batches: int, seconds: float) -> int:
    """How many steps the settings mean."""
    if training.steps is not None:
        return training.steps
    limits = []
    if training.minutes is not None:
        limits.append(int(training.minutes * 60 / seconds))
    if training.epochs is not None or training.minutes is None:
        limits.append(round((training.epochs or DEFAULT_EPOCHS) * batches))
    return max(1, min(limits))


def measure(run: RunConfig, data: Prepared, model: Model) -> tuple[float, int, int]:
    """Seconds and tokens of a step, and an estimate of the bytes of activations, from a few real batches."""
    with torch.random.fork_rng():
        trial = Trainer(run, data, copy.deepcopy(model), steps=MEASURED_STEPS + 1)
        held = [0]

        def count(X: torch.Tensor) -> torch.Tensor:
            held[0] += X.numel() * X.element_size()
            return X

        seconds, tokens = [], []
        for step in range(MEASURED_STEPS + 1):
            batch = trial.batches.at(Position(0, step % trial.batches.count(0))).to(trial.device)
            started, held[0] = time.perf_counter(), 0
            with torch.autograd.graph.saved_tensors_hooks(count, lambda X: X):
                trial.update(batch)
            seconds.append(time.perf_counter() - started)
            tokens.append(batch.tokens)
    seconds = sorted(seconds[1:])  # the first one warms up
    return seconds[len(seconds) // 2], sum(tokens) // len(tokens), held[0]


def free_memory() -> int:
    """Bytes of memory that are free."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
