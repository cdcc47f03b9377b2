"""Trials: who is tried again, what is judged on what, and what a user is told."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.config.families import read_model_config
from clearhead.config.run import RunConfig
from clearhead.config.tasks import Task
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.batching.batches import Position
from clearhead.errors import ConfigError
from clearhead.examples import Labelled, Pair
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.training.loop.losses import inputs_of, loss_of
from clearhead.training.recipes.data_sample import DataSample, sample_data, texts_of
from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.recipes.trials import budget, choosing, halving
from clearhead.training.recipes.trials.budget import Budget, fit_into
from clearhead.training.recipes.trials.candidates import (
    ONCE,
    RULE,
    Candidate,
    candidates_for,
    larger_candidates,
)
from clearhead.training.recipes.trials.choosing import Trials, choose_recipe, with_less_time
from clearhead.training.recipes.trials.floor import judge_floor
from clearhead.training.recipes.trials.folds import Fold, FoldData, prepare_fold, training_examples
from clearhead.training.recipes.trials.halving import LONGER, Entry, halve, lengthen, ranked
from clearhead.training.recipes.trials.trial import Judgement, judge, try_recipe
from clearhead.training.reporting.trials import trials_section
from clearhead.training.run.plan import model_config

GOOD, BAD = ("lovely", "bright", "warm", "clever"), ("dull", "cold", "boring", "weak")


def examples(count: int = 90) -> list[Labelled]:
    """Short reviews: the label follows from one word."""
    found = []
    for k in range(count):
        words, label = ((GOOD, "good"), (BAD, "bad"))[k % 2]
        found.append(Labelled(f"film {k} was {words[k // 2 % 4]} in part {k % 7}", label))
    return found


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The reviews as a file."""
    place = tmp_path / "reviews.jsonl"
    lines = [json.dumps({"text": e.text, "label": e.label}) for e in examples()]
    place.write_text("\n".join(lines), encoding="utf-8")
    return str(place)


@pytest.fixture
def run(table: str) -> RunConfig:
    """The recipe of the rules, for one thread."""
    return recipe_for("classify", [table], 1.0, {"training.threads": "1"})[0]


def judgement(right: list[bool], loss: float = 0.5) -> Judgement:
    """A judgement of a few texts."""
    return Judgement(np.array(right), loss, 10, 0.1, True)


def test_a_fold_shares_no_text_and_loses_none() -> None:
    """Equal texts fall on one side, and both sides together are all examples."""
    given = [*examples(), *examples(10)]
    fold = Fold.of(given, 0)
    assert {e.text for e in fold.learned}.isdisjoint(e.text for e in fold.judged)
    assert sorted(e.text for e in (*fold.learned, *fold.judged)) == sorted(e.text for e in given)
    assert fold.is_usable
    assert Fold.of(given, 1).judged != fold.judged


def test_a_fold_in_tokens_keeps_each_label_with_its_text(run: RunConfig) -> None:
    """What a batch of a fold says is the text and label of that example."""
    fold = Fold.of(examples(), 0)
    data = prepare_fold(run, fold)
    batches = data.batches("validation", 64, shuffle=False)
    seen = []
    for step in range(batches.count()):
        batch = batches.at(Position(0, step))
        assert batch.labels is not None
        for row, number in enumerate(batches.plan.examples(0, step)):
            example = fold.judged[number]
            assert data.labels[int(batch.labels[row])] == example.label
            count = batch.inputs.shape[1] if batch.counts is None else int(batch.counts[row])
            (ids,) = data.tokenizers.target.encode_batch([example.text], begin=True, end=True)
            assert batch.inputs[row, :count].tolist() == ids.tolist()
            seen.append(int(number))
    assert sorted(seen) == list(range(len(fold.judged)))


