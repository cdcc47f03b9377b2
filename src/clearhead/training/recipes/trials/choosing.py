"""A recipe by trials: a task and files enter; the recipe that won leaves, with its reasons and the table of trials.

The time of the trials is part of the minutes. Only the training part of the data is used: neither validation nor test
data decides.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.config.data import DataConfig
from clearhead.config.run import RunConfig
from clearhead.config.tasks import Task
from clearhead.errors import ConfigError
from clearhead.examples import Conversation, Kind
from clearhead.training.distributed.ranks import ranks
from clearhead.training.recipes.data_sample import DataSample, sample_data, texts_of
from clearhead.training.recipes.sizing import MOST_CONTEXT
from clearhead.training.recipes.suggest import MINUTES, recipe_for
from clearhead.training.recipes.trials.budget import Budget
from clearhead.training.recipes.trials.candidates import (
    RULE,
    Candidate,
    candidates_for,
    larger_candidates,
    with_vectors,
)
from clearhead.training.recipes.trials.floor import judge_floor
from clearhead.training.recipes.trials.folds import MOST_CHARACTERS, Fold, training_examples
from clearhead.training.recipes.trials.halving import Entry, halve, is_clear, lengthen
from clearhead.training.recipes.trials.trial import Judgement, try_recipe
from clearhead.training.recipes.trials.unlabelled import has_words, texts_without_labels, vectors_for
from clearhead.training.reporting.trials import Measure, describe_score

FOLDS = 3  # at most, unless the user asks for more
# Of the minutes that trials may take; of labelled texts more if the run does not need the rest.
SHARES: dict[Kind, float] = {"labelled": 0.4, "text": 0.2, "pair": 0.2}
FLOOR = 0.2  # of that time, at most, for the floor
PLANNING, EVALUATING = 4.0, 0.15  # seconds before the first step of a run; the share of evaluations after it
LEAST = 0.25  # of the minutes, for the steps of the run, whatever the trials took
CHARACTERS = 150_000  # for each second of the trials, at most: more would take too long to prepare
LETTERS_A_TOKEN, LETTERS_A_TEXT = (
    12,
    2000,
)  # of a text: for each token of a context, at most; in all, at least
FEWEST_EXAMPLES = 60  # of which a fifth can tell candidates apart
# With less, trials of labels end before they have learned anything, and others cost more than they find.
FEWEST_MINUTES: dict[Kind, float] = {"labelled": 0.75, "text": 20.0, "pair": 20.0}
LENGTHS = ("training.steps", "training.epochs")

Progress = Callable[[str, str], None]  # what is tried, and how much is left


@dataclass(frozen=True)
class Trials:
    """What was tried: every candidate with its judgements, the best first, and the floor's."""

    entries: list[Entry]
    floor: list[Judgement]
    seconds: float
    share: float = 1.0  # of the texts of a fold that candidates learned from
    untried: tuple[str, ...] = ()  # for which there was no time
    preparing: float = 0.0  # seconds for the texts of a fold
    measure: Measure = "accuracy"

    @property
    def rule(self) -> Entry | None:
        """The recipe of the rules, if it was tried."""
        return next((entry for entry in self.entries if entry.candidate.name == RULE), None)

    @property
    def winner(self) -> Entry | None:
        """The best of the trials that were complete; the rule if it is as good on the same examples.

        If none was complete, all were cut after about the same share, and who is clearly ahead of the rule wins.
        """
        first, rule = self.entries[0] if self.entries else None, self.rule
        if first is None:
            return None
        if not first.is_complete:
            return rule if rule is None or not is_clear(first, rule) else first
        if rule is None or not rule.is_complete:
            return first
        return first if first.lead_over(rule)[0] > 0 else rule

    @property
    def reason(self) -> str:
        """Why the winner won, and whether it is above the floor."""
        first, rule = self.winner, self.rule
        if first is None or (first is rule and not first.is_complete):
            return f"{RULE} is taken: there was no time to complete any candidate" + self.remarks
        share = describe_score(first.score, None, self.measure)
        if self.measure == "accuracy":
            share += " of held-out training texts right"
        others = [
            entry for entry in self.entries if entry.is_complete == first.is_complete and entry is not first
        ]
        text = f"{RULE} is taken" if first is rule else f"{first.candidate.name} won"
        text += f" with {share}"
        if others:
            other = others[0] if first is rule or rule not in others else rule
            lead, error = first.lead_over(other)
            # Of bits fewer are better, and a lead is a difference of scores.
            unit, digits = (100, 1) if self.measure == "accuracy" else (-1, 3)
            text += (
                f", {unit * lead:+.{digits}f} ± {abs(unit) * error:.{digits}f} against {other.candidate.name}"
            )
        text += "" if first.is_complete else "; there was no time to complete any candidate"
        floor = self.floor_accuracy
        if floor is not None:
            side = "above" if first.score >= floor else "BELOW"
            text += f"; {side} the floor, a bag of n-grams, with {100 * floor:.1f} %"
            text += "" if all(judgement.is_complete for judgement in self.floor) else ", cut short"
        return text + self.remarks

    @property
    def remarks(self) -> str:
        """What little time has left out."""
        text = ""
        if self.share < 1:
            text += f"; to save time all learned from {100 * self.share:.0f} % of the texts"
        if self.untried:
            text += f"; no time for {', '.join(self.untried)}"
        return text

    @property
    def floor_accuracy(self) -> float | None:
        """The floor on the folds of the winner."""
        judged = self.floor[: len(self.winner.judgements)] if self.winner else []
        return float(np.concatenate([judgement.scores for judgement in judged]).mean()) if judged else None

    def to_json(self) -> dict[str, Any]:
        """The table, for `trials.json` and the report."""
        rows = [
            {
                "name": entry.candidate.name,
                self.measure: entry.score if self.measure == "accuracy" else -entry.score,
                "standard_error": entry.error,
                "loss": entry.loss,
                "folds": len(entry.judgements),
                "steps": [judgement.steps for judgement in entry.judgements],
                "seconds": sum(judgement.seconds for judgement in entry.judgements),
                "complete": entry.is_complete,
            }
            for entry in self.entries
        ]
        floor = [
            {"accuracy": judgement.score, "loss": judgement.loss, "seconds": judgement.seconds}
            for judgement in self.floor
        ]
        return {
            "reason": self.reason, "measure": self.measure, "candidates": rows, "untried": list(self.untried),
            "share": self.share, "floor": floor, "seconds": self.seconds,
        }  # fmt: skip


