"""What each head does: where it looks, on average over the queries of a data set, and on repeated random tokens (N46).

previous, first, itself   the weight on the token before, on the first one, on the query's own; previous and first not
                          of the first query, which has no other token before it
same                      the weight on other tokens with the query's id, where there are any
entropy, distance         of the weights in nats; of the keys in tokens
largest                   the largest weight of a query
diagonal                  of cross-attention: the weight within one token of the place that the lengths suggest
induction                 on R R, random tokens twice: the weight on the token after the query's first occurrence
                          (Olsson et al., 2022); only of a decoder
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from clearhead.data.frames import document_frame, target_frame
from clearhead.decoding.generate import tokenizer_of
from clearhead.errors import DataError
from clearhead.inspection.capture import edit, intervene
from clearhead.inspection.heads.importance import headed
from clearhead.layers.masks import real_tokens
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs

ROWS, LENGTH = 8, 24  # of the repeated random tokens
Measure = Callable[
    [str, Tensor], Mapping[str, tuple[Tensor, int]]
]  # of weights: name -> (sums (h,), how many)
Pairs = Mapping[str, Sequence[tuple[int, int]]]  # by relation, queries and keys


@dataclass(frozen=True)
class HeadRole:
    """Where one head looks; None where a number has no meaning for it."""

    entropy: float
    largest: float
    previous: float | None = None
    first: float | None = None
    itself: float | None = None
    same: float | None = None
    distance: float | None = None
    diagonal: float | None = None
    induction: float | None = None


class WeightSums:
    """Sums over the queries of each head, of numbers read off its weights while the model runs."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], Tensor] = {}
        self.counts: dict[tuple[str, str], int] = {}

    def add(self, attention: str, found: Mapping[str, tuple[Tensor, int]]) -> None:
        """Adds what was measured in one pass."""
        for name, (values, count) in found.items():
            key = attention, name
            self.sums[key] = self.sums.get(key, torch.zeros_like(values)) + values
            self.counts[key] = self.counts.get(key, 0) + count

    def means(self, attention: str, place: int) -> dict[str, float]:
        """The means of one head."""
        return {
            name: float(values[place]) / count
            for (of, name), values in self.sums.items()
            if of == attention and (count := self.counts[of, name])
        }


@torch.no_grad()
def read_weights(model: Any, inputs: Inputs, measure: Measure, sums: WeightSums) -> None:
    """Measures the weights of every sublayer as they pass; none is kept."""
    module, config = headed(model)

    def reader(name: str) -> Callable[[Tensor], Tensor]:
        def read(A: Tensor) -> Tensor:
            sums.add(name, measure(name, A.cpu().double()))
            return A

        return read

    names = [name for name in config.attentions() if config.heads(name)]
    with intervene(module, *(edit(f"{name}.weights", reader(name)) for name in names)):
        module.vectors(inputs)


def head_roles(
    model: Any, batches: Iterable[Inputs], start: Sequence[int] = (), seed: int = 1
) -> dict[str, HeadRole]:
    """The role of every head over a data set; `start` are the ids that begin every text."""
    _, config = headed(model)
    sums, is_empty = WeightSums(), True
    for inputs in batches:
        read_weights(model, inputs, lambda name, A, now=inputs: measured(name, A, now), sums)  # type: ignore[misc]
        is_empty = False
    if is_empty:
        raise DataError("There are no texts to look at.\nGive data that this model could be evaluated on.")
    induction = induction_scores(model, start, seed)
    return {
        f"{name}.{head}": HeadRole(**sums.means(name, place), induction=induction.get(f"{name}.{head}"))
        for name in config.attentions()
        for place, head in enumerate(config.heads(name))
    }


