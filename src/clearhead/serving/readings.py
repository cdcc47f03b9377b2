"""What is read off a captured pass: sublayer inputs, statistics of heads, the stream, neighbours, predictions.

A `Pass` enters; tensors or plain JSON leave. Nothing here is fitted or drawn: every number is an arithmetic
result of the model's own tensors and modules.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import InputError, suggest
from clearhead.inspection.capture import intervene, zero
from clearhead.layers.attention import Attention
from clearhead.layers.blocks import Block
from clearhead.models.stack import Stack
from clearhead.serving.passes import Pass
from clearhead.text.tokenizer import Tokenizer

THUMBNAIL = 48  # the most rows and columns of a head's small picture
NEAREST = 10
SHOWN = 8  # predictions that are shown of each distribution


def tensor(seen: Pass, name: str, head: str | None = None) -> Tensor:
    """What a site held, without the batch: of all heads, of one by its place, or their mean.

    `….x` is what a sublayer was given, and `….bias` what positions added to its scores.
    """
    place, _, key = name.rpartition(".")
    if key == "x":
        X = sublayer_input(seen, place)
    elif key == "bias":
        X = position_bias(seen, place)
    elif name in seen.trace:
        X = seen.trace[name][0]
    else:
        raise InputError(f"{name} is not a tensor of this pass. {suggest(name, seen.trace)}")
    if head is None:
        return X
    if X.ndim != 3:
        raise InputError(f"{name} has no heads, so `head` cannot be chosen.")
    if head == "mean":
        return X.mean(0)
    if not head.isdecimal() or int(head) >= len(X):
        raise InputError(f"{name} has {len(X)} heads, so there is no head at place {head}.")
    return X[int(head)]


def stack_of(seen: Pass, name: str) -> Stack:
    """A stack of the model by its name."""
    stack = getattr(seen.module, name, None)
    if name not in seen.ids or not isinstance(stack, Stack):
        raise InputError(f"{name} is not a stack of this model. {suggest(name, seen.ids)}")
    return stack


def block_of(seen: Pass, stack: str, number: str) -> Block:
    """A block by its number."""
    blocks = stack_of(seen, stack).blocks
    block = blocks[int(number)] if number.isdecimal() and int(number) < len(blocks) else None
    if not isinstance(block, Block):
        raise InputError(f"{stack} has no block {number}; it has {len(blocks)}.")
    return block


def parts_of(place: str) -> tuple[str, str, str]:
    """Stack, block and sublayer of a name such as decoder.2.cross."""
    parts = place.split(".")
    if len(parts) != 3 or parts[2] not in ("self", "cross", "ffn"):
        raise InputError(f"{place} is not the name of a sublayer, such as decoder.0.self.")
    return parts[0], parts[1], parts[2]


def stream_before(seen: Pass, place: str) -> Tensor:
    """The stream that a sublayer reads (n, d)."""
    stack, block, sublayer = parts_of(place)
    order = ["self", "cross", "ffn"] if block_of(seen, stack, block).cross is not None else ["self", "ffn"]
    index = order.index(sublayer) if sublayer in order else -1
    if index < 0:
        raise InputError(f"{stack}.{block} has no cross-attention.")
    if index:
        return seen.trace[f"{stack}.{block}.residual.{index - 1}"][0]
    if int(block):
        return seen.trace[f"{stack}.{int(block) - 1}.residual.{len(order) - 1}"][0]
    return seen.trace[f"{stack}.embeddings.out"][0]


@torch.no_grad()
def sublayer_input(seen: Pass, place: str) -> Tensor:
    """What a sublayer is given: the stream, behind its norm unless the norm comes after (n, d)."""
    stack, block, sublayer = parts_of(place)
    X = stream_before(seen, place)
    if seen.module.config.norm_placement == "post":
        return X
    residual = getattr(block_of(seen, stack, block), f"add_{sublayer}")
    return residual.norm(X[None])[0]


@torch.no_grad()
def position_bias(seen: Pass, place: str) -> Tensor:
    """What positions add to the scores of each head (h, n, m)."""
    stack, block, sublayer = parts_of(place)
    at = torch.arange(len(seen.ids[stack]))[None]
    attention = getattr(block_of(seen, stack, block), sublayer)
    bias = stack_of(seen, stack).positions.bias(at, at) if sublayer == "self" else None
    if bias is None or not isinstance(attention, Attention):
        raise InputError(f"{place} adds no bias to its scores.")
    chosen = attention.select(bias)
    assert chosen is not None
    return chosen[0]


def attention_names(seen: Pass) -> list[str]:
    """The attention sublayers of the model, in order."""
    return seen.module.config.attentions()


def scales(seen: Pass) -> dict[str, float]:
    """The factor of the scores in every attention sublayer, as it was in this pass."""
    found = {}
    for name in attention_names(seen):
        stack, block, sublayer = parts_of(name)
        found[name] = float(getattr(block_of(seen, stack, block), sublayer).similarity.scale)
    return found


def head_statistics(seen: Pass) -> list[dict[str, Any]]:
    """For each head: entropy, distance, and shares, each the mean over its queries."""
    rows = []
    for name in attention_names(seen):
        A = seen.trace[f"{name}.weights"][0].double()  # (h, n, m)
        n, m = A.shape[1:]
        entropy = torch.special.entr(A).sum(-1).mean(-1)
        gap = (torch.arange(n)[:, None] - torch.arange(m)).abs()
        distance = (A * gap).sum(-1).mean(-1)
        previous = A.diagonal(-1, 1, 2).sum(-1) / max(1, n - 1)
        is_self = name.endswith("self")
        for place, head in enumerate(seen.module.config.heads(name)):
            rows.append(
                {
                    "attention": name,
                    "head": head,
                    "place": place,
                    "entropy": float(entropy[place]),
                    "distance": float(distance[place]) if is_self else None,
                    "first": float(A[place, :, 0].mean()),
                    "previous": float(previous[place]) if is_self else None,
                    "largest": float(A[place].amax(-1).mean()),
                }
            )
    return rows


def thumbnails(seen: Pass) -> dict[str, Tensor]:
    """A small picture of each head (h, rows, columns): the largest weight of every field."""
    pictures = {}
    for name in attention_names(seen):
        A = seen.trace[f"{name}.weights"]
        size = (min(THUMBNAIL, A.shape[2]), min(THUMBNAIL, A.shape[3]))
        pictures[name] = F.adaptive_max_pool2d(A, size)[0]
    return pictures


def shares(logits: Tensor, position: int = -1) -> Tensor:
    """The probabilities that a pass ends with: of classes, or of the token after a position."""
    return torch.softmax(at_position(logits, position), -1)


def at_position(logits: Tensor, position: int) -> Tensor:
    """The logits of classes (1, classes), or those after a position (1, n, vocabulary): one row, in double."""
    return (logits[0] if logits.ndim == 2 else logits[0, position]).double()


def check_position(seen: Pass, stack: str, position: int) -> None:
    """Refuses a place where no token stands."""
    n = len(seen.ids[stack])
    if not -n <= position < n:
        raise InputError(f"{stack} has {n} tokens, so there is no token {position}.")


@torch.no_grad()
def mute_effects(seen: Pass, position: int) -> list[dict[str, Any]]:
    """How far the prediction after a token moves when each head is muted, by itself: KL(before, after) in nats."""
    check_position(seen, seen.top, position)
    if seen.module.config.head == "none":
        raise InputError("This model has no head, so it predicts nothing that muting could change.")
    before = shares(seen.trace["logits"], position)
    best = int(before.argmax())
    already = tuple(zero(head) for head in seen.question.mute)
    rows = []
    for name in attention_names(seen):
        for place, head in enumerate(seen.module.config.heads(name)):
            with intervene(seen.module, *already, zero(f"{name}.{head}")):
                after = shares(seen.run(seen.module), position)
            moved = float((torch.special.xlogy(before, before) - torch.special.xlogy(before, after)).sum())
            change = float(after[best] - before[best])
            rows.append({"attention": name, "head": head, "place": place, "moved": moved, "change": change})
    return rows


def top_tokens(tokenizer: Tokenizer, P: Tensor, count: int = SHOWN) -> list[dict[str, Any]]:
    """The likeliest tokens of a distribution over the vocabulary."""
    values, ids = P.topk(min(count, len(P)))
    pairs = zip(ids.tolist(), values.tolist(), strict=True)
    return [{"id": id, "text": tokenizer.piece(id), "p": p} for id, p in pairs]


def top_classes(labels: list[str], P: Tensor) -> list[dict[str, Any]]:
    """Every class with its probability, in the order of the labels."""
    return [{"id": i, "text": label, "p": float(P[i])} for i, label in enumerate(labels)]


@torch.no_grad()
def stream(seen: Pass, stack: str, position: int) -> list[dict[str, Any]]:
    """The stream of one token, sublayer by sublayer: its norm before, what is added, its norm after."""
    part = stack_of(seen, stack)
    check_position(seen, stack, position)
    start = seen.trace[f"{stack}.embeddings.out"][0, position]
    rows: list[dict[str, Any]] = [
        {"name": f"{stack}.embeddings", "before": 0.0, "after": float(start.norm())}
    ]
    rows[0] |= {"added": rows[0]["after"], "cosine": None}
    for i, block in enumerate(part.blocks):
        assert isinstance(block, Block)
        for index, sublayer in enumerate(
            ["self", "cross", "ffn"] if block.cross is not None else ["self", "ffn"]
        ):
            place = f"{stack}.{i}.{sublayer}"
            before = stream_before(seen, place)[position]
            added = seen.trace[f"{place}.out"][0, position]
            after = seen.trace[f"{stack}.{i}.residual.{index}"][0, position]
            rows.append(
                {
                    "name": place,
                    "before": float(before.norm()),
                    "added": float(added.norm()),
                    "after": float(after.norm()),
                    "cosine": float(F.cosine_similarity(before, added, dim=0)),
                }
            )
    return rows


def stream_norms(seen: Pass) -> dict[str, list[float]]:
    """The mean norm of the stream, at first and after every sublayer, for the trunk of the map."""
    norms = {}
    for name in seen.ids:
        sites = [f"{name}.embeddings.out"]
        for i, block in enumerate(stack_of(seen, name).blocks):
            sites += [f"{name}.{i}.{site}" for site in block.sites]  # type: ignore[union-attr]
        norms[name] = [float(seen.trace[site][0].norm(dim=-1).mean()) for site in sites]
    return norms


@torch.no_grad()
def lens(seen: Pass, position: int, tokenizer: Tokenizer, labels: list[str]) -> list[dict[str, Any]]:
    """What the head reads when it is put on the stream after each sublayer, behind the last norm."""
    module, stack = seen.module, stack_of(seen, seen.top)
    check_position(seen, seen.top, position)
    if module.config.head == "none":
        return []
    sites = [f"{seen.top}.embeddings.out"]
    for i, block in enumerate(stack.blocks):
        sites += [f"{seen.top}.{i}.{site}" for site in block.sites]  # type: ignore[union-attr]
    rows = []
    for site in sites:
        Z = at_position(module.head(stack.norm(seen.trace[site])), position)
        P = torch.softmax(Z, -1)
        top = top_classes(labels, P) if module.config.head == "classifier" else top_tokens(tokenizer, P, 5)
        rows.append({"site": site, "top": top, "log_sum": float(torch.logsumexp(Z, -1))})
    return rows


def neighbours(seen: Pass, stack: str, id: int, tokenizer: Tokenizer) -> dict[str, list[dict[str, Any]]]:
    """The tokens whose embeddings are nearest to one, by cosine and by dot product (N4)."""
    E = stack_of(seen, stack).tokens.weight.detach().float()
    if not 0 <= id < len(E):
        raise InputError(f"{id} is not an id of this model, which has 0 to {len(E) - 1}.")
    measures = {"cosine": F.cosine_similarity(E, E[id][None], dim=-1), "dot": E @ E[id]}
    found = {}
    for name, values in measures.items():
        values = values.clone()
        values[id] = -torch.inf
        best = values.topk(min(NEAREST, len(values) - 1))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        found[name] = [{"id": i, "text": tokenizer.piece(i), "value": value} for i, value in pairs]
    return found


def projection(seen: Pass, site: str) -> dict[str, Any]:
    """The tokens' vectors at a site on their two widest directions (principal components)."""
    X = tensor(seen, site).double()
    X = X - X.mean(0)
    U, S, _ = torch.linalg.svd(X, full_matrices=False)
    points = U[:, :2] * S[:2]
    points = F.pad(points, (0, 2 - points.shape[1]))
    total = float(S.square().sum())
    share = [float(value) / total if total else 0.0 for value in S[:2].square()]
    return {"points": points.tolist(), "share": share}