def choose_recipe(
    task: Task,
    files: Sequence[str],
    minutes: float | None = None,
    overrides: Mapping[str, str] | None = None,
    trials: int | None = None,
    progress: Progress = lambda what, left: None,
) -> tuple[RunConfig, list[str], Trials | None]:
    """The recipe that wins trials on the training data, its reasons, and the trials; or that of the rules."""
    started, stated = time.perf_counter(), overrides or {}
    run, reasons = recipe_for(task, files, minutes, stated)
    given = minutes or run.training.minutes or MINUTES
    sample = sample_data(DataConfig(**run.data.given()), run.kind)
    if (refusal := reason_for_none(run, sample, stated, given, trials)) is not None:
        return without_trials(run, reasons, refusal, is_asked=trials == 0)
    unlabelled = texts_without_labels(run) if run.data.unlabelled is not None else []
    if run.kind == "labelled":
        candidates = labelled_candidates(run, sample, stated, unlabelled)
    else:
        candidates = larger_candidates(
            run, lambda more: recipe_for(task, files, minutes, {**stated, **more})[0], stated
        )
    if len(candidates) < 2:
        return without_trials(run, reasons, "the settings leave only one candidate")
    seconds = 60 * SHARES[run.kind] * given
    most = min(MOST_CHARACTERS, CHARACTERS * seconds)
    longest = LETTERS_A_TOKEN * max(candidate.run.model.context or MOST_CONTEXT for candidate in candidates)
    # The beginnings of all texts say more than a few whole ones.
    longest = min(longest, max(LETTERS_A_TEXT, int(most / sample.count)))
    examples = training_examples(run, most if run.kind == "labelled" else MOST_CHARACTERS, longest)
    every = (Fold.of(examples, number, unlabelled) for number in range(trials or FOLDS))
    folds = [fold for fold in every if fold.is_usable]
    if len(examples) < FEWEST_EXAMPLES or not folds:
        few = f"{len(examples)} examples are too few, or too many of them are equal, to tell recipes apart"
        return without_trials(run, reasons, few)
    # Of labelled texts a run ends with its epochs, and leaves time.
    end = started + 60 * (1 - EVALUATING) * given - PLANNING if run.kind == "labelled" else 0.0
    found = run_trials(candidates, folds, sample, started + seconds, progress, end)
    chosen = found.winner.candidate.run if found.winner else candidates[0].run
    whole = sample.characters / max(1, sum(len(text) for example in examples for text in texts_of(example)))
    left = 60 * given - (time.perf_counter() - started)
    if run.kind == "labelled":
        chosen = with_less_time(chosen, given, left, whole * found.preparing)
    else:  # of these the minutes are those of the steps
        chosen = chosen.replace(
            training=chosen.training.replace(minutes=round(max(LEAST * given, left / 60), 3))
        )
    return chosen, [*kept_reasons(reasons, run, chosen), f"trials: {found.reason}"], found


def without_trials(
    run: RunConfig, reasons: list[str], why: str, is_asked: bool = False
) -> tuple[RunConfig, list[str], None]:
    """The recipe of the rules, and why nothing was tried; texts without labels have no use then."""
    if run.data.unlabelled is not None:
        raise no_use_of_unlabelled(f"there are no trials: {why}")
    return run, reasons if is_asked else [*reasons, f"no trials: {why}"], None