def measured(
    name: str, A: Tensor, inputs: Inputs, rows: slice = slice(None)
) -> dict[str, tuple[Tensor, int]]:
    """Sums over the real queries of weights A (b, h, n, m), and how many queries they are of.

    With `rows` the weights are those of some queries only.
    """
    is_source = name.startswith("encoder.") and inputs.source is not None
    ids = inputs.source if is_source else inputs.tokens
    assert ids is not None
    m = A.shape[3]
    lengths = real_tokens(inputs.source_counts if is_source else inputs.counts, ids.shape[1])
    whole = torch.ones(ids.shape, dtype=torch.bool) if lengths is None else lengths.cpu()
    real = whole[:, rows]

    def total(values: Tensor, which: Tensor = real) -> tuple[Tensor, int]:  # values (b, h, n)
        return (values * which[:, None]).sum((0, 2)), int(which.sum())

    found = {"entropy": total(torch.special.entr(A).sum(-1)), "largest": total(A.amax(-1))}
    at, to = torch.arange(ids.shape[1])[rows, None], torch.arange(m)
    if name.endswith("cross"):
        keys = torch.full((len(A),), m) if inputs.source_counts is None else inputs.source_counts.cpu()
        expected = at * (keys / whole.sum(1))[:, None, None]  # (b, n, 1)
        return found | {
            "first": total(A[..., 0]),
            "diagonal": total((A * ((to - expected).abs() <= 1)[:, None]).sum(-1)),
        }
    other = (ids[:, rows, None] == ids[:, None, :]).cpu() & (at != to) & whole[:, None]  # (b, n, m)
    if name.startswith("decoder."):
        other &= to < at
    later = real & (at[:, 0] > 0)
    return found | {
        "previous": total((A * (at - to == 1)).sum(-1), later),
        "first": total(A[..., 0], later),
        "itself": total((A * (at == to)).sum(-1)),
        "same": total((A * other[:, None]).sum(-1), other.any(-1) & real),
        "distance": total((A * (at - to).abs()).sum(-1)),
    }


def start_of(bundle: Bundle) -> tuple[int, ...]:
    """The ids that begin every text of a decoder."""
    if bundle.tokenizer is None or bundle.config.shape == "encoder":
        return ()
    specials = tokenizer_of(bundle.tokenizer).specials
    return (target_frame if bundle.module.translates else document_frame)(specials).before


def induction_scores(model: Any, start: Sequence[int] = (), seed: int = 1) -> dict[str, float]:
    """How much each head of a decoder looks at what followed the query's first occurrence."""
    by_query = induction_by_query(model, start, seed)
    return {name: sum(weights) / len(weights) for name, weights in by_query.items()}


def induction_by_query(model: Any, start: Sequence[int] = (), seed: int = 1) -> dict[str, list[float]]:
    """The same for each of the repeated tokens, in the mean over the texts; empty where there is no room for two."""
    module, config = headed(model)
    if config.shape == "encoder":
        return {}
    room = LENGTH if config.context is None else min(LENGTH, (config.context - len(start)) // 2)
    if room < 2:
        return {}
    generator = torch.Generator().manual_seed(seed)
    room = min(room, config.vocabulary)
    # Without repetition, so that one token is the right one.
    R = torch.stack([torch.randperm(config.vocabulary, generator=generator)[:room] for _ in range(ROWS)])
    tokens = torch.cat([torch.tensor(start, dtype=torch.long).expand(ROWS, -1), R, R], 1)
    source = torch.randint(config.vocabulary_encoder, (ROWS, room), generator=generator)
    at = torch.arange(room) + len(start) + room
    found: dict[str, list[float]] = {}

    def measure(name: str, A: Tensor) -> dict[str, tuple[Tensor, int]]:
        if name.startswith("decoder.") and not name.endswith("cross"):
            means = A[:, :, at, at - room + 1].mean(0)  # (h, n)
            heads = zip(config.heads(name), means.tolist(), strict=True)
            found.update((f"{name}.{head}", weights) for head, weights in heads)
        return {}

    device = next(module.parameters()).device
    given = Inputs(tokens.to(device), source=source.to(device) if module.translates else None)
    read_weights(model, given, measure, WeightSums())
    return found


def relation_weights(
    model: Any, texts: Iterable[tuple[Inputs, Pairs]], attention: str = "*"
) -> dict[str, dict[str, float]]:
    """By relation and head, the mean weight from queries to keys that are related, such as *he* and *John*.

    Each text is a single row, with the positions that are related in it.
    """
    _, config = headed(model)
    sums = WeightSums()
    for inputs, pairs in texts:

        def measure(name: str, A: Tensor, now: Pairs = pairs) -> dict[str, tuple[Tensor, int]]:
            if not fnmatchcase(name, attention):
                return {}
            return {
                relation: (A[0][:, [i for i, _ in some], [j for _, j in some]].sum(-1), len(some))
                for relation, some in now.items()
                if some
            }

        read_weights(model, inputs, measure, sums)
    found: dict[str, dict[str, float]] = {}
    for name in config.attentions():
        for place, head in enumerate(config.heads(name)):
            for relation, value in sums.means(name, place).items():
                found.setdefault(relation, {})[f"{name}.{head}"] = value
    return found


def strongest_role(role: HeadRole) -> str:
    """The word for where a head looks most; empty if it looks nowhere in particular."""
    shares = {
        key: value
        for key, value in asdict(role).items()
        if key not in ("entropy", "distance", "largest") and value is not None
    }
    name, share = max(shares.items(), key=lambda item: item[1], default=("", 0.0))
    return name if share >= 0.4 else ""
