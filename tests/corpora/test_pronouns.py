"""builtin:pronouns: *it* is translated by the gender of what it stands for, and its labels say what that is."""

from itertools import islice

import pytest

from clearhead.corpora import CORPORA
from clearhead.corpora.pronouns import ANIMALS, IT, OF_ANIMALS, OF_PLACES, PLACES, labels
from clearhead.examples import Pair


@pytest.mark.notes("N20")
def test_the_last_word_decides_who_it_is() -> None:
    nouns = {english: gender for english, _, gender in ANIMALS + PLACES}
    animals, reasons = {english for english, _, _ in ANIMALS}, {english for english, _ in OF_ANIMALS}
    seen = set()
    for example in islice(CORPORA["pronouns"].examples("train"), 300):
        assert isinstance(example, Pair)
        found = labels(example.source).relations
        word = {one.name: example.source[slice(*one.other)] for one in found}
        assert {example.source[slice(*one.word)] for one in found} == {"it"}
        assert (
            (word["reason"] in reasons) == (word["coreference"] in animals) != (word["other noun"] in animals)
        )
        assert example.target.split()[1] == IT[nouns[word["coreference"]]]
        seen.add(example.target.split()[1])
    assert seen == {"er", "sie", "es"}
    assert not {english for english, _ in OF_PLACES} & reasons
    assert labels("Something else.").relations == ()


def test_the_grammar_names_its_own_words() -> None:
    label = CORPORA["spanish"].word_labels
    assert label is not None
    for text, wanted in {
        "Jorge cortó el pan ayer.": ["person Jorge", "verb cortó", "noun pan", "date ayer"],
        "Jorge cut the bread on Sundays.": ["person Jorge", "verb cut", "noun bread", "date Sundays"],
        "La camisa pequeña": ["noun camisa", "adjective pequeña"],
    }.items():
        assert [f"{tag.name} {text[slice(*tag.place)]}" for tag in label(text).tags] == wanted