def labelled_candidates(
    run: RunConfig, sample: DataSample, stated: Mapping[str, str], unlabelled: Sequence[str]
) -> list[Candidate]:
    """The candidates for labelled texts; where there are texts without labels, also those that start from them."""
    plain = run.replace(data=run.data.replace(unlabelled=None))
    others = {name: value for name, value in stated.items() if name != "data.unlabelled"}
    rule, *tried = candidates_for(plain, sample, others)
    if run.data.unlabelled is None:
        return [rule, *tried]
    if "training.embeddings_from" in stated:
        raise no_use_of_unlabelled("training.embeddings_from gives the words their vectors")
    if not has_words(unlabelled):
        raise no_use_of_unlabelled("the texts have too few words")
    more = with_vectors(run, sample, stated, lambda one, width: vectors_for(one, unlabelled, width))
    if not more:
        raise no_use_of_unlabelled("what is stated leaves no candidate whose tokens are words")
    return [rule, *more, *tried]


def no_use_of_unlabelled(why: str) -> ConfigError:
    """The error if no candidate can use texts without labels."""
    return ConfigError(f"--data.unlabelled has no effect: {why}.\nOmit it.")


def reason_for_none(
    run: RunConfig, sample: DataSample, stated: Mapping[str, str], minutes: float, trials: int | None
) -> str | None:
    """Why nothing is tried, if so."""
    if trials == 0:
        return "--plan and --trials 0 try no recipe"
    if run.kind == "labelled" and (run.task_row.objective != "label" or run.data.texts > 1):
        return "of labelled texts they are for one text with one label each"
    if run.task_row.objective == "masked":
        return (
            "which tokens are guessed depends on the tokens, so the scores of two recipes cannot be compared"
        )
    if isinstance(sample.examples[0], Conversation):
        return "there are none for conversations"
    if ranks() > 1:
        return "several processes train together"
    if run.training.init_from is not None:
        return "the run starts from another model"
    if length := next((name for name in LENGTHS if name in stated), None):
        return f"{length} says how long to train"
    # What costs more than it finds can be asked for.
    fewest = FEWEST_MINUTES["labelled" if trials else run.kind]
    if minutes < fewest:
        return f"{minutes:g} minutes are too few for them"
    return None


def run_trials(
    candidates: Sequence[Candidate],
    folds: Sequence[Fold],
    sample: DataSample,
    deadline: float,
    progress: Progress,
    end: float = 0.0,
) -> Trials:
    """Tries candidates on folds until the deadline, or longer if the run leaves time until the `end` of all minutes.

    The floor is judged on the first fold, then where there is time.
    """
    started = time.perf_counter()
    floor: list[Judgement] = []
    is_labelled = bool(folds[0].labels)
    if is_labelled:
        progress("Trying a bag of n-grams, the floor", time_left(deadline))
        floor.append(judge_floor(folds[0], sample.is_dna, started + FLOOR * (deadline - started)))
    progress("Timing the candidates", time_left(deadline))
    budget = Budget.of(candidates, folds[0], deadline, end)
    deadline = budget.deadline

    def try_one(candidate: Candidate, fold: Fold, seconds: float) -> Judgement | None:
        what = f"Trying {candidate.name}, fold {fold.number + 1} of {len(folds)}"
        progress(what, time_left(deadline))
        last = time.perf_counter() + seconds
        return try_recipe(
            candidate.run,
            budget.data(candidate.run, fold),
            last,
            lambda share: progress(what, f"{share:.0%}, {time_left(deadline)}"),
            budget.steps.get(candidate.name),
        )

    later = sum(judgement.seconds for judgement in floor) * (len(folds) - 1)
    last = deadline - min(later, FLOOR * (deadline - started))
    entries = halve(budget.candidates, folds, last, budget.seconds, try_one) if budget.is_enough else []
    if is_labelled:
        tried = max((len(entry.judgements) for entry in entries), default=1)
        floor += [judge_floor(fold, sample.is_dna, deadline) for fold in folds[1:tried]]
    if is_labelled and entries and budget.share == 1:
        deadline = max(deadline, end)
        entries = lengthen(entries, folds, end, try_one)
    names = {entry.candidate.name for entry in entries}
    untried = tuple(candidate.name for candidate in candidates if candidate.name not in names)
    seconds = time.perf_counter() - started
    share = budget.share if entries else 1.0
    measure: Measure = "accuracy" if is_labelled else "bits_per_byte"
    return Trials(entries, floor, seconds, share, untried, budget.preparing, measure)


def time_left(deadline: float) -> str:
    """The time that trials may still take."""
    return f"at most {max(0.0, deadline - time.perf_counter()):.0f} s left"


def with_less_time(run: RunConfig, minutes: float, left: float, preparing: float) -> RunConfig:
    """The recipe with what the steps have of the seconds that are left, after preparing, planning and evaluating."""
    steps = (1 - EVALUATING) * (left - preparing - PLANNING)
    return run.replace(training=run.training.replace(minutes=round(max(LEAST * minutes, steps / 60), 3)))


def kept_reasons(reasons: Sequence[str], rule: RunConfig, chosen: RunConfig) -> list[str]:
    """The reasons of the rules that are still true of the recipe that was chosen."""
    if chosen.training.epochs != rule.training.epochs:
        reasons = [line for line in reasons if "training.epochs =" not in line]
    if chosen.model == rule.model and chosen.tokenizer == rule.tokenizer:
        return list(reasons)
    return [line for line in reasons if not line.startswith(("model.", "tokenizer."))]
