"""What holds for every built-in corpus, whatever it is about."""

import subprocess
import sys
from functools import cache
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.corpora import CORPORA
from clearhead.corpora.corpus import SPLITS
from clearhead.errors import ConfigError
from clearhead.examples import Conversation, Example, Labelled, Pair, Split, Text

SOME = 150
TYPES = {"text": Text, "pair": Pair, "labelled": Labelled}
every_corpus = pytest.mark.parametrize("name", CORPORA)


def drawn(name: str, split: Split = "train", seed: int = 1, count: int = SOME) -> list[Example]:
    """The first examples of a split."""
    return list(CORPORA[name].examples(split, seed, count))


some = cache(drawn)


def strings(example: Example) -> list[str]:
    """The texts of an example."""
    match example:
        case Pair(source, target):
            return [source, target]
        case Labelled():
            return [*example.texts, *example.labels]
        case Text(text):
            return [text]
        case Conversation(messages):
            return [message.content for message in messages]


def given_by(example: Example) -> str:
    """What a model reads of an example: two texts to compare count as one."""
    return example.input if isinstance(example, Labelled) else strings(example)[0]


def test_the_table_is_under_the_names_that_the_corpora_give_themselves() -> None:
    assert {name: corpus.name for name, corpus in CORPORA.items()} == {name: name for name in CORPORA}
    assert all(corpus.description and "\n" not in corpus.description for corpus in CORPORA.values())


@every_corpus
def test_a_seed_decides_every_example(name: str) -> None:
    for split in SPLITS:
        assert drawn(name, split) == some(name, split)
    assert some(name, seed=1) != some(name, seed=2)


@every_corpus
def test_a_count_is_kept_and_more_examples_begin_with_the_fewer(name: str) -> None:
    assert drawn(name, count=0) == []
    assert drawn(name, count=17) == some(name)[:17]
    assert len(some(name)) == SOME


@every_corpus
def test_without_a_count_a_split_has_its_own(name: str) -> None:
    assert set(CORPORA[name].counts) == set(SPLITS)
    first = list(islice(CORPORA[name].examples("validation"), SOME))
    assert first == some(name, "validation")
    assert CORPORA[name].counts["validation"] >= len(first)


@every_corpus
def test_splits_share_no_text_even_between_seeds(name: str) -> None:
    train, validation, test = (
        {given_by(example) for seed in (1, 2) for example in some(name, split, seed)} for split in SPLITS
    )
    assert train
    assert validation
    assert test
    assert not train & validation
    assert not train & test
    assert not validation & test


@every_corpus
def test_no_example_comes_twice(name: str) -> None:
    assert len(set(some(name))) == len(some(name))


@every_corpus
def test_every_example_is_of_the_kind_that_the_corpus_states(name: str) -> None:
    kinds = {type(example) for split in SPLITS for example in some(name, split)}
    assert kinds == {TYPES[CORPORA[name].kind]}


@every_corpus
def test_no_text_is_blank_or_breaks_its_line(name: str) -> None:
    for text in (text for split in SPLITS for example in some(name, split) for text in strings(example)):
        assert text.strip()
        if name != "python":  # whose texts are whole files
            assert text == " ".join(text.split())


@every_corpus
def test_every_split_of_a_labelled_corpus_holds_every_label(name: str) -> None:
    if CORPORA[name].kind == "labelled":
        train, validation, test = (
            {
                label
                for example in some(name, split)
                if isinstance(example, Labelled)
                for label in example.labels
            }
            for split in SPLITS
        )
        assert train == validation == test
        assert len(train) > 1


@every_corpus
def test_every_option_has_a_meaning_and_a_default_that_it_allows(name: str) -> None:
    for option in CORPORA[name].options:
        assert option.default in option.values
        assert option.meaning


@every_corpus
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"builtin:{name} has no option 'lenght'"):
        CORPORA[name].examples("train", lenght=3)


@given(st.sampled_from(sorted(set(CORPORA) - {"python"})), st.integers(0, 2**64))
def test_any_seed_will_do(name: str, seed: int) -> None:
    assert len(drawn(name, "test", seed, 3)) == 3


def test_no_corpus_needs_torch() -> None:
    code = """
import sys
from clearhead.corpora import CORPORA
for corpus in CORPORA.values():
    next(corpus.examples("train"))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
