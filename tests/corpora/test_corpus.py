"""What a corpus does with any stream: splits by content, each example once, an end that is said."""

from collections.abc import Iterator
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.corpora.corpus import BUCKETS, SPLITS, Corpus, Option, Options
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Example, Text

NAMES = tuple(f"text {k}" for k in range(400))


def finite(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Each text twice, from a place that the seed decides."""
    for k in range(2 * len(NAMES)):
        name = NAMES[(k + seed) % len(NAMES)]
        yield name, Text(name + str(options["end"]))


def endless(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """The same few texts for ever."""
    for name in cycle(NAMES):
        yield name, Text(name)


END = Option("end", ("", "!"), "", "what stands at the end")
SIZE = Option("size", range(3, 9), 3, "how much")
COUNTS = dict.fromkeys(SPLITS, 1000)
CORPUS = Corpus("few", "text", "a few texts", finite, COUNTS, (END, SIZE), frozenset({"text 7"}))


def test_every_text_is_in_exactly_one_split_once() -> None:
    parts = [list(CORPUS.examples(split)) for split in SPLITS]
    everything = [example for part in parts for example in part]
    assert sorted(everything, key=str) == sorted((Text(name) for name in NAMES), key=str)
    assert len(parts[0]) > 15 / BUCKETS * len(NAMES)
    assert all(len(part) > 3 for part in parts)


@given(st.integers(0, 10**6), st.sampled_from(("", "!")))
def test_the_split_of_a_text_depends_on_nothing_but_its_key(seed: int, end: str) -> None:
    held_out = {
        example.text.rstrip("!")
        for example in CORPUS.examples("test", seed, end=end)
        if isinstance(example, Text)
    }
    assert held_out == {name for name in NAMES if CORPUS.split_of(name) == "test"}


def test_a_pinned_text_is_in_the_test() -> None:
    assert Text("text 7") in list(CORPUS.examples("test"))
    assert CORPUS.split_of("text 7") == "test"


def test_an_endless_stream_that_brings_nothing_new_says_how_much_there_is() -> None:
    corpus = Corpus("few", "text", "a few texts", endless, COUNTS)
    size = sum(corpus.split_of(name) == "train" for name in NAMES)
    message = rf"builtin:few has only about {size} distinct examples for train .*Ask for at most that many\."
    with pytest.raises(DataError, match=message):
        list(corpus.examples("train", count=size + 1))
    assert len(list(corpus.examples("train", count=size))) == size


def test_a_wrong_value_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(ConfigError, match=r"builtin:few: size = 9\. Use a whole number from 3 to 8\."):
        CORPUS.examples("train", size=9)
    with pytest.raises(ConfigError, match=r"builtin:few: end = '\?'\. Known: , !\."):
        CORPUS.examples("train", end="?")
    with pytest.raises(
        ConfigError, match=r"builtin:few has no option 'sise'\. Did you mean size\? Known: end, size\."
    ):
        CORPUS.examples("train", sise=3)
