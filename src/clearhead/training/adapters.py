"""What of a model learns: all of it, all but its frozen parts, or small adapters beside its matrices.

A model whose weights are those it begins with enters; the same model leaves, in which only what should learn
takes gradients. LoRA (Hu et al., 2021): a matrix W stays as it is, and B A of a low rank learns beside it,

    x ↦ (W + s B A) x,   A (r, d_in) random, B (d_out, r) zero, so that at first nothing has changed.

Inside `merged` every such matrix is the one matrix W + s B A: whoever saves, evaluates or decodes sees an
ordinary model, with the names it always had.
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
    """A matrix that stays as it is, and B A of a low rank that learns beside it.

    It is no `nn.Linear`, so that nobody takes its `weight` for all there is: use `merged` for that.
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


def make_learnable(model: nn.Module, training: TrainingConfig, new: Collection[str] = ()) -> None:
    """Lets learn what should: with LoRA only adapters and the weights in `new`, and never what is frozen."""
    if training.lora_rank is not None:
        adapt(model, training, new)
    for name, weight in places(model):
        if any(is_part(name, part) for part in training.frozen):
            weight.requires_grad_(False)
    for part in training.frozen:
        if not any(is_part(name, part) for name, _ in places(model)):
            raise ConfigError(
                f"training.frozen names {part!r}, which this model does not have. {suggest(part, parts(model))}"
            )
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ConfigError(
            f"training.frozen = {list(training.frozen)} leaves nothing to learn.\nLeave some of the model out of it."
        )


def adapt(model: nn.Module, training: TrainingConfig, new: Collection[str]) -> None:
    """Puts adapters beside the target matrices of every block, and freezes the rest but what is new."""
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
            f"training.lora_targets = {list(training.lora_targets)} names no matrix that this model has.\n"
            "Leave it out: then every matrix of the blocks is adapted."
        )


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """The model with its adapters inside its matrices; afterwards all is as it was, to the last bit."""
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


def places(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Every weight under a name like those of the sites: decoder.0.self.W_q.weight, encoder.embeddings.tokens.weight.

    A table that is also the head is there under both names.
    """
    return [(place(name), weight) for name, weight in model.named_parameters(remove_duplicate=False)]


def place(name: str) -> str:
    """Where a weight stands, as people say it."""
    stack, _, rest = name.partition(".")
    if rest.split(".")[0] in EMBEDDINGS:
        return f"{stack}.embeddings.{rest}"
    return name.replace(".blocks.", ".")


def is_part(name: str, part: str) -> bool:
    """Whether a weight belongs to a part: a prefix of its name, in which * stands for anything."""
    names = (part, f"*.{part}") if part.split(".")[0] == "embeddings" else (part,)
    return any(fnmatchcase(name, wanted) or fnmatchcase(name, f"{wanted}.*") for wanted in names)


def parts(model: nn.Module) -> set[str]:
    """Every part that can be named."""
    names = {name for name, _ in places(model)}
    prefixes = {
        ".".join(words[:i]) for words in (name.split(".") for name in names) for i in range(1, len(words))
    }
    return {"embeddings"} | prefixes
