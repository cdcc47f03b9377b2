"""The plan: what a run will be, before its first step. A recipe and its data enter; sizes, memory and time leave.

Time is measured on a few real batches with a copy of the model, so that weights and random state stay untouched.
What cannot fit is refused before memory is taken for it: first the weights, then a batch, judged by one row of it;
and before the first step, what the disk has no room for.
"""

import copy
import json
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.training import TrainingConfig
from clearhead.data.batches import Position
from clearhead.data.prepare import Prepared
from clearhead.errors import ConfigError
from clearhead.models.build import SHAPES, Model
from clearhead.training.adapters import make_learnable
from clearhead.training.disk import free_room, seconds_to_save, size, used_room
from clearhead.training.distributed import is_first, neighbours, ranks, told_by_first
from clearhead.training.shares import rows_here
from clearhead.training.trainer import Trainer, pick_device

DEFAULT_EPOCHS = 10.0  # where a recipe says neither steps, epochs nor minutes
MEASURED_STEPS = 3
PATIENCE = 10.0  # seconds of measuring after which those steps do that there are
ITSELF = (
    200_000_000  # bytes that PyTorch takes for itself and its allocator holds back: 90 to 300 MB were seen
)
STATE_COPIES = {"muon": 1.3, "adamw": 2.0}  # of the weights, that an optimizer keeps
SHARE_OF_SAVING = 0.02  # of the time, at most, even if training stood still while a checkpoint is written
SECONDS_BETWEEN_SAVES = 30.0  # at least: so much a kill may cost
BESIDES = 10_000_000  # bytes of the log, the report and the like


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

    @property
    def seconds(self) -> float:
        """How long the steps will take."""
        return self.steps * self.seconds_per_step


def model_config(run: RunConfig, data: Prepared) -> ModelConfig:
    """The model's settings with what only the data knows: sizes of the vocabularies, and the classes."""
    source, target = data.tokenizers.source.size, data.tokenizers.target.size
    if run.training.init_from is not None:  # its tables may have rows to spare
        source, target = max(source, run.model.vocabulary_encoder), max(target, run.model.vocabulary)
    changes: dict[str, object] = {"vocabulary": target}
    if run.task == "translate" and source != target:
        changes["source_vocabulary"] = source
    if run.task == "classify":
        changes |= {"head": "classifier", "classes": len(data.labels)}
        if run.model.shape == "decoder" and "pool" not in run.model.model_fields_set:
            changes["pool"] = "last"
    return run.model.replace(**changes)


def check_size(settings: ModelConfig, training: TrainingConfig) -> None:
    """Refuses a model whose weights alone do not fit, before any memory is taken for them."""
    with torch.device("meta"):
        model = SHAPES[settings.shape](settings)
    make_learnable(model, training)
    check_fits(training, lasting_bytes(training, model), free_memory(training.device), 0)


def make_plan(run: RunConfig, data: Prepared, model: Model, out: Path) -> Plan:
    """Measures a few steps, and turns epochs or minutes into steps; what does not fit is refused."""
    lasting, free = lasting_bytes(run.training, model), free_memory(run.training.device)
    check = partial(check_fits, run.training, lasting, free)
    check(0)
    disk = disk_bytes(run.training, model)
    free_disk = check_disk(run.training, disk, out)
    seconds, tokens, passing = measure(run, data, model, check)
    check(passing)
    memory = lasting + passing + ITSELF
    batches = data.batches("train", run.training.batch_tokens, run.training.seed).count(0)
    steps = count_steps(run.training, batches, seconds)
    saving = seconds_to_save(out, state_bytes(run.training, model)) if is_first() else 0.0
    every = run.training.checkpoint_every or steps_between_saves(run.training.log_every, seconds, saving)
    parameters = sum(weight.numel() for weight in model.parameters())
    plan = Plan(parameters, steps, tokens, seconds, memory, free, steps / batches, disk, free_disk, every)
    return plan if ranks() == 1 else Plan(**json.loads(told_by_first(lambda: json.dumps(asdict(plan)))))


