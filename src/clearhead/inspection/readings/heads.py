"""Every head of a pass: where it looks, a thumbnail of its weights, and what changes when it is muted (N16, N19)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import InputError, suggest
from clearhead.inspection.capture import edit, intervene
from clearhead.inspection.heads.importance import headed
from clearhead.inspection.heads.roles import HeadRole, WeightSums, induction_by_query, measured, start_of
from clearhead.inspection.pass_bytes import inputs_of
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.predictions import check_position, probabilities
from clearhead.inspection.readings.tensors import stack_of
from clearhead.inspection.tokens import TextToken

THUMBNAIL = 48  # the most rows and columns
MUTED_TOKENS = 1024  # that are computed at once, as rows of a batch in each of which another head is muted
CONTENT_LETTERS = 4  # a word with fewer is rarely about anything


@dataclass(frozen=True)
class HeadStatistics(HeadRole):
    """Where a head looks in this text."""

    attention: str = ""  # its sublayer, such as decoder.0.self
    head: int = 0
    place: int = 0  # among the heads of the sublayer that pruning left


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
    config = captured.module.config
    names = [name for name in config.attentions() if config.heads(name)]  # pruning leaves some without
    return [one for name in names for one in statistics_of(captured, name, config.heads(name))]


def statistics_of(captured: Pass, attention: str, heads: Sequence[int]) -> list[HeadStatistics]:
    """The statistics of the heads of a sublayer, from sums over its queries."""
    sums, inputs = WeightSums(), inputs_of(captured.module, captured.ids)
    for rows, _, weights in captured.trace.attention_parts(attention):
        for place in range(len(heads)):  # one at a time, as they are in double
            found = measured(attention, weights[None, [place]].double(), inputs, rows)
            sums.add(f"{attention}.{place}", found)
    return [
        HeadStatistics(**sums.means(f"{attention}.{place}", 0), attention=attention, head=head, place=place)
        for place, head in enumerate(heads)
    ]


def induction(captured: Pass) -> dict[str, list[float]]:
    """By head, its weight on what followed the first occurrence of each of some random tokens written twice."""
    headed(captured.module)
    with intervene(captured.module, *captured.muted):
        return induction_by_query(captured.module, start_of(captured.inspector.bundle))


def strongest_pairs(captured: Pass, attention: str) -> list[StrongestPair]:
    """Of every head of a sublayer the pair to look at first: of two long words the one with the largest weight."""
    check_attention(captured, attention)
    if not (heads := captured.module.config.heads(attention)):  # pruned
        return []
    best: list[tuple[int, tuple[int, int, float]]] = [(-1, (0, 0, -1.0))] * len(heads)
    for rows, _, weights in captured.trace.attention_parts(attention):
        least, pairs = pairs_of_words(captured, attention, rows)
        for place, A in enumerate(torch.where(pairs, weights, -1.0) if least >= 0 else weights):
            i, j = divmod(int(A.argmax()), A.shape[1])
            found = least, (rows.start + i, j, float(A[i, j]))
            # Longer words come first, then the larger weight.
            best[place] = max(best[place], found, key=lambda one: (one[0], one[1][2]))
    return [StrongestPair(attention, head, *pair) for head, (_, pair) in zip(heads, best, strict=True)]


def check_attention(captured: Pass, attention: str) -> None:
    """Rejects the name of a sublayer that the model does not have."""
    names = captured.module.config.attentions()
    if attention not in names:
        raise InputError(f"{attention} is not an attention of this model. {suggest(attention, names)}")


def pairs_of_words(captured: Pass, attention: str, rows: slice) -> tuple[int, Tensor]:
    """The pairs of different words that some queries can see, of the longest there are: letters, and (n, m).

    The letters are negative if they see no other word.
    """
    stack, is_self = attention.split(".")[0], attention.endswith("self")
    queries = letters_of(captured.tokens[stack])[rows]
    keys = letters_of(captured.tokens[stack if is_self else "encoder"])
    gap = torch.arange(rows.start, rows.stop)[:, None] - torch.arange(len(keys))
    visible = torch.ones_like(gap, dtype=torch.bool)
    if is_self:
        visible = gap > 0 if stack_of(captured, stack).causal else gap != 0
    for least in range(CONTENT_LETTERS, -1, -1):
        pairs = visible & (queries >= least)[:, None] & (keys >= least)
        if bool(pairs.any()):
            return least, pairs
    return -1, visible


def letters_of(tokens: list[TextToken]) -> Tensor:
    """How many letters each token has; a special one has none."""
    return torch.tensor([0 if token.special else sum(map(str.isalnum, token.text)) for token in tokens])


def thumbnails(captured: Pass) -> dict[str, Tensor]:
    """A thumbnail of each head, by sublayer (h, rows, columns): the largest weight of every field."""
    pictures = {}
    for name in captured.module.config.attentions():
        if not captured.module.config.heads(name):  # pruned
            continue
        # Columns first, so that the rows of all parts can be pooled together: the largest of the largest.
        parts = [
            F.adaptive_max_pool2d(A, (A.shape[1], min(THUMBNAIL, A.shape[2])))
            for _, _, A in captured.trace.attention_parts(name)
        ]
        X = torch.cat(parts, 1)
        pictures[name] = F.adaptive_max_pool2d(X, (min(THUMBNAIL, X.shape[1]), X.shape[2]))
    return pictures


def mute_effects(captured: Pass, position: int, attention: str | None = None) -> list[MuteEffect]:
    """How far the prediction after a token moves when each head, of one sublayer or of all, is muted by itself."""
    check_position(captured, captured.top, position)
    config = captured.module.config
    if config.head == "none":
        raise InputError("This model has no head, so it predicts nothing that muting could change.")
    if attention is not None:
        check_attention(captured, attention)
    before, effects = probabilities(captured, captured.trace.row(position)), []
    best, entropy = int(before.argmax()), torch.special.entr(before).sum()
    for name in config.attentions() if attention is None else [attention]:
        if not config.heads(name):  # pruned
            continue
        after = without_each_head(captured, name, position)  # (h, vocabulary)
        moved = -entropy - torch.special.xlogy(before, after).sum(-1)
        change = after[:, best] - before[best]
        effects += [
            MuteEffect(name, head, place, float(moved[place]), float(change[place]))
            for place, head in enumerate(config.heads(name))
        ]
    return effects


def without_each_head(captured: Pass, attention: str, position: int) -> Tensor:
    """The probabilities after a position with each head of a sublayer muted: heads are the rows of a batch."""
    count, n = len(captured.module.config.heads(attention)), sum(map(len, captured.ids.values()))
    found = []
    for rows in torch.arange(count).split(max(1, MUTED_TOKENS // n)):
        mute = partial(mute_heads, rows[:, None] == torch.arange(count))
        Z = captured.rerun_rows(edit(f"{attention}.heads", mute), rows=len(rows), position=position)
        found.append(probabilities(captured, Z))
    return torch.cat(found)


def mute_heads(muted: Tensor, X: Tensor) -> Tensor:
    """X (b, h, n, d_v) with zeros for the heads that are marked in each row (b, h)."""
    return X.masked_fill(muted[..., None, None], 0.0)
