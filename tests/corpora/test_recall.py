"""Recall: the asked word stands where the distance says, and nothing but the name tells which it is."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.corpora import recall
from clearhead.errors import ConfigError
from clearhead.examples import Labelled

generators = st.integers(0, 2**32).map(Random)


def some(count: int, **options: int) -> list[Labelled]:
    """The first training examples."""
    return [e for e in recall.CORPUS.examples("train", 1, count, **options) if isinstance(e, Labelled)]


def pairs(text: str) -> dict[str, str]:
    """What each name likes."""
    words = text.replace(".", "").split()
    return {words[at - 1]: words[at + 1] for at in range(1, len(words) - 1) if words[at] == "likes"}


@given(generators, st.integers(2, 200), st.integers(1, 16))
def test_the_answer_stands_at_its_distance(rng: Random, distance: int, number: int) -> None:
    example = recall.draw(rng, distance, number)
    words = example.text.split()
    assert words[-1 - distance] == f"{example.label}."
    assert pairs(example.text)[words[-2]] == example.label
    assert len(pairs(example.text)) == number
    assert len(set(pairs(example.text).values())) == number


@given(generators, st.integers(0, 60))
def test_filler_has_exactly_its_words_and_names_no_answer(rng: Random, words: int) -> None:
    text = " ".join(recall.filler(rng, words))
    assert len(text.split()) == words
    assert not set(text.replace(".", "").split()) & {*recall.NAMES, *recall.FRUITS}


def test_distances_lie_between_the_shortest_and_the_longest() -> None:
    distances = Counter(
        len(e.text.split()) - 1 - e.text.split().index(f"{e.label}.")
        for e in some(500, shortest=12, longest=15)
    )
    assert set(distances) == {12, 13, 14, 15}


def test_the_rank_of_the_asked_pair_says_nothing() -> None:
    """The first pair of a text is asked about as often as the others."""
    ranks: Counter[int] = Counter()
    for example in some(3000):
        ranks[list(pairs(example.text).values()).index(example.answer)] += 1
    assert set(ranks) == {0, 1, 2}
    assert max(ranks.values()) < 1.15 * min(ranks.values())


def test_answers_are_balanced() -> None:
    counts = Counter(example.label for example in some(4000))
    assert set(counts) == set(recall.FRUITS)
    assert max(counts.values()) < 2 * min(counts.values())


def test_distances_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"shortest = 9 is more than longest = 4\. Give the smaller"):
        some(1, shortest=9, longest=4)
