"""Vectors of words in sentences: from any model, by its own tokens, different in different sentences."""

from pathlib import Path

import pytest
import torch

from clearhead.config.run import RunConfig
from clearhead.errors import InputError
from clearhead.examples import Pair, Text
from clearhead.model_folder import Bundle
from clearhead.training.run.run import make_run
from clearhead.vectors.contextual import ContextualVectors, Occurrence, read_marked
from tests.decoding.tiny import SENTENCES, classifier, language_model, random_model, translator

RIVER, MONEY = "we rowed the boat to the *bank*", "we asked the *bank* for a loan"


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("the *bank* of", Occurrence("the bank of", 4, 8)),
        ("*New York* is", Occurrence("New York is", 0, 8)),
        ("a *b*", Occurrence("a b", 2, 3)),
    ],
)
def test_asterisks_mark_a_word(sentence: str, expected: Occurrence) -> None:
    assert read_marked(sentence) == expected
    assert expected.marked == sentence


@pytest.mark.parametrize("sentence", ["bank", "a *b", "*a* *b*", "* a *", "**", "*a*b*"])
def test_what_marks_no_word_is_refused(sentence: str) -> None:
    with pytest.raises(InputError, match="does not mark one word"):
        read_marked(sentence)


@pytest.mark.parametrize(
    "bundle",
    [
        language_model("word"),
        language_model("byte"),
        translator("word"),
        classifier(),
        random_model("encoder", "bpe"),
    ],
    ids=["decoder", "bytes", "translator", "classifier", "bpe"],
)
@pytest.mark.notes("N6")
def test_the_same_word_has_another_vector_in_another_sentence(bundle: Bundle) -> None:
    vectors = ContextualVectors(bundle)
    one, other = "the boy kicks the *ball*", "she is a great *ball*"
    same = vectors.similarity(one, one)
    assert same.cosine == pytest.approx(1.0, abs=1e-5)
    assert vectors.similarity(one, other).cosine < 0.999


def test_a_decoder_does_not_see_what_follows() -> None:
    vectors = ContextualVectors(language_model("word"))
    assert torch.allclose(vectors.vector("the *cat* sat"), vectors.vector("the *cat* is old"), atol=1e-5)


def test_the_vector_is_the_mean_of_the_words_tokens() -> None:
    bundle = random_model("encoder", "byte")
    vectors = ContextualVectors(bundle)
    ids = vectors.reader.framed(vectors.reader.tokenizer.encode("a cat"))
    with torch.no_grad():
        X = bundle.module.encode(torch.tensor([ids]))[0]
    before = len(vectors.reader.frame.before)
    assert torch.allclose(vectors.vector("a *cat*"), X[before + 2 : before + 5].mean(0), atol=1e-5)


def test_a_word_is_nearest_to_itself_in_the_same_sentence_of_others() -> None:
    vectors = ContextualVectors(classifier())
    texts = [Text(text) for text in SENTENCES]
    near = vectors.nearest("the cat sat on the green *table*", texts, 3)
    assert len({one.occurrence.word for one in near}) == 3
    assert near[0].cosine >= near[1].cosine >= near[2].cosine
    assert all(one.occurrence != read_marked("the cat sat on the green *table*") for one in near)


def test_of_pairs_the_sources_are_compared() -> None:
    vectors = ContextualVectors(translator("word"))
    near = vectors.nearest("the *cat*", [Pair("the red ball", "xyz")], 10)
    assert {one.occurrence.word for one in near} == {"the", "red", "ball"}


def test_a_word_behind_the_context_is_refused_and_skipped_as_a_neighbour() -> None:
    vectors = ContextualVectors(random_model("encoder", "word", context=6, positions="learned"))
    long = "the cat sat on the green table and the boy is old"
    with pytest.raises(InputError, match="can read 6"):
        vectors.vector(f"{long} *ball*")
    words = {one.occurrence.word for one in vectors.nearest("the *cat*", [Text(long)], 99)}
    assert "table" not in words
    with pytest.raises(InputError, match="no other word"):
        vectors.nearest("the *cat*", [])


@pytest.mark.prove
@pytest.mark.notes("N6")
def test_a_trained_encoder_gives_bank_two_meanings(tmp_path: Path) -> None:
    """The bank of a river is nearer to a shore than to a broker, the one with the loans the other way round."""
    config = RunConfig.model_validate(
        {
            "task": "masked-language-model",
            "data": {"train": "builtin:words", "count": 6000},
            "tokenizer": {"kind": "word", "minimum_frequency": 1},
            "model": {"d": 64, "h": 4, "encoder_blocks": 1, "context": 32},
            "training": {"steps": 250, "batch_tokens": 1024, "samples": 0, "evaluate_every": 250},
        }
    )
    run = make_run(config, tmp_path / "run")
    list(run.train())
    vectors = ContextualVectors.load(tmp_path / "run")
    shore, broker = "we rowed the boat to the *shore*", "we asked the *broker* for a loan"
    assert vectors.similarity(RIVER, shore).cosine > vectors.similarity(RIVER, broker).cosine + 0.05
    assert vectors.similarity(MONEY, broker).cosine > vectors.similarity(MONEY, shore).cosine + 0.05
