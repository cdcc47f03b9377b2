"""Which weights are trained: all, all but frozen parts, or small adapters beside the matrices.

A model with its initial weights enters; the same model leaves, in which only the weights to train have gradients.
LoRA (Hu et al., 2021): a matrix W is frozen, and B A of a low rank is trained beside it,

    x ↦ (W + s B A) x,   A (r, d_in) random, B (d_out, r) zero, so that nothing changes at first.

Inside `merged` every such matrix is the one matrix W + s B A: what is saved, evaluated or decoded is an ordinary
model with its usual names.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError, suggest
from clearhead.layers.attention import Attention
from clearhead.layers.feedforward import FeedForward

EMBEDDINGS = ("tokens", "positions", "types", "embedding_norm")  # of a stack, before its first block


class Adapted(nn.Module):
    """A frozen matrix, and a trained B A of a low rank beside it.

    It is not an `nn.Linear`, so that no code takes its `weight` for the full matrix: use `merged` for that.
    """

    def __init__(self, linear: nn.Linear, rank: int, scale: float, generator: torch.Generator) -> None:
        super().__init__()
        self.weight, self.bias, self.scale = linear.weight, linear.bias, scale
        d_out, d_in = linear.weight.shape
        # As every new matrix here: a sum of d_in products keeps the variance of its inputs.
        A = torch.randn(rank, d_in, generator=generator) * d_in**-0.5
        self.A = nn.Parameter(A.to(linear.weight))
        self.B = nn.Parameter(linear.weight.new_zeros(d_out, rank))

    def forward(self, X: Tensor) -> Tensor:
        """W x + s B (A x) + b: (…, d_in) -> (…, d_out)."""
        return F.linear(X, self.weight, self.bias) + self.scale * F.linear(F.linear(X, self.A), self.B)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The one matrix W + s B A."""
        linear = nn.Linear(1, 1, device="meta")
        linear.out_features, linear.in_features = self.weight.shape
        linear.weight = nn.Parameter(self.weight + self.scale * (self.B @ self.A), requires_grad=False)
        linear.bias = self.bias
        return linear


def freeze_weights(model: nn.Module, training: TrainingConfig, new: Collection[str] = ()) -> None:
    """Freezes what is not trained: with LoRA all but adapters and `new` weights, always `training.frozen`."""
    if training.lora_rank is not None:
        adapt(model, training, new)
    for name, weight in named_parts(model):
        if any(is_part(name, part) for part in training.frozen):
            weight.requires_grad_(False)
    for part in training.frozen:
        if not any(is_part(name, part) for name, _ in named_parts(model)):
            raise ConfigError(
                f"training.frozen names {part!r}, which this model does not have. {suggest(part, part_names(model))}"
            )
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ConfigError(
            f"training.frozen = {list(training.frozen)} leaves nothing to train.\nFreeze fewer parts of the model."
        )


def adapt(model: nn.Module, training: TrainingConfig, new: Collection[str]) -> None:
    """Adds adapters to the target matrices of every block, and freezes all other weights but the new ones."""
    assert training.lora_rank is not None
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in new)
    generator = torch.Generator().manual_seed(training.seed)
    count = 0
    for module in list(model.modules()):
        for name in training.lora_targets if isinstance(module, Attention | FeedForward) else ():
            matrix = getattr(module, name, None)
            if isinstance(matrix, nn.Linear):
                setattr(module, name, Adapted(matrix, training.lora_rank, training.lora_scale, generator))
                count += 1
    if not count:
        raise ConfigError(
            f"training.lora_targets = {list(training.lora_targets)} names no matrix of this model.\n"
            "Omit it to adapt every matrix of the blocks."
        )


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Merges the adapters of a model into its matrices; afterwards all is as before, to the last bit."""
    found = [
        (module, name, child)
        for module in model.modules()
        for name, child in module.named_children()
        if isinstance(child, Adapted)
    ]
    for module, name, child in found:
        setattr(module, name, child.merged())
    try:
        yield
    finally:
        for module, name, child in found:
            setattr(module, name, child)


def adapters_of(model: nn.Module) -> set[int]:
    """The ids of the weights A and B of all adapters."""
    return {
        id(weight) for part in model.modules() if isinstance(part, Adapted) for weight in (part.A, part.B)
    }


def named_parts(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Every weight under a name like those of the sites: decoder.0.self.W_q.weight, encoder.embeddings.tokens.weight.

    A table that is also the head has both names.
    """
    return [(part_name(name), weight) for name, weight in model.named_parameters(remove_duplicate=False)]


def part_name(name: str) -> str:
    """The name of a weight as the sites are named."""
    stack, _, rest = name.partition(".")
    if rest.split(".")[0] in EMBEDDINGS:
        return f"{stack}.embeddings.{rest}"
    return name.replace(".blocks.", ".")


def is_part(name: str, part: str) -> bool:
    """Whether a weight belongs to a part: a prefix of its name, in which * matches anything."""
    names = (part, f"*.{part}") if part.split(".")[0] == "embeddings" else (part,)
    return any(fnmatchcase(name, wanted) or fnmatchcase(name, f"{wanted}.*") for wanted in names)


def part_names(model: nn.Module) -> set[str]:
    """Every part that can be named."""
    names = {name for name, _ in named_parts(model)}
    prefixes = {
        ".".join(words[:i]) for words in (name.split(".") for name in names) for i in range(1, len(words))
    }
    return {"embeddings"} | prefixes
