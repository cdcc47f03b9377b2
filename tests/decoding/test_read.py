"""What a model reads: classes and vectors of texts, in batches of like length."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.decoding import read
from clearhead.decoding.read import Reader
from clearhead.errors import InputError, ModelFolderError
from clearhead.model_folder import Bundle, Calibration
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.decoding.tiny import SENTENCES, classifier, language_model, random_model, tokenizer, translator

TEXTS = [*SENTENCES, "he", "the the the"]


def rows(reader: Reader, texts: list[str]) -> list[list[int]]:
    return [reader.ids(text) for text in texts]


def test_a_class_is_the_likeliest_and_probabilities_are_of_all_classes() -> None:
    bundle = classifier()
    reader = Reader(bundle)
    for text, found in zip(TEXTS, reader.classify(rows(reader, TEXTS)), strict=True):
        with torch.no_grad():
            P = torch.softmax(bundle.module(Inputs(torch.tensor([reader.ids(text)])))[0], -1)
        assert list(found.probabilities) == ["bad", "good", "so-so"]
        assert list(found.probabilities.values()) == pytest.approx(P.tolist(), abs=1e-5)
        assert found.label == ["bad", "good", "so-so"][int(P.argmax())]
    assert len({found.label for found in reader.classify(rows(reader, TEXTS))}) > 1


def test_classes_without_names_have_numbers() -> None:
    bundle = random_model("encoder", "word", head="classifier", classes=4)
    (found,) = Reader(bundle).classify([[1, 7, 2]])
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
    bundle = READERS[name]()
    reader = Reader(bundle)
    E = reader.embed(rows(reader, TEXTS))
    width = 36 if name == "translator wide" else 24
    assert (E.shape, E.dtype) == ((len(TEXTS), width), torch.float32)
    for text, vector in zip(TEXTS, E, strict=True):
        with torch.no_grad():
            X = bundle.module.encode(torch.tensor([reader.ids(text)]))[0]
        pooled = {"first": X[0], "last": X[-1], "mean": X.mean(0)}[bundle.config.pool]
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


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_a_text_without_anything_to_read_is_rejected(text: str) -> None:
    for bundle in (classifier(), language_model(), translator("word")):
        with pytest.raises(InputError, match=r"The text is empty: there is nothing to read.\nGive a text."):
            Reader(bundle).ids(text)


def test_a_classification_says_how_much_of_its_text_is_unknown() -> None:
    reader = Reader(classifier())
    texts = ["the he", "the zyx", "zyx", "the he is zyx"]
    found = reader.classify(rows(reader, texts))
    assert [one.unknown for one in found] == [0, 0.5, 1, 0.25]
    assert [one.is_mostly_unknown for one in found] == [False, True, True, False]
    knows_everything = Reader(random_model("encoder", "byte", head="classifier", classes=2))
    (one,) = knows_everything.classify(rows(knows_everything, ["zyx"]))
    assert (one.unknown, one.is_mostly_unknown) == (None, False)


def test_characters_without_a_token_are_unknown_to_a_tokenizer_that_falls_back_to_bytes() -> None:
    bpe = Tokenizer.train(
        ["the cat sat on the green table"] * 20, TokenizerConfig(kind="bpe", vocabulary=300)
    )
    config = ModelConfig(shape="encoder", head="classifier", classes=2, vocabulary=bpe.size, d=24, h=3)
    reader = Reader(Bundle(build(config), bpe))
    found = reader.classify(
        rows(reader, ["the cat sat", "xqzv", "\u732b\u304c\u5ea7\u3063\u305f", "the cat \u732b"])
    )
    known, letters, foreign, mixed = (one.unknown for one in found)
    assert (known, letters, foreign) == (0, 0, 1)  # of letters in another order nothing can be said
    assert mixed is not None
    assert 0.3 < mixed < 0.9
    assert found[2].is_mostly_unknown


def test_a_temperature_changes_probabilities_but_neither_classes_nor_logits() -> None:
    plain = classifier()
    hot = replace(plain, calibration=Calibration(temperature=3.0, examples=7))
    texts = rows(Reader(plain), TEXTS)
    for ids, before, after in zip(
        texts, Reader(plain).classify(texts), Reader(hot).classify(texts), strict=True
    ):
        with torch.no_grad():
            P = torch.softmax(hot.module(Inputs(torch.tensor([ids])))[0] / 3, -1)
        assert list(after.probabilities.values()) == pytest.approx(P.tolist(), abs=1e-5)
        assert after.label == before.label
        assert after.probabilities[after.label] < before.probabilities[before.label]


def test_batches_are_where_the_model_is() -> None:
    reader = Reader(classifier())
    reader.module = copy.deepcopy(reader.module).to(
        "meta"
    )  # a device without numbers; others use the model too
    for _, tokens, counts in reader.batches([[1, 5, 2], [1, 2]]):
        assert counts is not None
        assert {tokens.device.type, counts.device.type} == {"meta"}


def test_a_text_longer_than_the_context_is_read_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    reader, text = Reader(classifier()), "the " * 46
    rows = [reader.ids(text), reader.ids(text + "cat"), reader.ids(text + "cat cat")]
    assert [len(row) for row in rows] == [48, 49, 50]
    (record,) = caplog.records
    assert "the text has 49 tokens, but the model was trained on at most 48" in record.message
    assert len(reader.classify(rows)) == 3
    with pytest.raises(
        InputError, match=r"The text has 250002 tokens, but this model can read 4096 \(context 48\)"
    ):
        reader.ids("the " * 250_000)


def test_a_text_longer_than_a_table_of_positions_is_refused_with_its_length() -> None:
    fits, table = "the " * 46, classifier(positions="learned")
    assert len(Reader(table).ids(fits)) == 48
    with pytest.raises(InputError) as caught:
        Reader(table).ids(fits + "the")
    assert str(caught.value) == (
        "The text has 49 tokens, but this model can read 48 (context 48).\n"
        "Shorten it or split it, or read only its beginning: --truncate (in Python truncate=True). Nothing is "
        "truncated silently."
    )
    assert Reader(classifier()).ids(fits + "he is", truncate=True) == Reader(classifier()).ids(fits)
    with pytest.raises(InputError, match="The text has 250002 tokens"):
        Reader(table).ids("the " * 250_000)


@pytest.mark.parametrize("name", ["encoder mean", "decoder", "translator"])
def test_a_model_without_classes_says_so(name: str) -> None:
    with pytest.raises(InputError, match=r"so it has no classes.\nTrain one with task = 'classify'"):
        Reader(READERS[name]()).classify([[1, 2]])


def test_a_model_without_a_tokenizer_meets_no_text() -> None:
    with pytest.raises(InputError, match="no tokenizer"):
        Reader(Bundle(classifier().module))


def test_weights_that_are_no_numbers_are_an_error() -> None:
    bundle = random_model("encoder", "word", head="classifier", classes=2)
    reader = Reader(bundle)
    with torch.no_grad():
        bundle.module.get_parameter("head.out.weight")[0, 0] = torch.nan
    with pytest.raises(ModelFolderError, match=r"contains NaN or infinity.\nIts weights are damaged"):
        reader.classify([[1, 7, 2]])
    assert reader.embed([[1, 7, 2]]).isfinite().all()  # the head is not asked
    with torch.no_grad():
        bundle.module.get_parameter("encoder.tokens.weight")[7] = torch.inf
    with pytest.raises(ModelFolderError, match="contains NaN or infinity"):
        reader.embed([[1, 7, 2]])
