"""The recipes to try: the one that the rules chose, and others of different families and tokens, for the same data.

What the user has stated is the same in all of them; a candidate that it excludes is not tried.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.config.run import RunConfig
from clearhead.errors import ConfigError
from clearhead.training.recipes.data_sample import DataSample
from clearhead.training.recipes.sizing import MOST_CONTEXT, SIZES, stacks_of
from clearhead.training.recipes.tokens import MOST_TOKENS

Table = dict[str, dict[str, Any]]

RULE = "the rule"
LETTERS_A_WORD = 4  # about, with the space after it; fewer than most languages have
LONG_CONTEXT, TEXTS_AT_ONCE = (
    4096,
    8,
)  # of filters, which have no attention that grows with the square of a text
LETTERS_AT_ONCE, FEWEST_BATCHES = 32_768, 40  # of a batch of letters, at most; batches of an epoch, at least
FEWEST_STEPS = 300  # in which runs of letters are learned
# Rows of the table of runs, of which few should share one; and its numbers, as every step changes all of them.
FEWEST_ROWS, MOST_ROWS, LETTERS_A_ROW, MOST_TABLE_NUMBERS = 1 << 13, 1 << 19, 2, 1 << 23

WORDS: dict[str, Any] = {"kind": "word", "vocabulary": MOST_TOKENS, "lowercase": True}
LETTER_TOKENS: dict[str, Any] = {"kind": "character", "vocabulary": 512, "lowercase": True}
FILTERS: dict[str, Any] = {"family": "convolutional", "dropout": 0.5, "token_dropout": 0.1}
MEAN: dict[str, Any] = FILTERS | {"widths": [1, 2], "pool": "mean", "token_dropout": 0.2}
RUNS: dict[str, Any] = {
    "family": "convolutional", "encoder_blocks": 0, "pool": "root", "ngrams": [3, 4, 5], "ngram_words": 2,
    "ngram_repeats": "log", "token_dropout": 0.5,
}  # fmt: skip
QUICK = {"learning_rate": 0.01}  # vectors of words move far in few steps, and nothing deep is above them
# A run that was seen once would be memorised; what is not confirmed again is forgotten.
FORGETTING = {"learning_rate": 0.02, "weight_decay": 1.0, "epochs": 6.0}

# The most useful first: if there is no time for all, the last are not tried.
TEXT: dict[str, Table] = {
    "runs of letters and words": {"tokenizer": LETTER_TOKENS, "model": RUNS, "training": FORGETTING},
    "filters over words": {
        "tokenizer": WORDS, "model": FILTERS | {"d": 128, "widths": [2, 3, 4]}, "training": QUICK,
    },
    "mean over words": {
        "tokenizer": WORDS,
        "model": MEAN | {"d": 128, "dropout": 0.3},
        "training": QUICK,
    },
}  # fmt: skip
SINGLE_LETTERS: dict[str, Any] = {"kind": "dna"}
STEADY: dict[str, Any] = {"average": "exponential", "average_decay": 0.99, "batch_tokens": 2700}
MOTIFS: dict[str, Any] = {"family": "convolutional", "d": 128, "token_d": 16, "dropout": 0.3}
CODONS: dict[str, Any] = {"ngrams": [3], "ngram_rows": 4096, "period": 3}
DNA: dict[str, Table] = {
    "filters at learned positions, and codons": {
        "tokenizer": SINGLE_LETTERS,
        "model": MOTIFS | {"d": 80, "token_d": 32, "widths": [11], "positions": "learned"} | CODONS,
        "training": STEADY | {"epochs": 12.0, "learning_rate": 0.01},
    },
    "wide filters": {
        "tokenizer": SINGLE_LETTERS,
        "model": MOTIFS | {"token_d": 8, "widths": [31], "dropout": 0.1},
        "training": STEADY | {"epochs": 12.0},
    },
}  # fmt: skip


ONCE = {
    "evaluate_every": 1_000_000
}  # steps: more than any trial has, so that a run is evaluated at its end only
VECTORS = ("filters over words", "mean over words")  # which can start from vectors of unlabelled texts
ONLY_FROM_VECTORS = ("mean over words",)  # which has won no trial without them


@dataclass(frozen=True)
class Candidate:
    """A recipe to try, and its name in the table of trials."""

    name: str
    run: RunConfig


def candidates_for(run: RunConfig, sample: DataSample, stated: Mapping[str, str]) -> list[Candidate]:
    """The recipe of the rules, and those of other families and tokens that what is stated allows."""
    found = [Candidate(RULE, run)]
    tables = DNA if sample.is_dna else TEXT
    # Where positions mean nothing, what does not use them comes first.
    names = reversed(tables) if sample.is_dna and not sample.lines_up else tables
    for name in names:
        if name in ONLY_FROM_VECTORS:
            continue
        table = tables[name]
        try:
            changed = RunConfig.model_validate(RunConfig.overridden(tables_of(run, table, sample), stated))
        except ConfigError:  # a stated setting that this family does not have
            continue
        if all(
            changed.model != other.run.model or changed.tokenizer != other.run.tokenizer for other in found
        ):
            found.append(Candidate(name, changed))
    return found


def with_vectors(
    run: RunConfig, sample: DataSample, stated: Mapping[str, str], vectors: Callable[[RunConfig, int], Path]
) -> list[Candidate]:
    """Candidates whose words start from vectors of unlabelled texts; `vectors` gives their folder for a width."""
    found = []
    for name in VECTORS:
        try:
            changed = RunConfig.model_validate(
                RunConfig.overridden(tables_of(run, TEXT[name], sample), stated)
            )
        except ConfigError:
            continue
        if changed.tokenizer.kind == "word" and changed.model.family == "convolutional":
            folder = str(vectors(changed, changed.model.width_tokens))
            training = changed.training.replace(embeddings_from=folder)
            found.append(
                Candidate(f"{name}, from vectors of unlabelled texts", changed.replace(training=training))
            )
    return found


def larger_candidates(
    run: RunConfig, recipe_with: Callable[[dict[str, str]], RunConfig], stated: Mapping[str, str]
) -> list[Candidate]:
    """For texts and pairs: the recipe of the rules, and what more time favours.

    A trial is far shorter than the run. A larger model, more tokens or smaller steps that win in a short trial win all
    the more in a long run; of their opposites a short trial says nothing.
    """
    names = stacks_of(run.model.shape)
    larger = next((size for size in SIZES if size > (run.model.d, getattr(run.model, names[0]))), None)
    changes: dict[str, dict[str, Any]] = {}
    if larger is not None:
        changes["a larger model"] = {"model.d": larger[0], **{f"model.{name}": larger[1] for name in names}}
    if run.tokenizer.kind == "bpe" and run.tokenizer.vocabulary:
        changes["more tokens"] = {"tokenizer.vocabulary": 2 * run.tokenizer.vocabulary}
    rates = ("learning_rate", "matrix_rate")
    changes["smaller steps"] = {f"training.{rate}": getattr(run.training, rate) / 2 for rate in rates}
    found = [Candidate(RULE, run)]
    for name, settings in changes.items():
        if stated.keys() & settings.keys():
            continue
        try:
            found.append(Candidate(name, recipe_with({key: str(value) for key, value in settings.items()})))
        except ConfigError:  # does not go with what is stated, such as a number of heads
            continue
    return found


def tables_of(run: RunConfig, table: Table, sample: DataSample) -> dict[str, Any]:
    """The tables of a recipe with those of a candidate: another tokenizer and model, and some of the training."""
    given = run.model_dump(mode="json", exclude_unset=True)
    training = given.get("training", {})
    epochs = {"epochs": table.get("training", {}).get("epochs") or training.get("epochs") or 0.0}
    # In its trial a candidate was trained to the end. With a validation loss that is smallest in the middle, when steps
    # are still large, the model of that step would be kept: it labels fewer texts rightly.
    training = training | epochs | at_the_end(training.get("average")) | table.get("training", {})
    model = table["model"]
    if table["tokenizer"]["kind"] == "character":
        model, more = fitting_runs(sample)
        model, training = table["model"] | model, training | more
    else:
        context, more = context_of(run, table, sample)
        model, training = {"context": context} | table["model"], training | more
    return given | {"tokenizer": dict(table["tokenizer"]), "model": model, "training": training}


def at_the_end(average: str | None) -> dict[str, Any]:
    """The setting for one evaluation, after the last step, unless what is stated averages over evaluations."""
    return {} if average == "last" else ONCE


def fitting_runs(sample: DataSample) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sizes of a model of runs of letters for some data, and of its batches."""
    characters, classes = sample.characters, len(sample.labels)
    d = 4 if classes < 3 else min(64, 8 * -(-classes // 8))  # room for a direction per class, or nearly
    rows = min(MOST_ROWS, MOST_TABLE_NUMBERS // d, characters // LETTERS_A_ROW)
    batch = max(1024, min(LETTERS_AT_ONCE, characters // FEWEST_BATCHES))
    model = {
        "d": d,
        "ngram_rows": 1 << (max(FEWEST_ROWS, rows) - 1).bit_length(),
        "context": min(LONG_CONTEXT, sample.quantile(0.99) + 2),
    }
    epochs = max(FORGETTING["epochs"], FEWEST_STEPS * batch / max(1, characters))
    return model, {"batch_tokens": batch, "epochs": float(min(60, round(epochs)))}


def context_of(run: RunConfig, table: Table, sample: DataSample) -> tuple[int, dict[str, Any]]:
    """How many tokens a candidate reads, and batches for them if they are many."""
    # The rules measured the context in their own tokens; where those are groups of letters, single ones need more room.
    context = (run.model.context or MOST_CONTEXT) * (run.tokenizer.k if run.tokenizer.kind == "dna" else 1)
    if context < MOST_CONTEXT or table["model"].get("family") != "convolutional":
        return min(MOST_CONTEXT, context), {}
    letters = 1 if sample.is_dna else LETTERS_A_WORD
    context = min(LONG_CONTEXT, max(MOST_CONTEXT, sample.quantile(0.99) // letters))
    return context, {"batch_tokens": max(run.training.batch_tokens, TEXTS_AT_ONCE * context)}
