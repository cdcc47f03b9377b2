"""Word vectors from text: what is learned, what is recorded, and what is refused."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.config.vectors import VectorsConfig
from clearhead.corpora.words import ANALOGIES, COUNTRIES, COUPLES
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Conversation, Example, Labelled, Message, Pair, Text
from clearhead.text.sources.read import read
from clearhead.vectors.evaluation import evaluate_analogies, read_questions
from clearhead.vectors.sentences import SentenceFile, TrainingProgress, sentences_of, split_words
from clearhead.vectors.training import train
from clearhead.vectors.words import WordVectors

TEXTS = [Text(f"the {who} reads a {what}, again") for who in ("cat", "dog") for what in ("book", "map")] * 10


def tiny(**settings: object) -> VectorsConfig:
    return VectorsConfig.model_validate({"width": 6, "epochs": 2, "workers": 1} | settings)


@pytest.fixture(scope="module")
def learned() -> WordVectors:
    """Skip-gram vectors of the built-in sentences, a few seconds."""
    return WordVectors(train(read("builtin:words", "text"), VectorsConfig(width=50, workers=1)))


@pytest.mark.slow
@pytest.mark.notes("N3")
def test_words_in_like_contexts_get_like_vectors(learned: WordVectors) -> None:
    """A word is nearer to the others of its kind than to those of another kind, nearly always."""
    cities, countries = ([row[place] for row in COUNTRIES] for place in (1, 0))
    people = [word for male, female, _ in COUPLES for word in (male, female)]

    def mean(these: list[str], those: list[str]) -> torch.Tensor:
        A, B = (learned.unit[[learned.row(word) for word in group]] for group in (these, those))
        return (A @ B.T).mean(1)

    assert bool((mean(cities, cities) > mean(cities, people) + 0.2).all())
    assert bool((mean(people, people) > mean(people, countries) + 0.1).all())
    assert learned.nearest("bank", 1)[0].value > learned.similarity("bank", "throne").cosine


@pytest.mark.slow
@pytest.mark.notes("N5")
def test_arithmetic_on_words_answers_analogies(learned: WordVectors) -> None:
    assert learned.analogy("king - man + woman", 1)[0].word == "queen"
    assert learned.analogy("Paris - France + Italy", 1)[0].word == "Rome"
    scores = evaluate_analogies(learned, read_questions("builtin:words"))
    total = scores.total()
    assert total.questions == total.in_vocabulary == len(ANALOGIES)
    assert total.accuracy is not None
    assert total.accuracy > 0.95


@pytest.mark.slow
@pytest.mark.notes("N6")
def test_a_static_vector_puts_bank_between_its_two_meanings(learned: WordVectors) -> None:
    apart = learned.similarity("shore", "broker").cosine
    assert apart < min(learned.similarity("bank", word).cosine for word in ("shore", "broker"))


def test_the_same_seed_and_one_worker_give_the_same_bits_as_gensim_itself() -> None:
    from gensim.models import Word2Vec

    config = tiny(minimum_frequency=1, seed=3)
    ours, again = train(TEXTS, config), train(TEXTS, config)
    theirs = Word2Vec(
        list(split_words(sentences_of(TEXTS), config)),
        sg=1, vector_size=6, epochs=2, workers=1, min_count=1, seed=3,
    )  # fmt: skip
    assert torch.equal(ours.E, again.E)
    assert ours.words == theirs.wv.index_to_key
    assert np.array_equal(ours.E.numpy(), theirs.wv.vectors)


def test_cbow_and_skip_gram_differ() -> None:
    skip, cbow = (train(TEXTS, tiny(method=method)) for method in ("skip-gram", "cbow"))
    assert skip.words == cbow.words
    assert not torch.equal(skip.E, cbow.E)


def test_settings_source_and_counts_are_recorded() -> None:
    table = train(TEXTS, tiny(), source="cats.txt")
    assert table.counts == [40, 40, 40, 40, 20, 20, 20, 20]
    assert table.made["source"] == "cats.txt"
    assert table.made["by"].startswith("gensim 4")
    assert table.made["settings"] == tiny().model_dump(mode="json")
    assert (table.made["sentences"], table.made["words_read"]) == (40, 240)


def test_phrases_are_joined() -> None:
    texts = [Text(f"she saw New York {k}") for k in range(20)] + [
        Text(f"{k} he likes tea") for k in range(20)
    ]
    table = train(texts, tiny(phrases=1, phrase_threshold=1.0))
    assert "New_York" in table.words
    assert "New" not in table.words


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["Don't", "T-shirts", "cost", "5"]),
        ({"split": "whitespace"}, ["Don't", ",", "T-shirts", "cost", "5", "!"]),
        ({"lowercase": True}, ["don't", "t-shirts", "cost", "5"]),
    ],
)
def test_how_text_is_split(settings: dict[str, object], words: list[str]) -> None:
    assert next(split_words(["Don't , T-shirts cost 5 !"], tiny(**settings))) == words


def test_a_text_without_words_is_skipped() -> None:
    assert list(split_words(["...", "", "a"], tiny())) == [["a"]]


def test_every_kind_of_example_gives_its_lines() -> None:
    talk = Conversation((Message("user", "hi"), Message("assistant", "ho")))
    examples: list[Example] = [Text("a\nb"), Pair("c", "d"), Labelled("e", "x"), talk]
    assert list(sentences_of(examples)) == ["a", "b", "c", "d", "e", "<user>hi<assistant>ho"]


def test_nothing_of_a_long_text_is_lost(tmp_path: Path) -> None:
    """gensim drops what follows the ten thousandth word of a sentence."""
    file = SentenceFile(tmp_path / "words.txt")
    file.write([["w"] * 25_001])
    assert [len(sentence) for sentence in file] == [10_000, 10_000, 5_001]
    assert (file.sentences, file.words) == (3, 25_001)


def test_progress_ends_at_its_total() -> None:
    records: list[TrainingProgress] = []
    train(TEXTS, tiny(epochs=3, minimum_frequency=1), records.append)
    last = {record.stage: record for record in records}
    assert last["training"] == TrainingProgress("training", 3 * 240, 3 * 240)
    assert last["counting words"].done == 240


def test_too_little_text_is_refused() -> None:
    with pytest.raises(DataError, match="3 words of the text, 0 different ones occur at least 5 times"):
        train([Text("a b c")], tiny())


def test_a_source_that_fails_leaves_the_error_as_it_is() -> None:
    def broken() -> Iterator[Text]:
        yield Text("a")
        raise DataError("line 2 is damaged")

    with pytest.raises(DataError, match="line 2 is damaged"):
        train(broken(), tiny())


def test_without_gensim_the_line_that_installs_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ConfigError, match=r"pip install 'clearhead\[vectors\]'"):
        train(TEXTS, tiny())
