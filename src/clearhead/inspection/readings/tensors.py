"""Any tensor of a pass by name: the recorded sites, what a sublayer is given, and what positions add to scores."""

import torch
from torch import Tensor

from clearhead.errors import InputError, suggest
from clearhead.inspection.passes import Pass
from clearhead.layers.attention import Attention
from clearhead.layers.blocks import Block
from clearhead.models.stack import Stack
from clearhead.models.transformer.stack import TransformerStack


def tensor(captured: Pass, name: str, head: str | None = None, rows: slice | None = None) -> Tensor:
    """What a site held, without the batch: of all heads, of one by its place, or their mean; of some tokens, or of all.

    `….x` is what a sublayer was given, and `….bias` what positions added to its scores.
    """
    trace, (place, _, key) = captured.trace, name.rpartition(".")
    rows = rows or slice(None)
    if name in trace and trace.is_apart(name):
        if name == "logits" and rows != slice(None):
            return trace.logits(rows)[0]
        if name != "logits" and head is not None:
            return trace.head(name, place_of(head, name, trace.sizes[name][0]))[rows]
    if key == "x":
        X = sublayer_input(captured, place)
    elif key == "bias":
        X = position_bias(captured, place)
    elif name in trace:
        X = trace[name][0]
    else:
        raise InputError(f"{name} is not a tensor of this pass. {suggest(name, trace.sizes)}")
    if head is not None:
        at = place_of(head, name, tuple(X.shape))
        X = X.mean(0) if at is None else X[at]
    return X[..., rows, :] if X.ndim > 1 else X


def place_of(head: str, name: str, shape: tuple[int, ...]) -> int | None:
    """The place of a head in a tensor (h, n, m); None for the mean over heads."""
    if len(shape) != 3:
        raise InputError(f"{name} has no heads, so `head` cannot be chosen.")
    if head == "mean":
        return None
    if not head.isdecimal() or int(head) >= shape[0]:
        raise InputError(f"{name} has {shape[0]} heads, so there is no head at place {head}.")
    return int(head)


def stack_of(captured: Pass, name: str) -> Stack:
    """A stack of the model by its name."""
    stack = getattr(captured.module, name, None)
    if name not in captured.ids or not isinstance(stack, Stack):
        raise InputError(f"{name} is not a stack of this model. {suggest(name, captured.ids)}")
    return stack


def block_of(captured: Pass, stack: str, number: str) -> Block:
    """A block of attention and feed-forward by its number."""
    blocks = stack_of(captured, stack).blocks
    block = blocks[int(number)] if number.isdecimal() and int(number) < len(blocks) else None
    if block is None:
        raise InputError(f"{stack} has no block {number}; it has {len(blocks)}.")
    if not isinstance(block, Block):
        raise InputError(
            f"{stack}.{number} is no block of attention and feed-forward, so it has no sublayers."
        )
    return block


def parts_of(place: str) -> tuple[str, str, str]:
    """Stack, block and sublayer of a name such as decoder.2.cross."""
    parts = place.split(".")
    if len(parts) != 3 or parts[2] not in ("self", "cross", "ffn"):
        raise InputError(f"{place} is not the name of a sublayer, such as decoder.0.self.")
    return parts[0], parts[1], parts[2]


def sublayers_of(block: Block) -> list[str]:
    """The sublayers of a block, in order."""
    return ["self", "ffn"] if block.cross is None else ["self", "cross", "ffn"]


def stream_before(captured: Pass, place: str) -> Tensor:
    """The residual stream that a sublayer reads (n, d)."""
    stack, block, sublayer = parts_of(place)
    order = sublayers_of(block_of(captured, stack, block))
    if sublayer not in order:
        raise InputError(f"{stack}.{block} has no cross-attention.")
    if index := order.index(sublayer):
        return captured.trace[f"{stack}.{block}.residual.{index - 1}"][0]
    if int(block):
        return captured.trace[f"{stack}.{int(block) - 1}.residual.{len(order) - 1}"][0]
    return captured.trace[f"{stack}.embeddings.out"][0]


@torch.no_grad()
def sublayer_input(captured: Pass, place: str) -> Tensor:
    """What a sublayer is given: the stream, normed unless the norm comes after (n, d)."""
    stack, block, sublayer = parts_of(place)
    X = stream_before(captured, place)
    if captured.module.config.is_post_norm:
        return X
    residual = getattr(block_of(captured, stack, block), f"add_{sublayer}")
    return residual.norm(X[None])[0]


@torch.no_grad()
def position_bias(captured: Pass, place: str) -> Tensor:
    """What positions add to the scores of each head (h, n, m)."""
    stack, block, sublayer = parts_of(place)
    at = torch.arange(len(captured.ids[stack]))[None]
    attention = getattr(block_of(captured, stack, block), sublayer)
    owner = stack_of(captured, stack)
    bias = (
        owner.positions.bias(at, at) if isinstance(owner, TransformerStack) and sublayer == "self" else None
    )
    if bias is None or not isinstance(attention, Attention):
        raise InputError(f"{place} adds no bias to its scores.")
    chosen = attention.select(bias)
    assert chosen is not None
    return chosen[0]


def scales(captured: Pass) -> dict[str, float]:
    """The factor of the scores in every attention sublayer, as it was in this pass."""
    found = {}
    for name in captured.module.config.attentions():
        stack, block, sublayer = parts_of(name)
        attention = captured.module.get_submodule(f"{stack}.blocks.{block}.{sublayer}")
        assert isinstance(attention, Attention)
        found[name] = float(attention.similarity.scale)
    return found
