"""How a model is spread over the ranks: on one, a copy on each, or a part of every weight on each."""

import copy
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError
from clearhead.layers.blocks import Block
from clearhead.models.build import Model
from clearhead.training.distributed import is_first, ranks
from clearhead.training.shares import whole


class Alone:
    """One process, and all of the model in it.

    `model` holds the weights that learn, `forward` is how it is called, and `whole` is where all weights are
    found after `gather`. `parts` is how many ranks hold what no other does.
    """

    parts = 1

    def __init__(self, model: Model, device: torch.device) -> None:
        self.whole = self.model = model.to(device)
        self.forward: nn.Module = self.model

    def part(self, is_last: bool) -> AbstractContextManager[None]:
        """Around a part of a step: the gradients of the ranks meet in the last."""
        return nullcontext()

    def rest(self) -> None:
        """After passes without a backward pass: every weight is again where it is between two steps."""

    def gather(self) -> None:
        """Brings all weights to `whole` on the first rank; all ranks have to ask."""


class Replicated(Alone):
    """A copy on every rank; gradients meet while the backward pass goes on (Li et al., 2020)."""

    def __init__(self, model: Model, device: torch.device) -> None:
        super().__init__(model, device)
        self.forward = self.copy = nn.parallel.DistributedDataParallel(
            self.model, forward_sync_buffers=False, gradient_as_bucket_view=True
        )

    def part(self, is_last: bool) -> AbstractContextManager[None]:
        """Around a part of a step: the gradients of the ranks meet in the last."""
        return nullcontext() if is_last else self.copy.no_sync()


class Sharded(Alone):
    """Some rows of every weight on each rank; a block's weights meet where it is used (FSDP2; Zhao et al., 2023)."""

    def __init__(self, model: Model, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        self.whole, self.parts = model, ranks()  # the model stays where it is, in main memory
        self.forward = self.model = copy.deepcopy(model) if is_first() else model
        mesh = init_device_mesh(device.type, (ranks(),))
        for block in (module for module in self.model.modules() if isinstance(module, Block)):
            if block.cross is not None:  # makes its keys and values before the block is called
                fully_shard(block.cross, mesh=mesh)
                register_fsdp_forward_method(block.cross, "keys_values")
            fully_shard(block, mesh=mesh)
        self.root = fully_shard(self.model, mesh=mesh)

    def rest(self) -> None:
        """After passes without a backward pass: every weight is again where it is between two steps."""
        self.root.reshard()

    def gather(self) -> None:
        """Brings all weights to `whole` on the first rank, one at a time; all ranks have to ask."""
        theirs = dict(self.whole.named_parameters())
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                full = whole(weight)
                if is_first():
                    theirs[name].copy_(full)


PARALLELS: dict[str, type[Alone]] = {"auto": Replicated, "ddp": Replicated, "fsdp": Sharded}


def make_parallel(model: Model, training: TrainingConfig, device: torch.device) -> Alone:
    """The way to train a model that the settings ask for, with as many ranks as there are."""
    if ranks() == 1:
        return Alone(model, device)
    if training.parallel == "fsdp" and training.compile == "on":
        raise ConfigError(
            "training.compile = 'on' does not work with training.parallel = 'fsdp'.\n"
            "Leave it out, or use 'ddp' where the model fits on each device."
        )
    return PARALLELS[training.parallel](model, device)
