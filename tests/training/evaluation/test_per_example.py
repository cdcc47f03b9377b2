"""Statistics of every example: their score is the one that an ordinary evaluation gives."""

import pytest

from clearhead.examples import Example, Labelled, Pair, Text
from clearhead.model_folder import Bundle
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.evaluation.per_example import ExampleEvaluation
from tests.decoding.tiny import SENTENCES, classifier, language_model, random_model, translator

LABELS = ["bad", "good", "so-so"]
TEXTS: list[Example] = [Text(text) for text in SENTENCES]
PIECES: list[Example] = [Text(SENTENCES[0]), Text(SENTENCES[1], starts=False), Text(SENTENCES[2])]
PAIRS: list[Example] = [Pair(a, b) for a in SENTENCES for b in SENTENCES]
ANSWERS: list[Example] = [Labelled(text, LABELS[k % 3]) for k, text in enumerate(SENTENCES * 3)]


@pytest.mark.parametrize(
    ("bundle", "examples", "name"),
    [
        (language_model("word"), TEXTS, "bits_per_byte"),
        (language_model("byte"), PIECES, "bits_per_byte"),
        (language_model("byte"), TEXTS[:1], "bits_per_byte"),
        (classifier(), ANSWERS, "accuracy"),
        (translator("word"), PAIRS, "bleu"),
    ],
    ids=["words", "bytes", "one text", "classifier", "translator"],
)
def test_the_score_is_that_of_an_evaluation(bundle: Bundle, examples: list[Example], name: str) -> None:
    evaluation = ExampleEvaluation(bundle, 64)
    result, plain = evaluation.run(examples), Evaluation(bundle, 64).run(examples)
    assert result == plain
    assert evaluation.scored is not None
    assert (evaluation.scored.name, len(evaluation.scored.statistics)) == (name, len(examples))
    assert evaluation.scored.score == pytest.approx(plain[name], rel=1e-6, abs=1e-9)


def test_the_order_of_the_answers_is_that_of_the_examples() -> None:
    """Batches are sorted by length; the statistics are not."""
    whole = ExampleEvaluation(classifier(), 24)
    whole.run(ANSWERS)
    assert whole.scored is not None
    for place, example in enumerate(ANSWERS):
        one = ExampleEvaluation(classifier(), 24)
        one.run([example])
        assert one.scored is not None
        assert one.scored.statistics[0].tolist() == whole.scored.statistics[place].tolist()


def test_unknown_tokens_are_counted() -> None:
    evaluation = ExampleEvaluation(language_model("word"))
    evaluation.run([Text("the cat sat on the zebra")])
    assert evaluation.unknown == pytest.approx(1 / 6)


def test_a_masked_model_has_no_statistics() -> None:
    evaluation = ExampleEvaluation(random_model("encoder", "word"))
    evaluation.run(TEXTS * 4)
    assert evaluation.scored is None
