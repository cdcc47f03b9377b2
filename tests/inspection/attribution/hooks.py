"""The same numbers by plain PyTorch hooks: nothing of `capture` is used here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.attention import Attention
from clearhead.layers.norms import LayerNorm, RMSNorm, WholeNorm
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from tests.models.cases import CASES, MIXED, Case, some_ids, some_source

Calls = dict[nn.Module, tuple[Tensor, Tensor]]

# Of every shape: all norms, placements and pools, and the mixtures; what happens inside a head does not matter here.
KINDS = ("norm", "encoder_norm", "pool", "projections")
EXPLAINED = {
    name: case
    for name, case in CASES.items()
    if (case.kind in MIXED or case.kind.startswith(KINDS))
    and isinstance(case.config, ModelConfig)
    and case.config.head != "none"
    and not case.kind.startswith(
        ("window", "wide", "stretched", "scaled", "distance", "own tables", "no limit")
    )
}


def text_of(case: Case, seed: int = 1) -> Inputs:
    """One random text for a case."""
    return Inputs(some_ids(1, 5, seed=seed), source=some_source(case, b=1, seed=seed + 1))


def calls_of(model: Model, inputs: Inputs) -> Calls:
    """What every module was given and returned, the first argument only."""
    calls: Calls = {}

    def keep(module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        if args and isinstance(args[0], Tensor) and isinstance(out, Tensor):
            calls[module] = args[0].detach().double(), out.detach().double()

    handles = [module.register_forward_hook(keep) for module in model.modules()]
    with torch.no_grad():
        model(inputs)
    for handle in handles:
        handle.remove()
    return calls


@contextmanager
def changed_output(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Changes what a module returns."""
    handle = module.register_forward_hook(lambda _, args, out: change(out))
    yield
    handle.remove()


@contextmanager
def changed_input(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Changes what a module is given."""
    handle = module.register_forward_pre_hook(lambda _, args: (change(args[0]), *args[1:]))
    yield
    handle.remove()


def frozen(norm: nn.Module, X: Tensor, parts: dict[str, Tensor]) -> dict[str, Tensor]:
    """All parts of X passed through a norm whose statistics are those of X."""
    if isinstance(norm, LayerNorm):
        deviation = (X.var(-1, correction=0, keepdim=True) + norm.epsilon).sqrt()
        parts = {key: (Y - Y.mean(-1, keepdim=True)) / deviation * norm.weight for key, Y in parts.items()}
        shift = norm.bias if norm.bias is not None else torch.zeros(())
    elif isinstance(norm, RMSNorm):
        root = (X.square().mean(-1, keepdim=True) + norm.epsilon).sqrt()
        parts, shift = {key: Y / root * norm.weight for key, Y in parts.items()}, torch.zeros(())
    elif isinstance(norm, WholeNorm):
        deviation = (X.var(correction=0) + norm.epsilon).sqrt()
        parts, shift = {key: Y / deviation for key, Y in parts.items()}, -X.mean() / deviation
    else:
        return parts
    return parts | {"biases": parts["biases"] + shift}


def decomposed(model: Model, inputs: Inputs) -> dict[str, Tensor]:
    """Every part of what the head reads (1, n, d), carried up the stream from where it was added."""
    calls = calls_of(model, inputs)
    config: Any = model.config
    name = "encoder" if config.shape == "encoder" else "decoder"
    stack = getattr(model, name)
    X = stack.tokens.weight[inputs.tokens].double() * stack.scale
    parts = {f"{name}.embeddings.tokens": X, "biases": torch.zeros_like(X)}
    P = stack.positions.embed(torch.arange(X.shape[1])[None])
    if P is not None:
        parts[f"{name}.embeddings.positions"] = P.double().expand_as(X)
    if stack.types is not None:
        parts[f"{name}.embeddings.types"] = stack.types.weight[0].double().expand_as(X)
    parts = frozen(stack.embedding_norm, torch.stack([*parts.values()]).sum(0), parts)
    if stack.convolution is not None:
        embedded = torch.stack([*parts.values()]).sum(0)
        before = calls[stack.blocks[0]][0] if len(stack.blocks) else calls[stack.norm][0]
        parts[f"{name}.embeddings.convolution"] = before - embedded
    for i, block in enumerate(stack.blocks):
        for sublayer in ("self", "cross", "ffn") if model.translates else ("self", "ffn"):
            place, residual, part = (
                f"{name}.{i}.{sublayer}",
                getattr(block, f"add_{sublayer}"),
                getattr(block, sublayer),
            )
            added = added_by(part, place, calls)
            if config.norm_placement == "both":
                added = frozen(residual.norm_after, calls[part][1], added)
            both = {key: parts.get(key, 0 * X) + added.get(key, 0 * X) for key in {**parts, **added}}
            parts = (
                frozen(residual.norm, torch.stack([*both.values()]).sum(0), both)
                if config.norm_placement == "post"
                else both
            )
    return frozen(stack.norm, calls[stack.norm][0], parts)


def part_named(model: Model, place: str) -> Any:
    """The module of a block or sublayer such as decoder.0.self."""
    stack, block, *rest = place.split(".")
    return model.get_submodule(".".join([stack, "blocks", block, *rest]))


def added_by(part: nn.Module, place: str, calls: Calls) -> dict[str, Tensor]:
    """What a sublayer adds: each head, or the feed-forward, and the bias."""
    last: Any = part.W_o if isinstance(part, Attention) else part.W_2
    H, out = calls[last]
    bias = last.bias.double() if getattr(last, "bias", None) is not None else torch.zeros(())
    if not isinstance(part, Attention):
        return {place: out - bias, "biases": bias.expand_as(out)}
    W = last.weight.double() if isinstance(last, nn.Linear) else torch.eye(H.shape[-1]).double()
    width = H.shape[-1] // max(1, len(part.size.heads))
    heads = {
        f"{place}.{head}": H[..., i * width : (i + 1) * width] @ W[:, i * width : (i + 1) * width].mT
        for i, head in enumerate(part.size.heads)
    }
    return heads | {"biases": bias.expand_as(out)}
