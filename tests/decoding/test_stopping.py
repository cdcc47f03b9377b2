"""Stop strings are found however the text is cut, and nothing of them is ever shown."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clearhead.decoding.stopping import Writer, overlap
from tests.decoding.tiny import tokenizer


def whole(text: str, stops: list[str]) -> tuple[str, bool]:
    """What should be shown of a text, read letter by letter: up to the stop string that is whole first."""
    for size in range(1, len(text) + 1):
        found = [len(stop) for stop in stops if text[:size].endswith(stop)]
        if found:
            return text[: size - max(found)], True
    return text, False


letters = st.text("ab€", max_size=12)
stop_strings = st.lists(st.text("ab€", min_size=1, max_size=4), max_size=3)


@given(text=letters, stops=stop_strings)
@example(text="aab€", stops=["b", "ab€"])
def test_text_up_to_the_first_stop_string_byte_by_byte(text: str, stops: list[str]) -> None:
    """€ is three tokens of the byte tokenizer, so strings begin and end inside and between tokens."""
    words = tokenizer("byte")
    writer = Writer(words, stops)
    shown = ""
    for token in words.encode(text):
        shown += writer.push(token)
        assert shown == whole(text, stops)[0][: len(shown)]  # nothing is ever taken back
    shown += writer.finish()
    assert (shown, writer.is_stopped) == whole(text, stops)


@given(text=letters, stops=stop_strings, cuts=st.sets(st.integers(0, 12)))
def test_text_up_to_the_first_stop_string_however_it_is_cut(
    text: str, stops: list[str], cuts: set[int]
) -> None:
    writer = Writer(tokenizer("byte"), stops)
    shown, places = "", [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, end in pairwise(places):
        if not writer.is_stopped:
            shown += writer.release(text[start:end])
    shown += writer.finish()
    assert (shown, writer.is_stopped) == whole(text, stops)


@given(text=letters, stops=stop_strings)
def test_nothing_is_held_back_without_need(text: str, stops: list[str]) -> None:
    writer = Writer(tokenizer("byte"), stops)
    shown = writer.release(text)
    if not writer.is_stopped:
        held = text[len(shown) :]
        assert not held or any(stop.startswith(held) for stop in stops)


@pytest.mark.parametrize(
    ("text", "stop", "size"),
    [("abc", "cd", 1), ("abc", "bcd", 2), ("abc", "abc", 0), ("", "a", 0), ("aa", "aab", 2)],
)
def test_the_end_that_may_become_a_stop_string(text: str, stop: str, size: int) -> None:
    assert overlap(text, stop) == size


def test_nothing_comes_after_a_stop_string() -> None:
    words = tokenizer("byte")
    writer = Writer(words, ["STOP"])
    assert [writer.push(token) for token in words.encode("oSTOPx")] == ["o", "", "", "", "", ""]
    assert writer.finish() == ""


def test_half_a_stop_string_is_shown_when_no_more_comes() -> None:
    words = tokenizer("byte")
    writer = Writer(words, ["STOP"])
    assert [writer.push(token) for token in words.encode("oSTO")] == ["o", "", "", ""]
    assert writer.finish() == "STO"
