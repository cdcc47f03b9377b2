"""The map of words: places, lines, labels, and files that need nothing else."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from clearhead.errors import ConfigError, InputError
from clearhead.vectors.drawing import map_words, write_map
from clearhead.vectors.words import WordVectors
from tests.vectors.tables import small_table


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    return WordVectors(small_table())


def test_lines_of_like_pairs_are_parallel(vectors: WordVectors) -> None:
    """Four words in a plane: what the map draws is exact."""
    found = map_words(vectors, ["man:woman", "king:queen"])
    (man, woman), (king, queen) = ([found.points[place] for place in pair] for pair in found.pairs)
    assert sum(found.shares) == pytest.approx(1.0)
    for axis in (0, 1):
        assert woman[axis] - man[axis] == pytest.approx(queen[axis] - king[axis])


def test_without_words_the_most_frequent_are_drawn(vectors: WordVectors) -> None:
    assert map_words(vectors).words == small_table().words


def test_the_svg_is_valid_and_names_every_word(vectors: WordVectors, tmp_path: Path) -> None:
    write_map(map_words(vectors, ["man", "king", "queen", "Paris"]), tmp_path / "map.svg", "small")
    root = ElementTree.parse(tmp_path / "map.svg").getroot()
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["man", "king", "queen", "Paris"]


def test_the_page_loads_nothing(vectors: WordVectors, tmp_path: Path) -> None:
    write_map(map_words(vectors), tmp_path / "map.html", "<small>")
    html = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "<h1>&lt;small&gt;</h1>" in html
    assert not re.search(r"<script|src=|href=", html)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["man", "king"], "2 words are given, but a map needs 3"),
        (["man", "king", "quen"], "'quen' has no vector"),
        (["man:kin", "king"], "'kin' has no vector"),
    ],
)
def test_words_that_cannot_be_drawn_are_refused(vectors: WordVectors, words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        map_words(vectors, words)


def test_another_ending_is_refused_before_anything_is_written(vectors: WordVectors, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is written as \.svg or \.html"):
        write_map(map_words(vectors), tmp_path / "map.png", "small")
    assert list(tmp_path.iterdir()) == []