def test_trials_never_read_what_is_held_out(run: RunConfig) -> None:
    """The examples of trials are the training part of the run, and no others."""
    held = run.replace(data=run.data.replace(validation=0.3))
    some, all_of_them = training_examples(held), training_examples(
        run.replace(data=run.data.replace(validation=0.0))
    )  # fmt: skip
    assert len(some) < len(all_of_them) == 90
    assert set(some) < set(all_of_them)


def test_a_trial_learns_and_is_repeatable(run: RunConfig) -> None:
    """A trial with enough time beats guessing, and a second one gives the same judgement."""
    fold = Fold.of(examples(), 0)
    short = run.replace(training=run.training.replace(epochs=8.0, batch_tokens=256))
    data = prepare_fold(short, fold)
    first, second = (try_recipe(short, data, time.perf_counter() + 60) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.is_complete
    assert first.loss == second.loss
    assert first.score > 0.7


def test_a_trial_keeps_to_its_time(run: RunConfig) -> None:
    """With no time there is no trial; one whose time ends in its first step says that it was cut short."""
    data = prepare_fold(run, Fold.of(examples(), 0))
    assert try_recipe(run, data, time.perf_counter() - 1) is None
    judged = try_recipe(run, data, time.perf_counter() + 1e-3)
    assert judged is not None
    assert judged.steps == 1
    assert not judged.is_complete


def test_a_part_of_a_fold_keeps_labels_and_the_judged_texts(run: RunConfig) -> None:
    """A smaller trial learns from some of the same texts, and is judged on all."""
    whole = prepare_fold(run, Fold.of(examples(), 0))
    part = whole.share(0.25)
    one, every = part.parts["train"], whole.parts["train"]
    ids, numbers, all_ids, all_numbers = (
        one.columns["text"],
        one.numbers,
        every.columns["text"],
        every.numbers,
    )
    rows = {(tuple(all_ids.pieces[0][a:b]), int(label)) for a, b, label in zip(
        all_ids.borders[0][:-1], all_ids.borders[0][1:], all_numbers, strict=True)}  # fmt: skip
    kept = {(tuple(ids.pieces[0][a:b]), int(label)) for a, b, label in zip(
        ids.borders[0][:-1], ids.borders[0][1:], numbers, strict=True)}  # fmt: skip
    assert ids.examples == len(numbers) == round(0.25 * all_ids.examples)
    assert kept < rows
    assert {label for _, label in kept} == {0, 1}
    assert part.parts["validation"] is whole.parts["validation"]
    assert whole.share(1.0) is whole


def test_with_little_time_trials_are_smaller_then_fewer() -> None:
    """All candidates get the same share of the texts; below three tenths the last are left out, never the rule."""
    assert fit_into([4.0, 1.0, 5.0], 20.0) == ([0, 1, 2], 1.0)
    assert fit_into([4.0, 1.0, 5.0], 5.0) == ([0, 1, 2], 0.5)
    assert fit_into([40.0, 1.0, 2.0, 50.0], 20.0) == ([0, 1, 2], 20 / 43)
    assert fit_into([40.0, 1.0, 5.0], 2.0) == ([0, 1], 2 / 41)
    assert fit_into([4.0, 1.0], -1.0) == ([0, 1], 0.0)


def test_a_budget_prepares_equal_tokens_once_and_stops_at_its_time(
    run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates with the same tokenizer share a fold; past the deadline nobody is timed, and nothing is tried."""
    fold, prepared = Fold.of(examples(), 0), []

    def count_and_prepare(run: RunConfig, fold: Fold) -> FoldData:
        prepared.append(run)
        return prepare_fold(run, fold)

    monkeypatch.setattr(budget, "prepare_fold", count_and_prepare)
    monkeypatch.setattr(budget, "expected_seconds", lambda run, data, deadline: 1.0)
    both = [Candidate(RULE, run), Candidate("b", run.replace(model=run.model.replace(d=32)))]
    found = Budget.of(both, fold, time.perf_counter() + 1000)
    assert (len(prepared), found.share, found.is_enough) == (1, 1.0, True)
    now = time.perf_counter()
    assert Budget.of(both, fold, now + 10, now + 100).deadline == now + 100 - halving.LONGER * 1.0
    assert Budget.of(both, fold, now + 10, now + 5).deadline == now + 10
    prepared.clear()
    late = Budget.of(both, fold, time.perf_counter() - 1)
    assert not late.is_enough
    assert not prepared


def test_the_floor_learns_words_and_letters() -> None:
    """The bag of n-grams labels unseen texts, and DNA by its motif."""
    assert judge_floor(Fold.of(examples(), 0), is_dna=False).score > 0.9
    draw = np.random.default_rng(1)
    sequences = ["".join(draw.choice(list("ACGT"), 24)) for _ in range(160)]
    dna = [Labelled(s[:9] + "TATAAT" + s[9:], "yes") for s in sequences[::2]]
    dna += [Labelled(s + "ACGTTC", "no") for s in sequences[1::2] if "TATAAT" not in s]
    assert judge_floor(Fold.of(dna, 0), is_dna=True).score > 0.9


def test_halving_gives_the_time_to_the_better_ones(run: RunConfig) -> None:
    """The worse half is tried once, and trials end once the leader is clearly ahead."""
    shares = {"a": 0.5, "b": 0.9, "c": 0.88, "d": 0.4}
    draws = np.random.default_rng(1).random((3, 200))
    fold = Fold.of(examples(), 0)
    folds = [Fold(number, fold.learned, fold.judged, fold.labels) for number in range(3)]

    def try_one(candidate: Candidate, fold: Fold, seconds: float) -> Judgement:
        return judgement([*(draws[fold.number] < shares[candidate.name])])

    given = [Candidate(name, run) for name in shares]
    entries = halve(given, folds, time.perf_counter() + 1e6, [1.0] * 4, try_one)
    tried = {entry.candidate.name: len(entry.judgements) for entry in entries}
    assert entries[0].candidate.name == "b"
    assert tried["a"] == tried["d"] == 1
    assert tried["c"] <= tried["b"] <= 3


def test_halving_without_time_still_tries_everyone_once(run: RunConfig) -> None:
    """A passed deadline ends trials after the first fold, and of equals the smaller loss wins."""
    fold, losses = Fold.of(examples(), 0), {"a": 0.6, "b": 0.4}
    entries = halve(
        [Candidate(name, run) for name in losses],
        [fold, fold],
        time.perf_counter() - 1,
        [1.0, 1.0],
        lambda candidate, fold, seconds: judgement([True, False, True], losses[candidate.name]),
    )
    assert [entry.candidate.name for entry in entries] == ["b", "a"]
    assert all(len(entry.judgements) == 1 for entry in entries)


def test_the_best_are_tried_longer_as_long_as_that_helps(run: RunConfig) -> None:
    """What learns late overtakes what learns soon, and the third is not tried longer."""
    names = ("soon", "late", "never")
    right = {"soon": 60, "late": 50, "never": 10, "late, 2 × as long": 70, "late, 4 × as long": 90}
    tried: list[tuple[str, float]] = []

    def try_one(candidate: Candidate, fold: Fold, seconds: float) -> Judgement:
        tried.append((candidate.name, candidate.run.training.epochs or 0))
        return judgement([k < right.get(candidate.name, 60) for k in range(100)])

    short = run.replace(training=run.training.replace(epochs=8.0))
    entries = [
        Entry(Candidate(name, short), [judgement([k < right[name] for k in range(100)])]) for name in names
    ]
    folds = [Fold.of(examples(), 0)]
    assert lengthen(entries, folds, time.perf_counter() + 0.1, try_one) == entries
    assert not tried  # no time
    found = lengthen(entries, folds, time.perf_counter() + 60, try_one)
    assert [entry.candidate.name for entry in found[:2]] == ["late, 4 × as long", "late, 2 × as long"]
    assert tried == [
        ("soon, 2 × as long", 16.0),
        *((f"late, {times} × as long", 8.0 * times) for times in (2, 4, 8)),
    ]


def test_longer_tries_leave_the_time_of_a_run(run: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that has become slower every fold takes all it is given, and all folds together end in time."""
    now, end = 0.0, 200.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)

    def try_one(candidate: Candidate, fold: Fold, seconds: float) -> Judgement | None:
        nonlocal now
        if seconds <= 0:
            return None
        now += seconds
        return Judgement(np.array([True, True]), 0.1, 10, seconds, True)

    folds = [Fold.of(examples(), number) for number in range(3)]
    entry = Entry(Candidate("a", run), [Judgement(np.array([True, False]), 0.5, 10, 10.0, True)] * 3)
    assert lengthen([entry], folds, end, try_one) == [entry]
    assert 0 < now <= end - LONGER * 20


def test_an_average_of_evaluations_keeps_them(run: RunConfig) -> None:
    """Who averages the last evaluations needs more than one; other candidates are evaluated at their end."""
    sample = sample_data(run.data, "labelled")
    averaged = run.replace(training=run.training.replace(average="last"))
    for given, every in ((run, ONCE["evaluate_every"]), (averaged, run.training.evaluate_every)):
        found = candidates_for(given, sample, {})[1:]
        assert {one.run.training.evaluate_every for one in found} == {every}


def test_a_trial_whose_loss_is_not_finite_is_the_worst(run: RunConfig) -> None:
    """It ends neither the command nor the order of the others."""
    fold = Fold.of(examples(), 0)
    wild = run.replace(training=run.training.replace(learning_rate=1e38, matrix_rate=1e38, epochs=6.0))
    found = try_recipe(wild, prepare_fold(wild, fold), time.perf_counter() + 60)
    assert found is not None
    assert math.isfinite(found.loss)
    assert found.loss > 10


def test_a_trial_may_use_what_others_are_not_expected_to_need(run: RunConfig) -> None:
    """The first of two has all but the second's share of the time; a later fold that is cut does not count."""
    fold, seconds = Fold.of(examples(), 0), []

    def try_one(candidate: Candidate, fold: Fold, given: float) -> Judgement:
        seconds.append(given)
        is_complete = len(seconds) < 3
        return Judgement(np.array([True, False]), 0.5, 10, 0.1, is_complete)

    given = [Candidate("a", run), Candidate("b", run)]
    entries = halve(given, [fold, fold], time.perf_counter() + 400, [3.0, 1.0], try_one)
    assert seconds[:2] == pytest.approx([399, 400], abs=1)
    assert len(seconds) == 3
    assert [len(entry.judgements) for entry in entries] == [1, 1]


@pytest.fixture
def book(tmp_path: Path) -> str:
    """A text of several chunks, with rules that even a small model learns."""
    place = tmp_path / "book.txt"
    words = [f"the {GOOD[k % 4]} {k % 9} and the {BAD[k % 3]} {k % 5};" for k in range(1500)]
    place.write_text(" ".join(words), encoding="utf-8")
    return str(place)


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    """Pairs of which the target follows from the source."""
    place = tmp_path / "pairs.tsv"
    lines = [f"the film {k} is {GOOD[k % 4]}\tder Film {k} ist {GOOD[k % 4].upper()}" for k in range(400)]
    place.write_text("\n".join(lines), encoding="utf-8")
    return str(place)


def unlabelled_recipe(task: Task, file: str) -> RunConfig:
    """The recipe of the rules for a text or for pairs."""
    stated = {"training.threads": "1", "data.chunk_characters": "400", "data.validation": "0"}
    return recipe_for(task, [file], 1.0, stated)[0]


@pytest.mark.parametrize(
    ("task", "kind"), [("language-model", "byte"), ("language-model", "bpe"), ("translate", "bpe")]
)
def test_scores_are_bits_per_byte_in_any_tokens(task: Task, kind: str, book: str, pairs: str) -> None:
    """The mean of the scores is −bits per byte of what is predicted, as from the losses of the batches."""
    run = unlabelled_recipe(task, book if task == "language-model" else pairs)
    tokens = {"kind": "byte"} if kind == "byte" else {"kind": "bpe", "vocabulary": 300}
    run = run.replace(tokenizer=TokenizerConfig.model_validate(tokens))
    fold = Fold.of(training_examples(run), 0)
    assert fold.is_usable
    data = prepare_fold(run, fold)
    model = build(model_config(run, data), 1)
    scores, bits = judge(model, data, 512)
    assert len(scores) == len(fold.judged)
    batches = data.batches("validation", 512, shuffle=False)
    with torch.no_grad():
        nats = sum(float(loss_of(model(inputs_of(batch)), batch).total)
                   for step in range(batches.count()) for batch in [batches.at(Position(0, step))])  # fmt: skip
    size = sum(len((e.target if isinstance(e, Pair) else texts_of(e)[0]).encode()) for e in fold.judged)
    assert bits == pytest.approx(nats / math.log(2) / size, rel=1e-4)
    assert scores.mean() == pytest.approx(-bits)


@pytest.mark.parametrize("task", ["language-model", "translate"])
def test_trials_of_texts_and_pairs_take_the_same_time_each(
    task: Task, book: str, pairs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All candidates are what more time favours, have the same time, and are compared by bits per byte."""
    monkeypatch.setattr(budget, "expected_seconds", lambda run, data, deadline: 1e5)  # so that steps are few
    stated = {"training.threads": "1", "data.chunk_characters": "400"}
    file = book if task == "language-model" else pairs
    config, reasons, found = choose_recipe(task, [file], 100.0, stated, 1)
    assert found is not None
    assert found.measure == "bits_per_byte"
    assert {"a larger model", "smaller steps"} <= {entry.candidate.name for entry in found.entries}
    assert "bits per byte" in reasons[-1]
    assert found.winner is not None
    assert config.model == found.winner.candidate.run.model
    assert config.training.minutes is not None
    assert config.training.minutes < 100
    steps = [judged.steps for entry in found.entries for judged in entry.judgements]
    assert all(0 < count < 20 for count in steps)
    row = found.to_json()["candidates"][0]
    assert row["bits_per_byte"] == pytest.approx(row["loss"])
    assert "bits per byte" in str(trials_section(found.to_json()))


@pytest.mark.parametrize(
    ("task", "why"),
    [("language-model", "minutes are too few"), ("masked-language-model", "depends on the tokens")],
)
def test_short_runs_and_masked_ones_have_no_trials(task: Task, why: str, book: str) -> None:
    """What costs more than it finds is not tried unless it is asked for; what cannot be compared never is."""
    _, reasons, found = choose_recipe(task, [book], 5.0, {})
    assert found is None
    assert why in reasons[-1]


def test_what_is_stated_is_not_varied(book: str) -> None:
    """A stated size leaves the size alone."""
    run = unlabelled_recipe("language-model", book)
    found = larger_candidates(run, lambda more: run, {"model.d": "64"})
    assert [candidate.name for candidate in found] == [RULE, "smaller steps"]


def test_smaller_steps_are_smaller_for_every_optimizer(book: str) -> None:
    """That of matrices has a rate of its own."""
    run, changes = unlabelled_recipe("language-model", book), {}

    def recipe_with(more: dict[str, str]) -> RunConfig:
        changes.update(more)
        return run

    larger_candidates(run, recipe_with, {"model.d": "64", "tokenizer.vocabulary": "600"})
    rates = run.training.learning_rate / 2, run.training.matrix_rate / 2
    assert changes == {"training.learning_rate": str(rates[0]), "training.matrix_rate": str(rates[1])}


def test_what_does_not_go_with_the_stated_is_skipped(book: str) -> None:
    """A variation that the stated settings refuse is no candidate."""

    def refuse(more: dict[str, str]) -> RunConfig:
        raise ConfigError("5 heads do not divide it")

    run = unlabelled_recipe("language-model", book)
    assert [candidate.name for candidate in larger_candidates(run, refuse, {})] == [RULE]


def tried(run: RunConfig, name: str, right: float, is_complete: bool = True) -> Entry:
    """A candidate that labels so many of 200 texts rightly, of which the rule has ten others right."""
    answers = np.roll(np.arange(200) < 200 * right, 0 if name == RULE else 10)
    return Entry(Candidate(name, run), [Judgement(answers, 0.5, 10, 0.1, is_complete)])


@pytest.mark.parametrize(
    ("entries", "winner", "why"),
    [
        ([("b", 0.9, True), (RULE, 0.7, True)], "b", "b won with 90.0 %"),
        ([("b", 0.9, True), (RULE, 0.95, False)], "b", "b won with 90.0 %"),
        ([(RULE, 0.7, True), ("b", 0.9, False)], RULE, "the rule is taken with 70.0 %"),
        ([("b", 0.705, True), (RULE, 0.7, True)], "b", "+0.5 ± 2.3 against the rule"),
        ([("b", 0.7, True), (RULE, 0.7, True)], RULE, "the rule is taken with 70.0 %"),
        ([(RULE, 0.7, True), ("b", 0.6, True)], RULE, "+10.0 ± 2.1 against b"),
        ([("b", 0.75, False), (RULE, 0.7, False)], RULE, "no time to complete"),
        ([("b", 0.9, False), (RULE, 0.7, False)], "b", "b won with 90.0 %"),
        ([], None, "no time to complete"),
    ],
)
def test_only_complete_trials_beat_the_rule(
    run: RunConfig, entries: list[tuple[str, float, bool]], winner: str | None, why: str
) -> None:
    """The best of those that were complete wins, the rule where it is as good; the reason says so."""
    found = Trials([tried(run, *entry) for entry in entries], [], 1.0, 0.5, ("c",))
    assert (found.winner.candidate.name if found.winner else None) == winner
    assert why in found.reason
    assert "50 % of the texts; no time for c" in found.reason
    assert found.to_json()["untried"] == ["c"]


def test_what_was_cut_short_ranks_last(run: RunConfig) -> None:
    """A high share right counts for nothing if the trial was not complete."""
    entries = ranked([tried(run, "a", 0.9, is_complete=False), tried(run, "b", 0.6)])
    assert [entry.candidate.name for entry in entries] == ["b", "a"]


def test_the_run_plans_with_what_is_left(run: RunConfig) -> None:
    """Steps get what trials, preparing, planning and evaluating leave, and a quarter of the minutes at least."""
    assert with_less_time(run, 2.0, 84.0, 10.0).training.minutes == pytest.approx(0.85 * 70 / 60, abs=1e-3)
    assert with_less_time(run, 2.0, -30.0, 0.0).training.minutes == 0.5


def test_long_texts_are_read_further_by_filters(tmp_path: Path) -> None:
    """Where the rule truncates texts, filters have a longer context, and several texts in a batch."""
    place = tmp_path / "long.jsonl"
    lines = [json.dumps({"text": f"{k} " + "word and more " * 3000, "label": "ab"[k % 2]}) for k in range(20)]
    place.write_text("\n".join(lines), encoding="utf-8")
    long, _ = recipe_for("classify", [str(place)], 1.0, {})
    sample = sample_data(long.data, "labelled")
    found = {candidate.name: candidate.run for candidate in candidates_for(long, sample, {})}
    assert found[RULE].model.context == 512
    assert found["filters over words"].model.context == 4096
    assert found["filters over words"].training.batch_tokens == 8 * 4096
    assert found["runs of letters and words"].model.context == 4096
    assert found["runs of letters and words"].training.batch_tokens > 8192
    (first,) = training_examples(long, longest=100)[:1]
    assert isinstance(first, Labelled)
    assert len(first.text) == 100
    few = training_examples(long, most_characters=50_000, longest=10_000)
    assert 0 < len(few) <= 5


def test_candidates_keep_what_is_stated(run: RunConfig) -> None:
    """A stated setting is in every candidate; one of another family leaves those that have it."""
    sample = DataSample(list(examples()), 1.0)
    assert len(candidates_for(run, sample, {})) == 3
    stated = candidates_for(run, sample, {"model.dropout": "0.25"})
    assert {candidate.run.model.dropout for candidate in stated[1:]} == {0.25}
    heads = candidates_for(run, sample, {"model.h": "4"})
    assert all(candidate.run.model.family == "transformer" for candidate in heads)


@pytest.mark.parametrize(
    ("minutes", "stated", "why"),
    [
        (0.1, {}, "too few"),
        (5.0, {"training.steps": "3"}, "training.steps"),
        (None, {"training.epochs": "1"}, "training.epochs"),
    ],
)
def test_no_trials_for_a_reason(table: str, minutes: float | None, stated: dict[str, str], why: str) -> None:
    """A stated length, or too little time, leaves the choice to the rules, and the reasons say so."""
    config, reasons, found = choose_recipe("classify", [table], minutes, stated)
    assert found is None
    assert reasons[-1].startswith("no trials: ")
    assert why in reasons[-1]
    assert config == recipe_for("classify", [table], minutes, stated)[0]


def test_trials_0_is_the_rule(table: str) -> None:
    """Without trials the recipe and its reasons are those of the rules."""
    config, reasons, found = choose_recipe("classify", [table], 5.0, {}, trials=0)
    assert (config, reasons) == recipe_for("classify", [table], 5.0, {})
    assert found is None


@pytest.mark.slow
def test_the_winner_is_the_recipe_with_the_rest_of_the_time(
    table: str, run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials choose among all candidates, tell what they did, and their time is part of the minutes."""
    minutes = 0.4
    monkeypatch.setitem(choosing.FEWEST_MINUTES, "labelled", minutes)
    monkeypatch.setitem(choosing.SHARES, "labelled", 0.3)
    monkeypatch.setattr(halving, "LONGEST", 1)  # longer trials may take what this share leaves
    told: list[str] = []
    config, reasons, found = choose_recipe(
        "classify", [table], minutes, {"training.threads": "1"}, 1, lambda what, left: told.append(what)
    )
    assert found is not None
    assert config.model == (found.winner.candidate.run if found.winner else run).model
    assert config.training.minutes is not None
    assert config.training.minutes < minutes
    assert reasons[-1].startswith("trials: ")
    assert found.seconds < minutes * 60 * 0.5
    assert any("Trying" in what for what in told)
    page = str(trials_section(json.loads(json.dumps(found.to_json()))))
    assert all(entry.candidate.name in page for entry in found.entries)
    assert trials_section(None) is None


def test_dropped_tokens_are_dropped_whole_and_only_in_training() -> None:
    """Token dropout zeroes all numbers of a token's vector, and nothing outside training."""
    settings: dict[str, Any] = {"family": "convolutional", "shape": "encoder", "vocabulary": 11, "d": 6,
                                "token_dropout": 0.5}  # fmt: skip
    model = build(read_model_config(settings), 1)
    tokens = torch.arange(10)[None].repeat(7, 1)
    model.train()
    torch.manual_seed(1)
    X = model.encoder.look_up(tokens)  # type: ignore[operator, union-attr]
    dropped = X.eq(0).all(-1)
    assert 10 < int(dropped.sum()) < 60
    assert not X[~dropped].eq(0).any()
    model.eval()
    assert torch.equal(model.vectors(Inputs(tokens)), model.vectors(Inputs(tokens)))
