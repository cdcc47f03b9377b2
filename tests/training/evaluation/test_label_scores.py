"""Scores of labels: by hand, and by their definitions."""

import random

import pytest

from clearhead.decoding.read import Classification, SeveralLabels, Tagging
from clearhead.decoding.spans import Span, marks_spans, spans_of
from clearhead.examples import Labelled
from clearhead.training.evaluation.label_scores import ClassScores, SetScores, TagScores

LABELS = ["a", "b", "c"]


def tagging(labels: list[str | None]) -> Tagging:
    return Tagging(["w"] * len(labels), labels, [1.0] * len(labels), [])


def test_classes_by_hand() -> None:
    scores = ClassScores(["good", "bad", "never"])
    for given, right in (("good", "good"), ("good", "bad"), ("bad", "bad")):
        scores.add(Classification(given, {}), Labelled("x", right))
    result = scores.result()
    assert result["accuracy"] == pytest.approx(2 / 3)
    # good: 1 hit, 2 given, 1 true; bad: 1 hit, 1 given, 2 true; never neither occurs nor is given.
    assert result["macro_f1"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert result["by_label"]["good"] == {
        "precision": 0.5,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
        "true": 1,
    }
    assert result["confusion"] == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert result["unmeasured"] == ["never"]
    scores.add(Classification("bad", {}), Labelled("x", "never"))
    assert "unmeasured" not in scores.result()


def test_several_labels_by_the_definitions_of_f1() -> None:
    draw = random.Random(1)
    rows = [[[int(draw.random() < 0.4) for _ in LABELS] for _ in range(40)] for _ in range(2)]
    scores, parts = SetScores(LABELS), []
    for given, right in zip(*rows, strict=True):
        names = [[label for label, fits in zip(LABELS, row, strict=True) if fits] for row in (given, right)]
        answer = SeveralLabels("a", {}, None, names[0])
        parts.append(scores.add(answer, Labelled("x", tuple(names[1]))))
    result = scores.result()
    each = []  # hits, given and true of each label
    for column in range(len(LABELS)):
        given, right = ([row[column] for row in side] for side in rows)
        each.append((sum(map(int.__mul__, given, right)), sum(given), sum(right)))
    hits, given_all, true_all = map(sum, zip(*each, strict=True))
    assert result["micro_f1"] == pytest.approx(2 * hits / (given_all + true_all))
    assert (result["micro_precision"], result["micro_recall"]) == (hits / given_all, hits / true_all)
    assert result["macro_f1"] == pytest.approx(sum(2 * h / (g + t) for h, g, t in each) / len(each))
    # What each text adds gives the same score again, which paired tests rely on.
    assert sum(part for part, _ in parts) / sum(whole for _, whole in parts) == pytest.approx(
        result["micro_f1"]
    )
    assert result["exact_match"] == sum(map(list.__eq__, *rows)) / 40


# As seqeval 1.2.2 reads them; the two were compared on 20,000 random sequences of each of four schemes.
SPANS = {
    "": [],
    "O O": [],
    "B-X I-X O B-Y": [("X", 0, 2), ("Y", 3, 4)],
    "I-X I-X": [("X", 0, 2)],  # an I- without a B- begins a span
    "O I-X I-Y": [("X", 1, 2), ("Y", 2, 3)],
    "B-X I-Y": [("X", 0, 1), ("Y", 1, 2)],
    "I-X B-X": [("X", 0, 1), ("X", 1, 2)],  # as IOB1 separates neighbours
    "B-X I-X E-X S-Y": [("X", 0, 3), ("Y", 3, 4)],
    "B-X L-X U-X": [("X", 0, 2), ("X", 2, 3)],
    "E-X E-X": [("X", 0, 1), ("X", 1, 2)],
    "B-X-1 I-X-1": [("X-1", 0, 2)],
}


@pytest.mark.parametrize("tags", SPANS)
def test_spans_are_those_of_the_shared_task(tags: str) -> None:
    assert spans_of(tags.split()) == [Span(*span) for span in SPANS[tags]]


def test_parts_of_speech_mark_no_spans() -> None:
    assert marks_spans(["O", "B-X", "I-X"])
    assert not marks_spans(["NOUN", "VERB"])
    assert not marks_spans(["O"])


def test_spans_are_right_as_a_whole_and_truncated_words_do_not_count() -> None:
    scores = TagScores(["O", "B-X", "I-X", "B-Y"])
    scores.add(tagging(["B-X", "I-X", "O", None]), Labelled("w w w w", ("B-X", "I-X", "B-Y", "B-Y")))
    scores.add(tagging(["B-X", "O"]), Labelled("w w", ("B-X", "I-X")))
    result = scores.result()
    assert (scores.name, result["accuracy"]) == ("span_f1", pytest.approx(3 / 5))
    assert (result["span_precision"], result["span_recall"]) == (1 / 2, 1 / 3)
    assert result["span_f1"] == pytest.approx(2 / 5)
    assert result["by_label"]["X"]["true"] == 2


def test_words_without_spans_have_accuracy_and_macro_f1() -> None:
    scores = TagScores(["N", "V"])
    assert scores.add(tagging(["N", "V", "V"]), Labelled("w w w", ("N", "N", "V"))) == (2.0, 3.0)
    result = scores.result()
    assert (scores.name, result["accuracy"]) == ("accuracy", pytest.approx(2 / 3))
    assert result["macro_f1"] == pytest.approx((2 / 3 + 2 / 3) / 2)
