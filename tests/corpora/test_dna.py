"""Promoters: the label is a function of the sequence, and counting does not find it."""

import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.corpora import dna
from clearhead.errors import ConfigError
from clearhead.examples import Labelled

letters = st.text("ACGT", min_size=dna.SHORTEST, max_size=80)


def some(count: int, **options: int) -> list[Labelled]:
    """The first training examples."""
    return [e for e in dna.CORPUS.examples("train", 1, count, **options) if isinstance(e, Labelled)]


def differences(one: str, other: str) -> int:
    """In how many places two words differ."""
    return sum(a != b for a, b in zip(one, other, strict=True))


@given(letters)
def test_without_mismatches_the_label_is_a_regular_expression(sequence: str) -> None:
    found = re.search("(?=TTGACA.{15,19}TATAAT)", sequence) is not None
    assert dna.has_promoter(sequence, 0) == found


@given(st.data(), st.integers(0, 2), st.integers(0, 30))
def test_written_boxes_are_found_at_right_distances_and_at_no_others(
    data: st.DataObject, mismatches: int, gap: int
) -> None:
    first = data.draw(st.sampled_from(dna.variants(dna.FIRST, mismatches)))
    second = data.draw(st.sampled_from(dna.variants(dna.SECOND, mismatches)))
    sequence = first + "N" * gap + second  # N is no letter of any box
    assert dna.has_promoter(sequence, mismatches) == (15 <= gap <= 19)
    assert not dna.has_promoter(second + "N" * gap + first, 0)


@pytest.mark.parametrize("mismatches", range(3))
def test_variants_are_all_words_within_the_mismatches(mismatches: int) -> None:
    words = ["".join(word) for word in product("ACGT", repeat=dna.BOX)]
    near = sorted(word for word in words if differences(word, dna.FIRST) <= mismatches)
    assert list(dna.variants(dna.FIRST, mismatches)) == near


@pytest.mark.parametrize("mismatches", range(3))
@pytest.mark.parametrize("length", [dna.SHORTEST, 60, 200])
def test_labels_agree_with_the_sequences(length: int, mismatches: int) -> None:
    for example in some(100, length=length, mismatches=mismatches):
        assert set(example.text) <= set("ACGT")
        assert len(example.text) == length
        assert (example.label == "promoter") == dna.has_promoter(example.text, mismatches)


def test_labels_are_balanced_and_counts_of_letters_say_nothing() -> None:
    examples = some(2000)
    share = Counter(example.label for example in examples)["promoter"] / len(examples)
    assert abs(share - 0.5) < 0.04
    counts = {
        label: Counter("".join(e.text for e in examples if e.label == label))
        for label in ("promoter", "other")
    }
    for letter in "ACGT":
        shares = [count[letter] / count.total() for count in counts.values()]
        assert abs(shares[0] - shares[1]) < 0.01


def test_to_know_which_boxes_occur_is_not_enough() -> None:
    """The best guess from whether the first box occurs and whether the second does stays below 70 %."""
    table: Counter[tuple[bool, bool, str]] = Counter()
    for example in some(2000):
        boxes = [bool(dna.places(example.text, box, 1)) for box in (dna.FIRST, dna.SECOND)]
        table[boxes[0], boxes[1], example.answer] += 1
    right = sum(
        max(table[a, b, "promoter"], table[a, b, "other"]) for a in (True, False) for b in (True, False)
    )
    assert 0.5 < right / table.total() < 0.7


def test_the_mean_of_the_wrong_distances_is_the_right_one() -> None:
    assert sum(dna.WRONG_GAPS) / len(dna.WRONG_GAPS) == sum(dna.GAPS) / len(dna.GAPS)
    assert not set(dna.WRONG_GAPS) & set(dna.GAPS)


def test_a_length_that_cannot_hold_the_boxes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"builtin:dna: length = 20\. Use a whole number from 41 to 1000\."):
        dna.CORPUS.examples("train", length=20)
