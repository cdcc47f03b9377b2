"""The tensors of a checkpoint: trained weights, optimizer states, averages and random number generators, by name."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.training.checkpoints.sharded import StoredTensor
from clearhead.training.distributed.collectives import all_gather, distribute_like
from clearhead.training.distributed.ranks import rank
from clearhead.training.loop.trainer import Trainer


def collect_tensors(trainer: Trainer) -> dict[str, Tensor]:
    """Every tensor of a trainer's state by name; of a sharded one, this rank's rows."""
    tensors: dict[str, Tensor] = {f"weights.{name}": W for name, W in trained_weights(trainer.model).items()}
    for number, name, state in optimizer_states(trainer):
        tensors |= {f"optimizer.{number}.{name}.{key}": value for key, value in state.items()}
    tensors |= {f"average.{name}": value for name, value in trainer.average.state().items()}
    tensors["random.cpu"] = all_gather(torch.get_rng_state())  # (ranks, bytes)
    if trainer.device.type == "cuda":
        tensors["random.cuda"] = all_gather(torch.cuda.get_rng_state(trainer.device))
    return tensors


def load_tensors(tensors: Mapping[str, StoredTensor], trainer: Trainer) -> None:
    """The reverse of `collect_tensors`, for any number of ranks: each reads only its rows."""
    names = {}
    with torch.no_grad():
        for name, weight in trained_weights(trainer.model).items():
            weight.copy_(distribute_like(check_shape(tensors[f"weights.{name}"], weight), weight))
            names[id(weight)] = name
    for number, optimizer in enumerate(trainer.optimizers):
        for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
            state = with_prefix(f"optimizer.{number}.{names[id(weight)]}.", tensors)
            optimizer.state[weight] = {
                key: distribute_like(check_shape(value, weight), weight) for key, value in state.items()
            }
    trainer.average.restore(with_prefix("average.", tensors))
    if rank() < tensors["random.cpu"].shape[0]:  # a rank that did not exist before starts with its own seed
        mine = slice(rank(), rank() + 1)
        torch.set_rng_state(tensors["random.cpu"][mine].clone()[0])  # a view of another row is misread
        if "random.cuda" in tensors and trainer.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"][mine].clone()[0], trainer.device)


def check_shape(tensor: StoredTensor, weight: Tensor) -> StoredTensor:
    """A tensor that belongs to a weight: it has its shape or is one number, as a count of steps is."""
    if tuple(tensor.shape) not in (tuple(weight.shape), ()):
        raise ValueError(f"a tensor of shape {tensor.shape} for a weight of {tuple(weight.shape)}")
    return tensor


def trained_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that are trained, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def with_prefix(prefix: str, tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """The tensors whose names start with a prefix, by the rest of their names."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def optimizer_states(trainer: Trainer) -> list[tuple[int, str, dict[str, Any]]]:
    """The number of an optimizer, the name of a weight, and the optimizer's state of it."""
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    return [
        (number, names[id(weight)], dict(state))
        for number, optimizer in enumerate(trainer.optimizers)
        for weight, state in optimizer.state.items()
    ]
