"""A text is split at the ends of its sentences, loses nothing, and is left alone where an end is doubtful."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.decoding.sentences import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["The cat sat.", "He is old!", "Is she?", "Yes."],
        ["Mr. Green saw Dr. J. R. Smith.", "He left."],
        ["We use e.g. Python, i.e. a language, in the U.S. Army.", "It works."],
        ["Am 3. Mai kam er z.B. nach Bonn.", "Er blieb bis 1999.", "Dann ging er."],
        ["Pi is 3.14, and 1.5 is less.", "So what?!", '"Nothing," he said.', "\u00abBien.\u00bb"],
        ["\u00bfC\u00f3mo est\u00e1s?", "\u00a1Muy bien!", "El Sr. Garc\u00eda lleg\u00f3."],
        ["He said \u201cstop.\u201d", "She did not."],
        ["Wait... what is it?", "Nothing\u2026", "Good."],
        ["what? no, really. yes."],  # small letters: doubtful
        ["no end at all"],
    ],
    ids=lambda sentences: sentences[0],
)
def test_sentences_are_found(sentences: list[str]) -> None:
    for space in (" ", "  ", "\n"):
        found = split_sentences(space.join(sentences))
        assert [sentence for sentence, _ in found] == sentences
        assert [after for _, after in found] == [space] * (len(sentences) - 1) + [""]


def test_full_stops_of_chinese_and_japanese_need_no_space() -> None:
    assert [one for one, _ in split_sentences("\u4f60\u597d\u3002\u518d\u89c1\uff01")] == [
        "\u4f60\u597d\u3002",
        "\u518d\u89c1\uff01",
    ]


def test_a_blank_line_ends_a_sentence() -> None:
    assert split_sentences("A title\n\nthe text") == [("A title", "\n\n"), ("the text", "")]


@given(text=st.text("aB1.!?\u3002\u2026 \n\"'(\u00bb", max_size=60))
def test_nothing_is_lost(text: str) -> None:
    assert "".join(sentence + space for sentence, space in split_sentences(text)) == text


def test_a_long_text_takes_no_time() -> None:
    assert len(split_sentences("The cat sat on it. " * 50_000)) == 50_000
    assert len(split_sentences("\n" * 100_000 + "x" * 100_000 + "." * 100_000)) <= 3
