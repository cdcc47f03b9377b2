"""What is asked of word vectors: neighbours, similarity, sums."""

import pytest

from clearhead.errors import InputError
from clearhead.vectors.words import WordVectors
from tests.vectors.tables import small_table


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    return WordVectors(small_table())


def test_the_nearest_words_come_first_and_without_the_word_itself(vectors: WordVectors) -> None:
    near = vectors.nearest("king", 3)
    assert [one.word for one in near] == ["queen", "man", "woman"]
    assert near[0].value == pytest.approx((2 / 3) ** 0.5)
    assert len(vectors.nearest("king", 100)) == 6


def test_dot_product_and_cosine_rank_differently(vectors: WordVectors) -> None:
    assert vectors.nearest("man", 1)[0].value == pytest.approx(0.5**0.5)
    assert vectors.nearest("man", 3, by="dot")[0].value == 1.0


@pytest.mark.notes("N4")
def test_similarity_is_cosine_and_dot_product(vectors: WordVectors) -> None:
    found = vectors.similarity("woman", "queen")
    assert found.dot == 2.0
    assert found.cosine == pytest.approx(2 / (2**0.5 * 3**0.5))


@pytest.mark.parametrize(
    "expression",
    [
        "king - man + woman",
        "king-man+woman",
        "king -man +woman",
        "king − man + woman",
        "woman + king - man",
        "- man + king + woman",
        ["king", "-", "man", "+", "woman"],
        ["king - man", "+ woman"],
    ],
)
def test_an_analogy_is_written_in_any_of_these_ways(vectors: WordVectors, expression: str) -> None:
    assert vectors.analogy(expression, 1)[0].word == "queen"


def test_no_word_of_the_sum_is_its_answer(vectors: WordVectors) -> None:
    assert {one.word for one in vectors.analogy("king - man + woman")}.isdisjoint({"king", "man", "woman"})


def test_a_known_word_with_a_hyphen_stays_one(vectors: WordVectors) -> None:
    assert vectors.parse("T-shirt + man") == [(1.0, "T-shirt"), (1.0, "man")]


@pytest.mark.parametrize("expression", ["", "king", "king -", "king - - man", "+ -", "king + - man"])
def test_what_is_not_a_sum_is_refused(vectors: WordVectors, expression: str) -> None:
    with pytest.raises(InputError, match="is not a sum of words"):
        vectors.analogy(expression)


def test_a_missing_sign_is_pointed_at(vectors: WordVectors) -> None:
    with pytest.raises(InputError, match="no \\+ or - before 'man'"):
        vectors.analogy("king man")


@pytest.mark.parametrize(("word", "near"), [("quen", "queen"), ("paris", "Paris"), ("new_york", "New_York")])
def test_an_unknown_word_is_an_error_with_near_spellings(vectors: WordVectors, word: str, near: str) -> None:
    with pytest.raises(InputError, match=f"'{word}' has no vector.*7 words.*\nSpelled alike: {near}"):
        vectors.similarity("king", word)


def test_a_word_like_no_other_says_so(vectors: WordVectors) -> None:
    with pytest.raises(InputError, match="No word is spelled alike"):
        vectors.vector("zzzzzzzzzzz")
