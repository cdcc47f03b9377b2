"""What a trainer runs on: settings and machine give a device, a precision, and whether to compile."""

from contextlib import AbstractContextManager, nullcontext

import torch

from clearhead.config.training import Precision, TrainingConfig
from clearhead.errors import ConfigError
from clearhead.training.distributed.ranks import ranks


def pick_device(name: str) -> torch.device:
    """The device of this name; auto takes the first available of cuda, mps and cpu."""
    is_available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if not is_available.get(name, True):
        raise ConfigError(
            f"training.device = '{name}', but PyTorch finds no such device here.\nUse 'auto' or 'cpu'."
        )
    return torch.device(next(kind for kind in is_available if is_available[kind]) if name == "auto" else name)


def pick_precision(training: TrainingConfig, device: torch.device) -> Precision:
    """The number format of the forward pass; for auto, bfloat16 on a GPU that does not emulate it.

    On a CPU the plan measures both, and gives the trainer the faster one in place of auto.
    """
    if training.precision != "auto":
        return training.precision
    is_fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if is_fast else "float32"


def autocast(training: TrainingConfig, device: torch.device) -> AbstractContextManager[None]:
    """Runs the matrix products of a forward pass in the precision that is picked."""
    precision = pick_precision(training, device)
    return nullcontext() if precision == "float32" else torch.autocast(device.type, getattr(torch, precision))


def should_compile(training: TrainingConfig, device: torch.device) -> bool:
    """Whether to compile the forward pass."""
    is_sharded = training.parallel == "fsdp" and ranks() > 1
    return training.compile == "on" or (
        training.compile == "auto" and device.type == "cuda" and not is_sharded
    )
