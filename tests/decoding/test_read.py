"""What a model reads: classes and vectors of texts, in batches of like length."""

import copy
from typing import Any

import pytest
import torch

from clearhead.checkpoint import Checkpoint
from clearhead.decoding import read
from clearhead.decoding.read import Reader
from clearhead.errors import CheckpointError, InputError
from tests.decoding.tiny import SENTENCES, classifier, language_model, random_model, tokenizer, translator

TEXTS = [*SENTENCES, "he", "", "the the the"]


def rows(reader: Reader, texts: list[str]) -> list[list[int]]:
    return [reader.ids(text) for text in texts]


def test_a_class_is_the_likeliest_and_probabilities_are_of_all_classes() -> None:
    checkpoint = classifier()
    reader = Reader(checkpoint)
    for text, found in zip(TEXTS, reader.classify(rows(reader, TEXTS)), strict=True):
        with torch.no_grad():
            P = torch.softmax(checkpoint.module(torch.tensor([reader.ids(text)]))[0], -1)
        assert list(found.probabilities) == ["bad", "good", "so-so"]
        assert list(found.probabilities.values()) == pytest.approx(P.tolist(), abs=1e-5)
        assert found.label == ["bad", "good", "so-so"][int(P.argmax())]
    assert len({found.label for found in reader.classify(rows(reader, TEXTS))}) > 1


def test_classes_without_names_have_numbers() -> None:
    checkpoint = random_model("encoder", "word", head="classifier", classes=4)
    (found,) = Reader(checkpoint).classify([[1, 7, 2]])
    assert list(found.probabilities) == ["0", "1", "2", "3"]


READERS: dict[str, Any] = {
    "encoder": lambda: classifier(),
    "encoder mean": lambda: random_model("encoder", "word", head="none"),
    "encoder first": lambda: random_model("encoder", "word", head="none", pool="first"),
    "decoder": lambda: language_model("word"),
    "decoder last": lambda: random_model("decoder", "word", pool="last"),
    "translator": lambda: translator("word"),
    "translator wide": lambda: random_model("encoder-decoder", "word", encoder_d=36),
}


@pytest.mark.parametrize("name", READERS)
def test_vectors_are_pooled_over_the_real_tokens_of_each_text(name: str) -> None:
    checkpoint = READERS[name]()
    reader = Reader(checkpoint)
    E = reader.embed(rows(reader, TEXTS))
    width = 36 if name == "translator wide" else 24
    assert (E.shape, E.dtype) == ((len(TEXTS), width), torch.float32)
    for text, vector in zip(TEXTS, E, strict=True):
        with torch.no_grad():
            X = reader.vectors(torch.tensor([reader.ids(text)]), None)[0]
        pooled = {"first": X[0], "last": X[-1], "mean": X.mean(0)}[checkpoint.config.pool]
        torch.testing.assert_close(vector, pooled, atol=1e-4, rtol=1e-4)


def test_batches_are_full_of_like_lengths_and_keep_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "BATCH_TOKENS", 24)
    lengths = [3, 9, 1, 30, 8, 2, 2, 7]
    batches = list(Reader(classifier()).batches([[1] * n for n in lengths]))
    assert [[lengths[place] for place in places] for places, _, _ in batches] == [
        [30],
        [9, 8],
        [7, 3, 2],
        [2, 1],
    ]
    assert sorted(place for places, _, _ in batches for place in places) == list(range(8))
    assert [counts is None for _, _, counts in batches] == [True, False, False, False]


@pytest.mark.parametrize("name", ["encoder", "decoder", "translator"])
def test_no_texts(name: str) -> None:
    assert Reader(READERS[name]()).embed([]).shape == (0, 24)


def test_texts_are_framed_as_in_training() -> None:
    words = tokenizer("word").encode("he is")
    assert Reader(classifier()).ids("he is") == [1, *words, 2]
    assert Reader(translator("word")).ids("he is") == [1, *words, 2]
    # A language model has seen no vector after its end token; a classifier is trained with the end.
    assert Reader(language_model("word")).ids("he is") == [1, *words]
    decides = random_model("decoder", "word", head="classifier", classes=2, pool="last")
    assert Reader(decides).ids("he is") == [1, *words, 2]


def test_an_empty_text_is_its_beginning_and_end() -> None:
    assert Reader(classifier()).ids("") == [1, 2]
    assert Reader(language_model()).ids("") == [1]


def test_batches_are_where_the_model_is() -> None:
    reader = Reader(classifier())
    reader.module = copy.deepcopy(reader.module).to(
        "meta"
    )  # a device without numbers; others use the model too
    for _, tokens, counts in reader.batches([[1, 5, 2], [1, 2]]):
        assert counts is not None
        assert {tokens.device.type, counts.device.type} == {"meta"}


def test_a_text_longer_than_the_context_is_refused_with_its_length() -> None:
    fits = "the " * 46
    assert len(Reader(classifier()).ids(fits)) == 48
    with pytest.raises(InputError) as caught:
        Reader(classifier()).ids(fits + "the")
    assert str(caught.value) == (
        "The text has 49 tokens, but the model's context is 48.\n"
        "Shorten it or split it, or ask for its beginning alone: --cut (in Python cut=True). Nothing is cut off "
        "silently."
    )
    assert Reader(classifier()).ids(fits + "he is", cut=True) == Reader(classifier()).ids(fits)
    with pytest.raises(InputError, match="The text has 250002 tokens"):
        Reader(classifier()).ids("the " * 250_000)


@pytest.mark.parametrize("name", ["encoder mean", "decoder", "translator"])
def test_a_model_without_classes_says_so(name: str) -> None:
    with pytest.raises(InputError, match=r"so it knows no classes.\nTrain one with task = 'classify'"):
        Reader(READERS[name]()).classify([[1, 2]])


def test_a_model_without_a_tokenizer_meets_no_text() -> None:
    with pytest.raises(InputError, match="no tokenizer"):
        Reader(Checkpoint(classifier().module))


def test_weights_that_are_no_numbers_are_an_error() -> None:
    checkpoint = random_model("encoder", "word", head="classifier", classes=2)
    reader = Reader(checkpoint)
    with torch.no_grad():
        checkpoint.module.get_parameter("head.out.weight")[0, 0] = torch.nan
    with pytest.raises(CheckpointError, match=r"not all numbers.\nIts weights are damaged"):
        reader.classify([[1, 7, 2]])
    assert reader.embed([[1, 7, 2]]).isfinite().all()  # the head is not asked
    with torch.no_grad():
        checkpoint.module.get_parameter("encoder.tokens.weight")[7] = torch.inf
    with pytest.raises(CheckpointError, match="not all numbers"):
        reader.embed([[1, 7, 2]])
