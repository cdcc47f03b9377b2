"""Which weights are trained: all, all but frozen parts, or small adapters beside the matrices.

A model with its initial weights enters; the same model leaves, in which only the weights to train have gradients.
LoRA (Hu et al., 2021): a matrix W is frozen, and B A of a low rank is trained beside it,

    x ↦ (W + s B A) x,   A (r, d_in) random, B (d_out, r) zero, so that nothing changes at first.

Of a table that has grown by tokens, such as the markers of conversations, only the rows of these tokens are trained.
Inside `merged` every such matrix is the one matrix W + s B A, and every such table has its new rows: what is saved or
decoded is an ordinary model with its usual names.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError, suggest
from clearhead.layers.attention import Attention
from clearhead.layers.feedforward import FeedForward
from clearhead.models.heads import LanguageHead

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
        return linear_of(self.weight + self.scale * (self.B @ self.A), self.bias)


def linear_of(W: Tensor, bias: nn.Parameter | None) -> nn.Linear:
    """The layer of a frozen matrix."""
    linear = nn.Linear(1, 1, device="meta")
    linear.out_features, linear.in_features = W.shape
    linear.weight, linear.bias = nn.Parameter(W, requires_grad=False), bias  # type: ignore[assignment]
    return linear


class GrownTable(nn.Module):
    """A frozen table of embeddings, of a head, or of both, in which the rows of added tokens are trained."""

    def __init__(self, table: nn.Embedding | nn.Linear, added: range) -> None:
        super().__init__()
        self.weight, self.added, self.is_linear = table.weight, added, isinstance(table, nn.Linear)
        self.rows = nn.Parameter(table.weight.detach()[added.start : added.stop].clone())

    def forward(self, tokens: Tensor) -> Tensor:
        """The vectors of tokens: (b, n) -> (b, n, d)."""
        place = tokens - self.added.start
        is_added = (place >= 0) & (place < len(self.added))
        new = F.embedding(place.clamp(0, len(self.added) - 1), self.rows)
        return torch.where(is_added[..., None], new, F.embedding(tokens, self.weight))

    def product(self, X: Tensor, W: Tensor, bias: Tensor | None) -> Tensor:
        """The logits of all tokens: (…, d) -> (…, vocabulary)."""
        return GrownProduct.apply(X, W, self.rows, self.added.start, bias)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def merged(self) -> nn.Module:
        """The one table."""
        W = self.weight.clone()
        W[self.added.start : self.added.stop] = self.rows
        return linear_of(W, None) if self.is_linear else nn.Embedding.from_pretrained(W)


class GrownProduct(torch.autograd.Function):
    """W x + b, where some rows of W are those of another matrix R, and only R has a gradient.

    Autograd would copy all logits to put a few in their place, and compute the gradient of the whole of W.
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, W: Tensor, R: Tensor, first: int, bias: Tensor | None) -> Tensor:
        """(…, d) -> (…, vocabulary)."""
        Z, some = F.linear(X, W, bias), slice(first, first + len(R))
        Z[..., some] = F.linear(X, R, None if bias is None else bias[some])
        ctx.save_for_backward(X, W, R)
        ctx.some, ctx.has_bias = some, bias is not None and bias.requires_grad
        return Z

    @staticmethod
    def backward(ctx: Any, dZ: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of X, R and b."""
        X, W, R = ctx.saved_tensors
        dZ = dZ.to(W.dtype)  # lower with mixed precision
        new = dZ[..., ctx.some]
        dX = dZ @ W + new @ (R - W[ctx.some])
        dR = new.flatten(0, -2).mT @ X.flatten(0, -2).to(W.dtype)
        return dX.to(X.dtype), None, dR, None, dZ.flatten(0, -2).sum(0) if ctx.has_bias else None


def freeze_weights(
    model: nn.Module,
    training: TrainingConfig,
    new: Collection[str] = (),
    grown: Mapping[str, range] | None = None,
) -> None:
    """Freezes what is not trained: with LoRA all but adapters and what is new, always `training.frozen`.

    `new` are the names of whole weights, `grown` those of tables that have new rows, and which they are.
    """
    if training.lora_rank is not None:
        adapt(model, training, new)
        train_rows(model, grown or {})
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
    if not any(isinstance(module, Attention | FeedForward) for module in model.modules()):
        raise ConfigError(
            f"training.lora_rank = {training.lora_rank} adapts the matrices of attention and feed-forward, and this "
            "model has neither.\nOmit it to train all weights, or freeze parts of the model by training.frozen."
        )
    if not count:
        raise ConfigError(
            f"training.lora_targets = {list(training.lora_targets)} names no matrix of this model.\n"
            "Omit it to adapt every matrix of the blocks."
        )


def train_rows(model: nn.Module, grown: Mapping[str, range]) -> None:
    """Lets the new rows of tables be trained, and of a bias for each token all of it."""
    weights = dict(model.named_parameters())
    tables = {id(weights[name]): rows for name, rows in grown.items() if weights[name].ndim == 2}
    made: dict[int, GrownTable] = {}  # by weight: embeddings and a tied head remain one table
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Embedding | nn.Linear) and (key := id(child.weight)) in tables:
                table = made.setdefault(key, GrownTable(child, tables[key]))
                setattr(module, name, table)
                if isinstance(module, LanguageHead):
                    module.product = table.product
    for name in grown:
        if weights[name].ndim == 1:
            weights[name].requires_grad_(True)


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Merges what is trained into the matrices and tables of a model; afterwards all is as before, to the last bit."""
    found = [
        (module, name, child)
        for module in model.modules()
        for name, child in module.named_children()
        if isinstance(child, Adapted | GrownTable)
    ]
    whole = {child: child.merged() for child in {child for _, _, child in found}}
    heads = [
        (module, module.product)
        for module, _, child in found
        if isinstance(module, LanguageHead) and isinstance(child, GrownTable)
    ]
    for module, name, child in found:
        setattr(module, name, whole[child])
    for head, _ in heads:
        head.product = F.linear
    try:
        yield
    finally:
        for module, name, child in found:
            setattr(module, name, child)
        for head, product in heads:
            head.product = product


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