@torch.no_grad()
def leave_out(seen: Pass, text: str, labels: list[str]) -> dict[str, Any]:
    """The class probabilities when each word is left out of the text (N30)."""
    if seen.module.config.head != "classifier":
        raise InputError("This model knows no classes, so leaving a word out has no effect to show.")
    already = tuple(zero(head) for head in seen.question.mute)
    stack, rows = seen.top, []
    for word, places in words(seen, text):
        kept = [id for place, id in enumerate(seen.ids[stack]) if place not in places]
        if kept:
            with intervene(seen.module, *already):
                P = shares(seen.run(seen.module, {stack: kept}))
            rows.append({"word": word, "places": sorted(places), "p": P.tolist()})
    return {"labels": labels, "whole": shares(seen.trace["logits"]).tolist(), "words": rows}


def words(seen: Pass, text: str) -> list[tuple[str, set[int]]]:
    """The words of a text, as white space parts them, with the places of their tokens."""
    found: list[tuple[int, int, set[int]]] = []
    for place, token in enumerate(seen.tokens[seen.top]):
        start = token.start + len(text[token.start : token.end]) - len(text[token.start : token.end].lstrip())
        if token.end <= start:
            continue
        if found and not any(letter.isspace() for letter in text[found[-1][1] : start]) and start >= 0:
            first, end, places = found.pop()
            found.append((first, max(end, token.end), {*places, place}))
        else:
            found.append((start, token.end, {place}))
    return [(text[start:end], places) for start, end, places in found]
