"""How a model is distributed: on one rank, a copy on each (DDP), or some rows of every weight on each (FSDP2)."""

import copy
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError
from clearhead.layers.blocks import Block
from clearhead.models.model import Model
from clearhead.training.distributed.collectives import full_tensor
from clearhead.training.distributed.ranks import is_first, ranks


class SingleRank:
    """One process with the full model.

    `model` has the weights that are trained, `forward` is how it is called, and `full_model` has all weights after
    `gather_weights`. `shards` is the number of ranks with weights that no other has.
    """

    shards = 1

    def __init__(self, model: Model, device: torch.device) -> None:
        self.full_model = self.model = model.to(device)
        self.forward: nn.Module = self.model

    def gradient_sync(self, is_last: bool) -> AbstractContextManager[None]:
        """Around a backward pass: the ranks exchange gradients only in the last of a step."""
        return nullcontext()

    def reshard(self) -> None:
        """Frees the full weights that a forward pass without a backward pass leaves on every rank."""

    def gather_weights(self) -> None:
        """Copies all weights to `full_model` on the first rank; every rank has to call it."""


class Replicated(SingleRank):
    """A copy on every rank; gradients are exchanged during the backward pass (Li et al., 2020)."""

    def __init__(self, model: Model, device: torch.device) -> None:
        super().__init__(model, device)
        self.forward = self.replica = nn.parallel.DistributedDataParallel(
            self.model, forward_sync_buffers=False, gradient_as_bucket_view=True
        )

    def gradient_sync(self, is_last: bool) -> AbstractContextManager[None]:
        """Around a backward pass: the ranks exchange gradients only in the last of a step."""
        return nullcontext() if is_last else self.replica.no_sync()


class Sharded(SingleRank):
    """Some rows of every weight on each rank; a block's weights meet when it runs (FSDP2; Zhao et al., 2023)."""

    def __init__(self, model: Model, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        self.full_model, self.shards = model, ranks()  # stays in main memory
        self.forward = self.model = copy.deepcopy(model) if is_first() else model
        mesh = init_device_mesh(device.type, (ranks(),))
        for block in (module for module in self.model.modules() if isinstance(module, Block)):
            if block.cross is not None:  # computes its keys and values before the block is called
                fully_shard(block.cross, mesh=mesh)
                register_fsdp_forward_method(block.cross, "keys_values")
            fully_shard(block, mesh=mesh)
        self.root = fully_shard(self.model, mesh=mesh)

    def reshard(self) -> None:
        """Frees the full weights that a forward pass without a backward pass leaves on every rank."""
        self.root.reshard()

    def gather_weights(self) -> None:
        """Copies all weights to `full_model` on the first rank, one at a time; every rank has to call it."""
        theirs = dict(self.full_model.named_parameters())
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                full = full_tensor(weight)
                if is_first():
                    theirs[name].copy_(full)


STRATEGIES: dict[str, type[SingleRank]] = {"auto": Replicated, "ddp": Replicated, "fsdp": Sharded}


def make_parallel(model: Model, training: TrainingConfig, device: torch.device) -> SingleRank:
    """Distributes a model over the ranks as the settings ask."""
    if ranks() == 1:
        return SingleRank(model, device)
    if training.parallel == "fsdp" and training.compile == "on":
        raise ConfigError(
            "training.compile = 'on' does not work with training.parallel = 'fsdp'.\n"
            "Omit it, or use 'ddp' where the model fits on each device."
        )
    return STRATEGIES[training.parallel](model, device)
