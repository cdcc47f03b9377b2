"""Labelled data that is hard to learn from: hardly any, one example of a class, many classes, very long texts.

A model that knows its training texts comes out, or a refusal that says why. Whether trials on such data keep to their
minutes is an experiment.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import DataError
from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.recipes.trials.choosing import choose_recipe
from clearhead.training.run.run import make_run

FRUIT = ("apple", "pear", "plum", "cherry", "lemon")
TOOLS = ("hammer", "saw", "drill", "file", "plane")
LONG = 10_000  # words

Rows = list[tuple[str, str]]


def rows_of(count: int) -> Rows:
    """Sentences about fruit or tools, each different."""
    return [
        (f"number {k}: the {(FRUIT, TOOLS)[k % 2][k // 2 % 5]} is here", ("fruit", "tool")[k % 2])
        for k in range(count)
    ]


def with_one_rare() -> Rows:
    """Forty sentences, and a single one of a third class."""
    return [*rows_of(40), ("rain and wind tomorrow", "weather")]


def many_classes(each: int = 3) -> Rows:
    """Two hundred classes, known by a word of their own."""
    return [(f"item {k} of kind{number}", f"class{number}") for number in range(200) for k in range(each)]


def long_texts(count: int) -> Rows:
    """Texts of ten thousand words, whose class is said all the time."""
    return [
        (f"{k} " + f"{(FRUIT, TOOLS)[k % 2][k % 5]} and so on " * (LONG // 4), "ab"[k % 2])
        for k in range(count)
    ]


def written(folder: Path, rows: Rows) -> str:
    """The rows as a file."""
    place = folder / "rows.jsonl"
    place.write_text("".join(json.dumps({"text": t, "label": a}) + "\n" for t, a in rows), encoding="utf-8")
    return str(place)


def share_known(out: Path, rows: Sequence[tuple[str, str]]) -> float:
    """The share of rows that the best model of a run labels rightly."""
    answers = clearhead.load(out / "best").classify([text for text, _ in rows], truncate=True)
    return sum(answer.label == label for answer, (_, label) in zip(answers, rows, strict=True)) / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "steps", "least"),
    [
        (rows_of(3), 60, 1.0),
        (rows_of(12), 60, 0.9),
        (with_one_rare(), 60, 0.9),
        (many_classes(), 2, 0.0),
        (long_texts(4), 1, 0.0),
    ],
    ids=["3 examples", "12 examples", "one example of a class", "200 classes", "10,000 words"],
)
def test_hard_data_gives_a_model(tmp_path: Path, rows: Rows, steps: int, least: float) -> None:
    """The recipe of the rules trains, has all labels, and knows what it was shown often enough."""
    stated = {"training.steps": str(steps), "training.threads": "1", "training.samples": "0"}
    config, _ = recipe_for("classify", [written(tmp_path, rows)], 1.0, stated)
    run = make_run(config, tmp_path / "run")
    records = list(run.train())
    assert records[-1].step > 0
    model = clearhead.load(tmp_path / "run" / "best")
    assert set(model.bundle.labels or ()) == {label for _, label in rows}
    if least:
        assert share_known(tmp_path / "run", rows) >= least


def test_texts_that_differ_in_nothing_are_refused_by_trials_too(tmp_path: Path) -> None:
    """All texts equal: a refusal that says so, before anything is tried."""
    with pytest.raises(DataError, match="All 80 texts are equal"):
        choose_recipe("classify", [written(tmp_path, [("the same", "ab"[k % 2]) for k in range(80)])], 1.0)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("rows", "least"),
    [
        (rows_of(300), 0.95),
        ([*rows_of(80), ("rain and wind tomorrow", "weather")], 0.9),
        (many_classes(5), 0.5),
        (long_texts(70), 0.9),
    ],
    ids=["300 examples", "one example of a class", "200 classes", "10,000 words"],
)
def test_trials_on_hard_data_keep_to_the_minutes(tmp_path: Path, rows: Rows, least: float) -> None:
    """Trials, a winner, and its training end in little more than the minutes, with a model that is far above chance."""
    started = time.perf_counter()
    config, reasons, _ = choose_recipe("classify", [written(tmp_path, rows)], 1.0)
    assert any(reason.startswith(("trials:", "no trials:")) for reason in reasons)
    list(make_run(config, tmp_path / "run").train())
    assert time.perf_counter() - started < 4 * 60
    assert share_known(tmp_path / "run", rows) >= least
