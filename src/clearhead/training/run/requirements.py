"""What a run requires: a model and settings enter; bytes of memory and disk leave, or an error if they are not free."""

import os
import sys
from pathlib import Path

import torch

from clearhead.config.model_base import AnyModelConfig
from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError
from clearhead.models.build import empty
from clearhead.models.model import Model
from clearhead.training.distributed.ranks import local_ranks, ranks
from clearhead.training.loop.adapters import freeze_weights
from clearhead.training.loop.device import pick_device
from clearhead.training.run.disk import format_bytes, free_room, used_room

RUNTIME_BYTES = (
    400_000_000  # of PyTorch and other libraries: 260 MB at the start, and the rest in the first steps
)
ALLOCATOR = 1.25  # times what tensors take: freed memory stays between those that remain (plan_memory.py)
STATE_COPIES = {"muon": 1.3, "adamw": 2.0}  # of the weights, that an optimizer keeps
OTHER_FILES = 10_000_000  # bytes of the log, the report and the like


def check_size(settings: AnyModelConfig, training: TrainingConfig) -> None:
    """Rejects a model whose weights alone do not fit, before any memory is allocated for them."""
    model = empty(settings)
    freeze_weights(model, training)
    check_fits(
        training, lasting_bytes(training, model), free_memory(training.device), weight_bytes(model, True)
    )


def check_fits(training: TrainingConfig, lasting: int, free: int, passing: int) -> None:
    """Rejects a run that needs more memory than is free, with advice."""
    memory = lasting + int(passing * ALLOCATOR) + RUNTIME_BYTES
    if memory <= free:
        return
    advice = (
        "The weights and the optimizer state do not fit. Use a smaller model, or training.average = 'none'."
        if lasting + RUNTIME_BYTES > free
        else f"Use a training.batch_tokens below {training.batch_tokens}, training.accumulate to split batches, "
        "training.recompute = true, or a smaller model."
    )
    raise ConfigError(
        f"The run needs about {memory / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB is free.\n{advice}"
    )


def lasting_bytes(training: TrainingConfig, model: Model) -> int:
    """What stays in memory from step to step: weights, optimizer state, averages, the copy being saved."""
    learning, frozen = weight_bytes(model, True), weight_bytes(model, False)
    state = state_bytes(training, model)
    applied = {"none": 0, "exponential": 1, "last": 2}[training.average] * learning
    is_apart = pick_device(training.device).type != "cpu"  # what is saved is copied to main memory
    shards = ranks() if training.parallel == "fsdp" else 1
    return (frozen + state + applied + (0 if is_apart else state)) // shards


def saving_bytes(training: TrainingConfig, model: Model) -> int:
    """What is allocated while a model folder is written: its bytes and, with adapters, the merged weights."""
    weights = weight_bytes(model, True) + weight_bytes(model, False)
    return weights if training.lora_rank is None else 2 * weights


def state_bytes(training: TrainingConfig, model: Model) -> int:
    """The size of a checkpoint: the trainable weights, their optimizer state, their averages."""
    averages = {"none": 0, "exponential": 1, "last": training.average_last}[training.average]
    return int(weight_bytes(model, True) * (1 + STATE_COPIES[training.optimizer] + averages))


def weight_bytes(model: Model, learns: bool) -> int:
    """The bytes of the trainable weights, or of the frozen ones."""
    return sum(
        weight.numel() * weight.element_size()
        for weight in model.parameters()
        if weight.requires_grad is learns
    )


def free_memory(device: str = "cpu") -> int:
    """Bytes of free memory on a device."""
    if pick_device(device).type == "cuda":
        return torch.cuda.mem_get_info()[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(free, free_in_container()) // local_ranks()


def free_in_container(folder: Path = Path("/sys/fs/cgroup")) -> int:
    """What a container's limit leaves, if it has one; the page cache counts as free."""
    try:
        limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return sys.maxsize if limit == "max" else int(limit) - int(used) + int(facts.get("file", 0))
    except (OSError, ValueError):
        return sys.maxsize


def disk_bytes(training: TrainingConfig, model: Model) -> int:
    """The most that a run folder takes: checkpoints, best and last, of each one being written, and the kept models."""
    weights = weight_bytes(model, True) + weight_bytes(model, False)
    models = (3 + training.keep_models) * weights
    return (training.keep_checkpoints + 1) * state_bytes(training, model) + models + OTHER_FILES


def check_disk(training: TrainingConfig, needed: int, out: Path) -> int:
    """The bytes that a run folder may take, its present contents included; rejects a disk with too few."""
    free = free_room(out) + used_room(out)
    if needed <= free:
        return free
    raise ConfigError(
        f"The run needs about {format_bytes(needed)} on the disk of {out}, and {format_bytes(free)} is free.\n"
        f"Free some space, name another --out, or use a training.keep_checkpoints below {training.keep_checkpoints} or "
        "a smaller model."
    )