def lasting_bytes(training: TrainingConfig, model: Model) -> int:
    """What a run keeps from step to step: weights, gradients, what the optimizer remembers, averages, the last copy."""
    learning, frozen = weight_bytes(model, True), weight_bytes(model, False)
    state = state_bytes(training, model)
    applied = {"none": 0, "exponential": 1, "last": 2}[training.average] * learning
    is_apart = pick_device(training.device).type != "cpu"  # what is saved is copied to main memory
    shards = ranks() if training.parallel == "fsdp" else 1
    return (frozen + learning + state + applied + (0 if is_apart else state)) // shards


def state_bytes(training: TrainingConfig, model: Model) -> int:
    """What a checkpoint holds: the weights that learn, what the optimizer remembers of them, their averages."""
    averages = {"none": 0, "exponential": 1, "last": training.average_last}[training.average]
    return int(weight_bytes(model, True) * (1 + STATE_COPIES[training.optimizer] + averages))


def disk_bytes(training: TrainingConfig, model: Model) -> int:
    """The most that a run folder takes: the checkpoints and one on its way; best, last and one on its way."""
    weights = weight_bytes(model, True) + weight_bytes(model, False)
    return (training.keep_checkpoints + 1) * state_bytes(training, model) + 3 * weights + BESIDES


def weight_bytes(model: Model, learns: bool) -> int:
    """The bytes of the weights that learn, or of those that do not."""
    return sum(
        weight.numel() * weight.element_size()
        for weight in model.parameters()
        if weight.requires_grad is learns
    )


def check_disk(training: TrainingConfig, needed: int, out: Path) -> int:
    """The room for a run folder, what it holds already included; too little is refused."""
    free = free_room(out) + used_room(out)
    if needed <= free:
        return free
    raise ConfigError(
        f"The run needs about {size(needed)} on the disk of {out}, and {size(free)} are free.\n"
        f"Make room, name another --out, use a smaller training.keep_checkpoints than {training.keep_checkpoints}, "
        "or a smaller model."
    )


def steps_between_saves(log_every: int, seconds_per_step: float, seconds_per_save: float) -> int:
    """How many steps apart checkpoints are, so that saving takes little of the time.

    They fall on steps that are logged anyway, so that the log does not depend on how fast the machine is.
    """
    seconds = max(seconds_per_save / SHARE_OF_SAVING, SECONDS_BETWEEN_SAVES)
    return log_every * math.ceil(seconds / (seconds_per_step * log_every))


def check_fits(training: TrainingConfig, lasting: int, free: int, passing: int) -> None:
    """Refuses a run that needs more memory than is free, and says what to change."""
    memory = lasting + passing + ITSELF
    if memory <= free:
        return
    advice = (
        "The weights and what training keeps of them do not fit. Use a smaller model, or training.average = 'none'."
        if lasting + ITSELF > free
        else f"Use a smaller training.batch_tokens than {training.batch_tokens}, or the same in parts with "
        "training.accumulate, training.recompute = true, or a smaller model."
    )
    raise ConfigError(
        f"The run needs about {memory / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free.\n{advice}"
    )


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


