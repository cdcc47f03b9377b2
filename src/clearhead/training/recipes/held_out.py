"""What is held out to measure a model: a sample of the data enters; shares and a seed for the split leave."""

import logging
from typing import Any

from clearhead.config.data import DataConfig
from clearhead.examples import Example, Kind, Labelled
from clearhead.text.sources.held_out import split_of
from clearhead.training.recipes.choices import Choices
from clearhead.training.recipes.data_sample import DataSample, sample_data, texts_of

log = logging.getLogger(__name__)

MUCH_TEXT = 500_000  # characters; with fewer, chunks of the usual length are too few to hold some out
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)  # of the data to hold out
SEEDS = range(1, 40)
# Characters of text, or examples, that are enough to measure with.
ENOUGH: dict[Kind, int] = {"text": 50_000, "pair": 1000, "labelled": 2000}


def choose_held_out(choices: Choices, kind: Kind, sample: DataSample) -> None:
    """Chooses the shares of the data to measure the model on, from which it does not learn."""
    data = DataConfig(**choices.table["data"])
    if data.is_builtin or choices.has("data.validation"):
        return
    if kind == "text" and sample.characters < MUCH_TEXT:
        length = max(160, min(2048, sample.characters // 60))
        choices.choose("short chunks, so that some can be held out", data__chunk_characters=length)
        sample = sample_data(DataConfig(**choices.table["data"]), kind)
    share, has_test = share_of(sample, kind), kind != "text" and sample.count >= 2000
    seeds = (seed for seed in SEEDS if is_fair(sample, share, has_test, seed))
    seed = next(seeds, None) if sample.is_whole else 1
    if seed is None:
        count = len(sample.examples)
        log.warning("Only %d example%s: quality cannot be measured.", count, "s" * (count != 1))
        choices.choose("nothing is held out, as there is too little data", data__validation=0.0)
        return
    chosen: dict[str, Any] = {"data__validation": share}
    chosen |= {"data__test": share} if has_test else {}
    chosen |= {"data__seed": seed} if seed > 1 else {}
    choices.choose(
        "held out to choose the best model and to measure it"
        if has_test
        else "held out to measure the model",
        **chosen,
    )


def share_of(sample: DataSample, kind: Kind) -> float:
    """The share to hold out: enough to measure with, but a small part of the data."""
    whole, enough = (sample.characters if kind == "text" else sample.count), ENOUGH[kind]
    if SHARES[0] * whole > enough:
        return float(f"{enough / whole:.1g}")
    return next((share for share in SHARES if share * whole >= min(enough, 0.08 * whole)), SHARES[-1])


def is_fair(sample: DataSample, share: float, has_test: bool, seed: int) -> bool:
    """Whether a split holds out about what it should, and leaves every label to training."""
    shares = {"validation": share} | ({"test": share} if has_test else {})
    sides: dict[str, list[Example]] = {"train": [], "validation": [], "test": []}
    for example in sample.examples:
        sides[split_of(example, shares, seed)].append(example)
    labels = {
        label for example in sides["train"] if isinstance(example, Labelled) for label in example.labels
    }
    amount = sum(len(texts_of(example)[0]) for example in sides["validation"])
    wanted = share * sum(len(texts_of(example)[0]) for example in sample.examples)
    return bool(sides["train"]) and wanted / 2 < amount < 3 * wanted and labels.issuperset(sample.labels)
