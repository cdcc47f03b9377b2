"""Every head of a pass: where it looks, a thumbnail of its weights, and what changes when it is muted (N16, N19)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import InputError, suggest
from clearhead.inspection.capture import zero
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.predictions import check_position, probabilities
from clearhead.inspection.readings.tensors import stack_of
from clearhead.inspection.tokens import TextToken

THUMBNAIL = 48  # the most rows and columns
CONTENT_LETTERS = 4  # a word with fewer is rarely about anything


@dataclass(frozen=True)
class HeadStatistics:
    """Where a head looks; each number is the mean over its queries."""

    attention: str  # its sublayer, such as decoder.0.self
    head: int
    place: int  # among the heads of the sublayer that pruning left
    entropy: float  # in nats
    distance: float | None  # of the keys in tokens; None in cross-attention
    first: float  # weight on the first token
    previous: float | None  # weight on the token before; None in cross-attention
    largest: float


@dataclass(frozen=True)
class MuteEffect:
    """What muting one head does to a prediction."""

    attention: str
    head: int
    place: int
    moved: float  # KL(before, after) in nats
    change: float  # of the probability of what was likeliest before


@dataclass(frozen=True)
class StrongestPair:
    """The pair of words that a head connects most."""

    attention: str
    head: int
    query: int
    key: int
    weight: float


def heads_of(captured: Pass) -> Iterator[tuple[str, int, int]]:
    """Sublayer, number and place of every head, in order."""
    config = captured.module.config
    for name in config.attentions():
        for place, head in enumerate(config.heads(name)):
            yield name, head, place


def head_statistics(captured: Pass) -> list[HeadStatistics]:
    """The statistics of every head."""
    return [statistics_of(captured, *head) for head in heads_of(captured)]


def statistics_of(captured: Pass, attention: str, head: int, place: int) -> HeadStatistics:
    """The statistics of one head."""
    A = captured.trace[f"{attention}.weights"][0, place].double()  # (n, m)
    n, m = A.shape
    gap = (torch.arange(n)[:, None] - torch.arange(m)).abs()
    is_self = attention.endswith("self")
    return HeadStatistics(
        attention,
        head,
        place,
        entropy=float(torch.special.entr(A).sum(-1).mean()),
        distance=float((A * gap).sum(-1).mean()) if is_self else None,
        first=float(A[:, 0].mean()),
        previous=float(A.diagonal(-1).sum() / max(1, n - 1)) if is_self else None,
        largest=float(A.amax(-1).mean()),
    )


def strongest_pairs(captured: Pass, attention: str) -> list[StrongestPair]:
    """Of every head of a sublayer the pair to look at first: of two long words the one with the largest weight."""
    found = [
        StrongestPair(name, head, *strongest_pair(captured, name, place))
        for name, head, place in heads_of(captured)
        if name == attention
    ]
    names = captured.module.config.attentions()
    if attention not in names:
        raise InputError(f"{attention} is not an attention of this model. {suggest(attention, names)}")
    return found


def strongest_pair(captured: Pass, attention: str, place: int) -> tuple[int, int, float]:
    """Query, key and weight of the strongest pair of different words; of any two tokens where there are none."""
    A = captured.trace[f"{attention}.weights"][0, place]  # (n, m)
    stack = attention.split(".")[0]
    is_self = attention.endswith("self")
    queries, keys = (
        letters_of(captured.tokens[stack]),
        letters_of(captured.tokens[stack if is_self else "encoder"]),
    )
    visible = torch.ones_like(A, dtype=torch.bool)
    if is_self:
        visible = ~torch.eye(len(A), dtype=torch.bool)
    if is_self and stack_of(captured, stack).causal:
        visible = visible.tril()
    for least in range(CONTENT_LETTERS, -1, -1):
        pairs = visible & (queries >= least)[:, None] & (keys >= least)
        if bool(pairs.any()):
            A = torch.where(pairs, A, -1.0)
            break
    i, j = divmod(int(A.argmax()), A.shape[1])
    return i, j, float(A[i, j])


def letters_of(tokens: list[TextToken]) -> Tensor:
    """How many letters each token has; a special one has none."""
    return torch.tensor([0 if token.special else sum(map(str.isalnum, token.text)) for token in tokens])


def thumbnails(captured: Pass) -> dict[str, Tensor]:
    """A thumbnail of each head, by sublayer (h, rows, columns): the largest weight of every field."""
    pictures = {}
    for name in captured.module.config.attentions():
        A = captured.trace[f"{name}.weights"]
        if not A.shape[1]:  # pruned
            continue
        size = (min(THUMBNAIL, A.shape[2]), min(THUMBNAIL, A.shape[3]))
        pictures[name] = F.adaptive_max_pool2d(A, size)[0]
    return pictures


def mute_effects(captured: Pass, position: int) -> list[MuteEffect]:
    """How far the prediction after a token moves when each head is muted, by itself."""
    check_position(captured, captured.top, position)
    if captured.module.config.head == "none":
        raise InputError("This model has no head, so it predicts nothing that muting could change.")
    before = probabilities(captured.trace["logits"], position)
    best, effects = int(before.argmax()), []
    for attention, head, place in heads_of(captured):
        after = probabilities(captured.rerun(zero(f"{attention}.{head}")), position)
        moved = float((torch.special.xlogy(before, before) - torch.special.xlogy(before, after)).sum())
        effects.append(MuteEffect(attention, head, place, moved, float(after[best] - before[best])))
    return effects