def measure(
    run: RunConfig, data: Prepared, model: Model, check: Callable[[int], None]
) -> tuple[float, int, int]:
    """Seconds and tokens of a step, and the bytes that come and go in it, from a few real batches.

    `check` hears what a batch will need before the first whole one is tried.
    """
    patient = run.replace(
        training=run.training.replace(most_skipped=MEASURED_STEPS + 3)
    )  # the run itself may end
    with torch.random.fork_rng():
        trial = Trainer(patient, data, copy.deepcopy(model), steps=MEASURED_STEPS + 2)
        held = Held(trial.model)
        seconds, tokens = [], []
        for step in range(MEASURED_STEPS + 1):
            batch = trial.batches.at(Position(0, step % trial.batches.count(0))).to(trial.device)
            if step == 0:
                with held, held.running_again():
                    trial.update(batch.share(0, batch.rows))
                shares = min(ranks() * run.training.accumulate, batch.rows)
                rows = -(-batch.rows // shares)
                held.again *= rows
                check(held.most * rows)
            started = time.perf_counter()
            with held:
                trial.update(batch)
            seconds.append(time.perf_counter() - started)
            tokens.append(batch.tokens)
            if sum(seconds) > PATIENCE and ranks() == 1:  # several must take the same steps
                break
    seconds = sorted(seconds[1:] or seconds)  # the first one warms up
    return seconds[len(seconds) // 2], sum(tokens) // len(tokens), held.most


class Held:
    """Counts the most bytes that a pass takes besides the weights, inside a `with`; `again` are those of a block.

    Autograd keeps tensors for the backward pass. Where blocks keep only their input, the backward pass runs one
    after the other again, and takes what that one keeps.
    """

    def __init__(self, model: Model) -> None:
        self.weights = {rows_here(weight).untyped_storage().data_ptr() for weight in model.parameters()}
        self.recomputed = [part for part in model.modules() if isinstance(part.forward, partial)]
        self.kept = Kept(self.weights)
        self.most = self.again = 0
        self.hooks = saved_tensors_hooks(self.keep, lambda X: X)
        model.register_forward_pre_hook(lambda module, given: self.clear())

    def keep(self, X: torch.Tensor) -> torch.Tensor:
        """Counts what is kept, and what is there besides when it is most."""
        self.kept.add(X)
        self.most = max(self.most, self.kept.count + max(self.kept.in_use, self.again))
        return X

    def clear(self) -> None:
        """Begins a forward pass: what the last one kept is gone."""
        self.kept = Kept(self.weights)

    @contextmanager
    def running_again(self) -> Iterator[None]:
        """Runs every recomputed block once more as it is met, to see what it keeps."""
        hooks = [part.register_forward_pre_hook(self.run, with_kwargs=True) for part in self.recomputed]
        yield
        for hook in hooks:
            hook.remove()

    def run(self, block: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Runs a block as the backward pass will."""
        inside, forward = Kept(self.weights), block.forward
        assert isinstance(forward, partial)  # the first argument of `checkpoint` is what it runs again
        with saved_tensors_hooks(inside.add, lambda X: X):
            forward.args[0](*given, **named)
        self.again = max(self.again, inside.count + inside.in_use)

    def __enter__(self) -> None:
        self.hooks.__enter__()

    def __exit__(self, *error: object) -> None:
        self.hooks.__exit__(*error)


class Kept:
    """Counts the bytes of tensors, each once however often it is used, and none in these places."""

    def __init__(self, places: Collection[int]) -> None:
        self.places = set(places)
        self.count = self.largest = 0

    @property
    def in_use(self) -> int:
        """What is there besides: the largest, the logits as a rule, once more as such and once as a gradient."""
        return 2 * self.largest

    def add(self, X: torch.Tensor) -> torch.Tensor:
        """Counts a tensor."""
        storage = X.untyped_storage()
        if storage.data_ptr() not in self.places:
            self.places.add(storage.data_ptr())
            self.count, self.largest = self.count + storage.nbytes(), max(self.largest, storage.nbytes())
        return X


def free_memory(device: str = "cpu") -> int:
    """Bytes of memory that are free on a device."""
    if pick_device(device).type == "cuda":
        return torch.cuda.mem_get_info()[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(free, free_in_container()) // neighbours()


def free_in_container(folder: Path = Path("/sys/fs/cgroup")) -> int:
    """What a container's limit leaves, where there is one; kept copies of files give way when memory is needed."""
    try:
        limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return sys.maxsize if limit == "max" else int(limit) - int(used) + int(facts.get("file", 0))
    except (OSError, ValueError):
        return sys.maxsize
