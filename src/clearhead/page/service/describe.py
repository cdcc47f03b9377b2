"""The structure of a model as the page draws it: a model enters, plain JSON leaves."""

from typing import Any

from clearhead import __version__
from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.inspection.passes import Inspector
from clearhead.inspection.variants import why_not
from clearhead.layers.attention import Attention
from clearhead.layers.blocks import Block
from clearhead.layers.feedforward import Gated
from clearhead.layers.positions import Rotary
from clearhead.models.model import Model
from clearhead.models.stack import Stack
from clearhead.page.service.opening_text import opening_text
from clearhead.page.service.requests import MOST_CHARACTERS, MOST_TOKENS


def describe(inspector: Inspector, name: str) -> dict[str, Any]:
    """Everything about a model that no text changes."""
    config, module = inspector.config, inspector.bundle.module
    stacks = {name: part for name, part in module.named_children() if isinstance(part, Stack)}
    context = MOST_TOKENS if config.context is None else min(config.context, MOST_TOKENS)
    return {
        "version": __version__,
        "name": name,
        "shape": config.shape,
        "head": config.head,
        "weights": sum(weight.numel() for weight in module.parameters()),
        "config": config.model_dump(mode="json"),
        "vocabulary": config.vocabulary,
        "parameters": [name for name, _ in module.named_parameters()],
        "labels": inspector.reader.labels if config.head == "classifier" else [],
        "limits": {"tokens": context, "characters": MOST_CHARACTERS},
        "parts": {"missing": why_not(config)},
        "stacks": [describe_stack(module, name, stack) for name, stack in stacks.items()],
        "attentions": [describe_attention(module, name) for name in config.attentions()],
        "opening": opening_attention(config),
        "example": opening_text(inspector),
    }


def opening_attention(config: AnyModelConfig) -> str | None:
    """The sublayer to open with: of a translator the last cross-attention, of others the first that has heads."""
    names = [name for name in config.attentions() if config.heads(name)]
    crosses = [name for name in names if name.endswith("cross")]
    return crosses[-1] if crosses else next(iter(names), None)


def describe_stack(model: Model, name: str, stack: Stack) -> dict[str, Any]:
    """One column of the map."""
    config = model.config
    is_second = config.is_shared and name == "decoder"
    facts = stack.facts | {"name": name, "table": f"{'encoder' if is_second else name}.tokens.weight"}
    if not isinstance(config, ModelConfig):
        return facts
    first = next((block for block in stack.blocks if isinstance(block, Block)), None)
    units = [config.units(place) for place in config.feedforwards() if place.startswith(f"{name}.")]
    units = sorted(set(units)) or [config.width_ff(stack.tokens.embedding_dim, is_encoder=name == "encoder")]
    return facts | {
        "d_ff": units[0]
        if len(units) == 1
        else f"{units[0]} to {units[-1]}",  # pruning may leave uneven blocks
        "norm": config.norm if stack.causal else config.norm_encoder,
        "placement": config.norm_placement,
        "epsilon": config.norm_epsilon,
        "embedding_norm": config.embedding_norm,
        "final_norm": config.has_final_norm,
        "positions": config.positions,
        "feedforward": config.feedforward,
        "gated": first is not None and isinstance(first.ffn, Gated),
    }


def describe_attention(model: Model, name: str) -> dict[str, Any]:
    """One attention sublayer: its heads, and how they compare."""
    stack, block, kind = name.split(".")
    attention = model.get_submodule(f"{stack}.blocks.{block}.{kind}")
    assert isinstance(attention, Attention)
    config, size, is_self = model.config, attention.size, kind == "self"
    facts: dict[str, Any] = {
        "name": name,
        "stack": stack,
        "block": int(block),
        "kind": kind,
        "keys": stack if is_self else "encoder",
        "heads": list(size.heads),
        "reads": size.reads,
        "d_k": size.d_k,
        "d_v": size.d_v,
        "scale": attention.similarity.scale,
        "similarity": "additive",  # of 2014, unless it is a transformer's
        "projections": "linear",
        "biases": "",
        "rotary": False,
        "frequencies": [],
        "biased": False,
        "query_key_norm": False,
        "weights": f"{stack}.blocks.{block}.{kind}",
    }
    if not isinstance(config, ModelConfig):
        return facts
    return facts | {
        "similarity": config.similarity if is_self else config.cross_similarity,
        "projections": config.projections,
        "biases": config.attention_bias,
        "rotary": is_self and config.positions == "rotary",
        "frequencies": frequencies(model, stack) if is_self else [],
        "biased": is_self and config.positions in ("alibi", "relative"),
        "query_key_norm": config.query_key_norm,
    }


def frequencies(model: Model, stack: str) -> list[float]:
    """By how much each pair of a query or key is turned from one position to the next."""
    positions = getattr(model, stack).positions
    return positions.frequencies.tolist() if isinstance(positions, Rotary) else []
