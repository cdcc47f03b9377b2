"""Words: the analogies that the sentences teach, and the two senses that they mix."""

import re
from random import Random

import pytest

from clearhead.corpora import words
from clearhead.examples import Text


def sentences(count: int) -> list[list[str]]:
    """The words of the first training sentences."""
    texts = [e.text for e in words.CORPUS.examples("train", 1, count) if isinstance(e, Text)]
    return [re.findall(r"\w+", text) for text in texts]


def test_the_notes_analogies_are_listed() -> None:
    assert ("king", "man", "woman", "queen") in words.ANALOGIES
    assert ("Paris", "France", "Italy", "Rome") in words.ANALOGIES


def test_an_analogy_never_holds_a_word_twice() -> None:
    assert all(len(set(analogy)) == 4 for analogy in words.ANALOGIES)
    assert len(set(words.ANALOGIES)) == len(words.ANALOGIES)


def test_every_word_of_an_analogy_is_said_often() -> None:
    said = [word for sentence in sentences(5000) for word in sentence]
    assert min(said.count(word) for word in {word for analogy in words.ANALOGIES for word in analogy}) > 20


def test_man_and_woman_never_share_a_pronoun() -> None:
    """What tells the genders apart stands beside every couple alike, and never on the wrong side."""
    men, women = ({couple[side] for couple in words.COUPLES} for side in (0, 1))
    rng = Random(1)
    for said in (set(words.couple(rng).split()) for _ in range(5000)):
        assert not said & men or not said & {"she", "her", "herself"}
        assert not said & women or not said & {"he", "his", "him", "himself"}


def test_bank_and_warm_stand_in_two_sorts_of_sentences() -> None:
    said = [set(sentence) for sentence in sentences(5000)]
    for word, one, other in (("bank", {"river", "muddy", "boat"}, {"loan", "account", "money"}),
                             ("warm", {"smile", "voice", "welcome"}, {"soup", "oven", "water"})):  # fmt: skip
        both = [sentence for sentence in said if word in sentence]
        assert sum(bool(sentence & one) for sentence in both) > 30
        assert sum(bool(sentence & other) for sentence in both) > 30
        assert not any(sentence & one and sentence & other for sentence in both)


def test_the_sentence_of_the_notes_is_of_the_grammar() -> None:
    rng = Random(1)
    assert "she went to the bank of the river" in {words.sense(rng) for _ in range(5000)}


@pytest.mark.slow
def test_skip_gram_learns_the_analogies_and_puts_bank_between_its_senses() -> None:
    from gensim.models import Word2Vec

    learned = Word2Vec(sentences(20_000), sg=1, vector_size=50, window=5, epochs=5, workers=1, seed=1).wv
    right = sum(
        learned.most_similar(positive=[a, c], negative=[b], topn=1)[0][0] == d
        for a, b, c, d in words.ANALOGIES
    )
    assert right / len(words.ANALOGIES) > 0.95
    assert {"shore", "broker"} <= {word for word, _ in learned.most_similar("bank", topn=5)}
    assert learned.similarity("shore", "broker") < min(
        learned.similarity("bank", w) for w in ("shore", "broker")
    )
