"""Intervals and paired tests: laws, and the numbers of sacreBLEU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from clearhead.training.evaluation.paired import FEWEST, Scored, p_value
from clearhead.training.evaluation.per_example import SentenceScores, ratio
from clearhead.training.evaluation.scores import TextScores


def answers(right: list[int], examples: str = "") -> Scored:
    """The accuracy of some answers."""
    return Scored("accuracy", True, np.array([(value, 1.0) for value in right]), ratio, examples)


def drawn(share: float, count: int, seed: int) -> list[int]:
    return (np.random.default_rng(seed).random(count) < share).astype(int).tolist()


def test_the_interval_contains_the_score_and_narrows_with_more_examples() -> None:
    widths = []
    for count in (100, 400, 1600):
        scored = answers(drawn(0.7, count, 1))
        interval = scored.interval()
        assert interval is not None
        assert interval[0] <= scored.score <= interval[1]
        widths.append(interval[1] - interval[0])
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.2)
    assert widths[1] / widths[2] == pytest.approx(2, rel=0.2)
    # 1.96 standard errors of a share on each side
    assert widths[0] == pytest.approx(2 * 1.96 * (0.7 * 0.3 / 100) ** 0.5, rel=0.2)


def test_the_same_answers_are_no_difference_and_other_ones_are() -> None:
    right = drawn(0.7, 200, 1)
    assert p_value(answers(right), answers(right)) == 1.0
    better = [1 if place % 4 == 0 else value for place, value in enumerate(right)]
    small = p_value(answers(right), answers(better))
    assert small is not None
    assert small < 0.01
    assert p_value(answers(better), answers(right)) == pytest.approx(small, abs=0.01)


def test_chance_is_called_chance_as_often_as_it_should_be() -> None:
    """Of models that are equally good, about one in twenty has p < 0.05."""
    values = [
        p_value(answers(drawn(0.6, 60, seed)), answers(drawn(0.6, 60, 1000 + seed))) for seed in range(60)
    ]
    assert sum(value is not None and value < 0.05 for value in values) <= 8


def test_too_few_examples_or_other_ones_give_no_number() -> None:
    few = answers([1] * (FEWEST - 1))
    assert few.interval() is None
    assert p_value(few, few) is None
    assert p_value(answers([1] * 20), answers([1] * 21)) is None
    assert p_value(answers([1] * 20, "a"), answers([1] * 20, "b")) is None


def test_bleu_is_that_of_sacrebleu_with_its_interval_and_p_value() -> None:
    words = [*"abcdefghijklmnop"]
    generator = np.random.default_rng(1)
    references = [" ".join(generator.choice(words, 9)) for _ in range(80)]

    def translated(share: float) -> list[str]:
        return [
            " ".join(
                word if generator.random() < share else str(generator.choice(words)) for word in text.split()
            )
            for text in references
        ]

    systems = [translated(0.8), translated(0.84)]
    scored = []
    for hypotheses in systems:
        scores = SentenceScores(TextScores())
        scores.add(hypotheses, references)
        scored.append(Scored("bleu", True, np.array(scores.rows, dtype=np.float64), scores.bleu_of))
        assert scored[-1].score == pytest.approx(scores.result()["bleu"])
    named: list[tuple[str, Sequence[str]]] = [("one", systems[0]), ("other", systems[1])]
    result: Any
    _, result = PairedTest(named, {"BLEU": BLEU(force=True)}, [references], "ar", 1000)()
    value = p_value(*scored)
    assert value == pytest.approx(result["BLEU"][1].p_value, abs=0.06)
    _, result = PairedTest(named, {"BLEU": BLEU(force=True)}, [references], "bs", 1000)()
    low, high = scored[0].interval() or (0.0, 0.0)
    assert (high - low) / 2 == pytest.approx(result["BLEU"][0].ci, rel=0.15)
