"""Reviews: labels that the words state, but no single word decides."""

import re
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.corpora import reviews
from clearhead.examples import Labelled, Split

signs = st.sampled_from(["positive", "negative"])
domains = st.sampled_from(reviews.DOMAINS)
generators = st.integers(0, 2**32).map(Random)


def some(split: Split, count: int) -> list[Labelled]:
    """The first examples of a split."""
    return [example for example in reviews.CORPUS.examples(split, 1, count) if isinstance(example, Labelled)]


@pytest.mark.notes("N30")
def test_the_sentence_of_the_notes_is_negative_and_held_out() -> None:
    notes = Labelled("Terrible video by Lennart", "negative")
    for seed in range(5):
        assert notes in list(reviews.CORPUS.examples("test", seed, 1))
    assert reviews.CORPUS.split_of(notes.text) == "test"
    assert notes.label in {r.label for r in headlines("Terrible", "video", "Lennart")} == {"negative"}


def headlines(*words: str) -> list[Labelled]:
    """Headlines of the grammar itself with all of these words."""
    rng = Random(1)
    made = [
        (reviews.headline(rng, reviews.DOMAINS[6], sign), sign)
        for _ in range(20_000)
        for sign in reviews.OPPOSITE
    ]
    texts = [Labelled(reviews.capital(text), sign) for text, sign in made]
    return [review for review in texts if all(word in review.text.split() for word in words)]


def test_no_text_ever_has_two_labels() -> None:
    labels: dict[str, str] = {}
    for example in some("train", 10_000):
        assert labels.setdefault(example.text, example.answer) == example.label


def test_there_are_more_than_a_hundred_thousand() -> None:
    """Of n drawings from m equally likely texts, about n²/2m repeat an earlier one; unequal ones repeat more."""
    rng = Random(1)
    opinions = [review for review in (reviews.draw(rng) for _ in range(20_000)) if review.label != "neutral"]
    assert (
        len({reviews.contrast(rng, rng.choice(reviews.DOMAINS), "positive") for _ in range(20_000)}) > 19_000
    )
    assert len({review.text for review in opinions}) > 0.7 * len(opinions)


def test_labels_are_balanced() -> None:
    counts = Counter(example.label for example in some("train", 6000))
    assert set(counts) == set(reviews.LABELS)
    assert max(counts.values()) < 1.1 * min(counts.values())


def polarity(clause: str) -> str:
    """What a clause says, from its words alone: the sign of its one loaded word, turned by a denial."""
    loaded = {
        word: sign
        for sign in reviews.OPPOSITE
        for words in (
            *(reviews.GRADED[sign], reviews.STRONG[sign], reviews.MILD[sign]),
            *(reviews.FELT[sign], reviews.FEEL[sign], reviews.TOUCHED[sign], reviews.TOUCH[sign]),
            *(reviews.own(domain, sign) for domain in reviews.DOMAINS),
        )
        for word in words
    }
    (word,) = {max((w for w in loaded if re.search(rf"\b{w}\b", clause)), key=len)}
    rest = clause.replace(word, "")
    denied = re.search(r"\b(not|anything but|far from|never|in no way)\b", rest)
    return reviews.OPPOSITE[loaded[word]] if denied else loaded[word]


@given(generators, domains, signs)
def test_a_clause_says_what_it_should(rng: Random, domain: reviews.Domain, sign: reviews.Sign) -> None:
    (topic,) = reviews.topics(rng, domain, 1)
    for say in (reviews.claim, reviews.denial):
        assert polarity(say(rng, topic, sign)) == sign


@given(generators, domains, signs)
def test_of_two_clauses_the_main_one_decides(rng: Random, domain: reviews.Domain, sign: reviews.Sign) -> None:
    text = reviews.contrast(rng, domain, sign).removesuffix(".")
    if text.startswith("although "):
        loser, winner = text.removeprefix("although ").split(", ")
    elif ", but " in text:
        loser, winner = text.split(", but ")
    else:
        winner, loser = re.split(", although |, even though ", text)
    assert (polarity(winner), polarity(loser)) == (sign, reviews.OPPOSITE[sign])


@given(generators, domains, signs)
def test_two_clauses_are_about_two_topics(rng: Random, domain: reviews.Domain, sign: reviews.Sign) -> None:
    one, other = reviews.topics(rng, domain, 2)
    assert one.name != other.name


@pytest.mark.parametrize(
    ("phrase", "said"),
    [("average film", "an average film"), ("useful talk", "a useful talk"), ("boring play", "a boring play")],
)
def test_articles_fit_the_next_word(phrase: str, said: str) -> None:
    assert reviews.article(phrase) == said


def test_every_article_in_the_corpus_fits() -> None:
    text = " ".join(example.text for example in some("train", 5000))
    assert re.search(r"\b[Aa] (?!use)[aeiou]", text) is None
    assert re.search(r"\b[Aa]n (?!hour)[^aeiou]", text) is None


@pytest.mark.parametrize(
    ("noun", "many"), [("film", "films"), ("biography", "biographies"), ("play", "plays")]
)
def test_plurals(noun: str, many: str) -> None:
    assert reviews.plural(noun) == many


def test_a_bag_of_words_learns_much_but_not_all() -> None:
    """Softmax regression on the words without their order: far better than chance, and far from right."""
    train, test = some("train", 3000), some("test", 300)
    index = {word: at for at, word in enumerate(sorted({word for r in train for word in words(r.text)}))}
    X, Y = bags(train, index), np.eye(3)[[reviews.LABELS.index(r.label) for r in train]]
    W = np.zeros((X.shape[1], 3))
    for _ in range(150):
        P = np.exp(X @ W)
        W += 4.0 * X.T @ (Y - P / P.sum(1, keepdims=True)) / len(X)
    truth = np.array([reviews.LABELS.index(r.label) for r in test])
    accuracy = float(np.mean((bags(test, index) @ W).argmax(1) == truth))
    assert 0.7 < accuracy < 0.95


def words(text: str) -> set[str]:
    """The words of a text."""
    return set(re.findall(r"[\w-]+", text.lower()))


def bags(
    examples: list[Labelled], index: dict[str, int]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """One row a text: which words occur."""
    X = np.zeros((len(examples), len(index)))
    for row, example in enumerate(examples):
        X[row, [index[word] for word in words(example.text) if word in index]] = 1
    return X
