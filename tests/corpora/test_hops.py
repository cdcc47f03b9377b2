"""Hops: the answer follows from the story in two steps, and nothing less than both tells it."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.corpora import hops
from clearhead.errors import ConfigError
from clearhead.examples import Labelled

LEFT = re.compile(r"In the (\w+) \w+ left the (\w+)\.")
FOUND = re.compile(r"searched the (\w+) and found the (\w+)\.")
MANY = 3000


def some(count: int, **options: int) -> list[Labelled]:
    """The first training examples."""
    return [e for e in hops.CORPUS.examples("train", 1, count, **options) if isinstance(e, Labelled)]


def asked(story: Labelled) -> str:
    """The place that is searched last."""
    *_, place, _, _, _ = story.text.split()
    return place


def facts(story: str) -> dict[str, str]:
    """What lies in each place, in the order of the story."""
    return dict(LEFT.findall(story))


@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(0, 5))
def test_two_steps_of_look_up_lead_to_the_answer(seed: int, objects: int, asides: int) -> None:
    story = hops.draw(Random(seed), objects, asides, 1)
    place = asked(story)
    assert facts(story.text)[place] == story.label
    assert len(facts(story.text)) == objects
    assert len(set(facts(story.text).values())) == objects


@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(1, 20))
def test_what_earlier_searches_found_is_what_was_left_there(seed: int, objects: int, searches: int) -> None:
    story = hops.draw(Random(seed), objects, 2, searches)
    found = FOUND.findall(story.text)
    assert len(found) == searches - 1
    for place, thing in found:
        assert facts(story.text)[place] == thing


def nearly_even(counts: Counter[object], kinds: int) -> bool:
    """Whether each of the kinds comes as often as the others, within five standard deviations."""
    n = counts.total()
    spread = (n / kinds * (1 - 1 / kinds)) ** 0.5
    return len(counts) == kinds and all(abs(count - n / kinds) < 5 * spread for count in counts.values())


def test_where_the_answer_stands_says_nothing() -> None:
    ranks = Counter(list(facts(story.text).values()).index(story.answer) for story in some(MANY))
    assert nearly_even(Counter(ranks), 3)


def test_which_object_it_is_says_nothing() -> None:
    assert nearly_even(Counter(story.label for story in some(MANY)), len(hops.OBJECTS))


def test_the_place_alone_says_nothing_of_the_object() -> None:
    """Every object is as likely in every place."""
    assert nearly_even(Counter((asked(s), s.label) for s in some(MANY)), 8 * 8)


def test_how_often_an_object_is_named_says_nothing() -> None:
    """The most often named object is the answer in 1 of 3 cases, as any object would be."""
    right: Counter[object] = Counter()
    for story in some(MANY):
        words = Counter(re.findall(r"\w+", story.text))
        named = {thing: words[thing] for thing in facts(story.text).values()}
        most = [thing for thing, count in named.items() if count == max(named.values())]
        right[(story.label in most) if len(most) == 1 else None] += 1
    del right[None]
    share = right[True] / right.total()
    assert abs(share - 1 / 3) < 5 * (2 / 9 / right.total()) ** 0.5


def test_an_aside_never_names_a_place_and_an_object_together() -> None:
    rng = Random(1)
    for words in (
        set(re.findall(r"\w+", hops.aside(rng, [*hops.PLACES], [*hops.OBJECTS]))) for _ in range(200)
    ):
        assert not words & set(hops.PLACES) or not words & set(hops.OBJECTS)


def test_more_objects_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"builtin:hops: objects = 9\. Use a whole number from 2 to 8\."):
        hops.CORPUS.examples("train", objects=9)
