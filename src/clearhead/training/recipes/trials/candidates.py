"""The recipes to try: the one that the rules chose, and others of different families and tokens, for the same data.

What the user has stated is the same in all of them; a candidate that it excludes is not tried.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.config.run import RunConfig
from clearhead.errors import ConfigError
from clearhead.training.recipes.data_sample import DataSample
from clearhead.training.recipes.sizing import MOST_CONTEXT
from clearhead.training.recipes.tokens import MOST_TOKENS

Table = dict[str, dict[str, Any]]

RULE = "the rule"
LETTERS_A_WORD = 4  # about, with the space after it; fewer than most languages have
LONG_CONTEXT, TEXTS_AT_ONCE = (
    4096,
    8,
)  # of filters, which have no attention that grows with the square of a text

WORDS: dict[str, Any] = {"kind": "word", "vocabulary": MOST_TOKENS, "lowercase": True}
PIECES: dict[str, Any] = {"kind": "bpe", "vocabulary": 8192, "lowercase": True}
FILTERS: dict[str, Any] = {"family": "convolutional", "dropout": 0.5, "token_dropout": 0.1}
MEAN: dict[str, Any] = FILTERS | {"widths": [1, 2], "pool": "mean", "token_dropout": 0.2}
QUICK = {"learning_rate": 0.01}  # vectors of words move far in few steps, and nothing deep is above them

# The quickest first: if there is no time for all, the last are not tried.
TEXT: dict[str, Table] = {
    "mean over words": {
        "tokenizer": WORDS,
        "model": MEAN | {"d": 128, "dropout": 0.3},
        "training": QUICK,
    },
    "filters over words": {
        "tokenizer": WORDS, "model": FILTERS | {"d": 128, "widths": [2, 3, 4]}, "training": QUICK,
    },
    "mean over words, in small steps": {"tokenizer": WORDS, "model": MEAN | {"d": 96}},
    "filters over pieces": {
        "tokenizer": PIECES, "model": FILTERS | {"d": 128, "widths": [2, 3, 4]}, "training": QUICK,
    },
    "filters, then attention": {
        "tokenizer": WORDS,
        "model": {
            "d": 64, "h": 2, "encoder_blocks": 1, "convolution": 3, "dropout": 0.5, "token_dropout": 0.1,
            "initial_deviation": 0.02, "norm_epsilon": 1.0, "feedforward": "relu2", "zero_outputs": True,
        },
    },
}  # fmt: skip
SINGLE_LETTERS: dict[str, Any] = {"kind": "dna"}
FAST: dict[str, Any] = {"query_key_norm": True, "feedforward": "relu2", "zero_outputs": True}
DNA: dict[str, Table] = {
    "letters under a filter, at learned positions": {
        "tokenizer": SINGLE_LETTERS,
        "model": {"d": 64, "h": 2, "encoder_blocks": 1, "convolution": 9, "positions": "learned", "pool": "max",
                  "dropout": 0.2} | FAST,
        "training": {"epochs": 16.0},
    },
    "letters under a filter": {
        "tokenizer": SINGLE_LETTERS,
        "model": {"d": 64, "h": 2, "encoder_blocks": 2, "convolution": 9, "dropout": 0.1} | FAST,
        "training": {"epochs": 12.0},
    },
    "filters over letters": {
        "tokenizer": SINGLE_LETTERS,
        "model": {"family": "convolutional", "d": 96, "widths": [7, 15], "dropout": 0.2},
        "training": {"epochs": 16.0},
    },
}  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A recipe to try, and its name in the table of trials."""

    name: str
    run: RunConfig


def candidates_for(run: RunConfig, sample: DataSample, stated: Mapping[str, str]) -> list[Candidate]:
    """The recipe of the rules, and those of other families and tokens that what is stated allows."""
    found = [Candidate(RULE, run)]
    for name, table in (DNA if sample.is_dna else TEXT).items():
        try:
            changed = RunConfig.model_validate(RunConfig.overridden(tables_of(run, table, sample), stated))
        except ConfigError:  # a stated setting that this family does not have
            continue
        if all(
            changed.model != other.run.model or changed.tokenizer != other.run.tokenizer for other in found
        ):
            found.append(Candidate(name, changed))
    return found


def tables_of(run: RunConfig, table: Table, sample: DataSample) -> dict[str, Any]:
    """The tables of a recipe with those of a candidate: another tokenizer and model, and some of the training."""
    given = run.model_dump(mode="json", exclude_unset=True)
    # The rules measured the context in their own tokens; where those are groups of letters, single ones need more room.
    context = (run.model.context or MOST_CONTEXT) * (run.tokenizer.k if run.tokenizer.kind == "dna" else 1)
    training, own = given.get("training", {}), table.get("training", {})
    most, more = MOST_CONTEXT, {"epochs": max(own.get("epochs", 0.0), training.get("epochs") or 0.0)}
    if context >= MOST_CONTEXT and table["model"].get("family") == "convolutional":
        letters = 1 if sample.is_dna else LETTERS_A_WORD
        most = context = min(LONG_CONTEXT, max(MOST_CONTEXT, sample.quantile(0.99) // letters))
        more["batch_tokens"] = max(run.training.batch_tokens, TEXTS_AT_ONCE * context)
    return given | {
        "tokenizer": dict(table["tokenizer"]),
        "model": {"context": min(most, context)} | table["model"],
        "training": training | own | more,
    }
