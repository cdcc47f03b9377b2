"""What two experiments on heads share: pairs of texts enter; the patching score of every head at every token leaves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

import clearhead
from clearhead.config.model import ModelConfig
from clearhead.inspection.attribution.goals import Logit
from clearhead.inspection.attribution.patching import activation_patching
from clearhead.inspection.heads.importance import head_names


@dataclass(frozen=True)
class Contrast:
    """Two texts that differ in a word, and the two answers that they ask for."""

    clean: str
    corrupted: str
    right: str  # after the clean text
    wrong: str  # after the corrupted one
    target: str | None = None  # of a translator, as far as it is read


def id_of(model: clearhead.Model, word: str) -> int:
    """The id of a word that is one token."""
    (id,) = model.tokenizer.encode(word)
    return id


def is_known(model: clearhead.Model, contrast: Contrast) -> bool:
    """Whether the model answers both texts rightly, of the two answers."""
    goal = Logit(id_of(model, contrast.right), id_of(model, contrast.wrong))
    with torch.no_grad():
        ends = [
            float(goal(model.module(model.inputs(text, contrast.target))))
            for text in (contrast.clean, contrast.corrupted)
        ]
    return ends[0] > 0 > ends[1]


def mean_scores(model: clearhead.Model, contrasts: Iterable[Contrast]) -> tuple[list[str], list[list[float]]]:
    """Heads, and the mean score of each at each token over contrasts of as many tokens; 0 where it reads none."""
    config = model.config
    assert isinstance(config, ModelConfig)
    places, total, count = head_names(config), torch.zeros(0), 0
    for one in contrasts:
        goal = Logit(id_of(model, one.right), id_of(model, one.wrong))
        found = activation_patching(
            model, model.inputs(one.clean, one.target), model.inputs(one.corrupted, one.target), goal, places
        )
        total, count = found.scores.nan_to_num() + (total if count else 0), count + 1
    return places, (total / count).tolist()


def strongest(
    places: Sequence[str], scores: Sequence[Sequence[float]], count: int
) -> list[tuple[str, int, float]]:
    """The heads with the largest scores, each with the token where."""
    best = [
        (place, max(range(len(row)), key=row.__getitem__)) for place, row in zip(places, scores, strict=True)
    ]
    rows = dict(zip(places, scores, strict=True))
    return sorted(((place, at, rows[place][at]) for place, at in best), key=lambda one: -one[2])[:count]
