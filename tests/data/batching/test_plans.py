"""Laws of the plans: each example once an epoch, batches within the budget, little padding, no state."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.batching.plans import POOL, Bucketed, Even, Lengths, by_length, cuts
from clearhead.data.order import Integers

sizes = st.integers(min_value=1, max_value=300)


def share_of_padding(lengths: Lengths, batches: list[Integers]) -> float:
    """The share of padding in all the tokens of these batches."""
    real = sum(int(lengths[batch].sum()) for batch in batches)
    padded = sum(len(batch) * int(lengths[batch].max(axis=0).sum()) for batch in batches)
    return 1 - real / padded if padded else 0.0


@st.composite
def length_tables(draw: st.DrawFn) -> Lengths:
    columns = draw(st.integers(min_value=1, max_value=2))
    row = st.lists(st.integers(min_value=1, max_value=30), min_size=columns, max_size=columns)
    return np.array(draw(st.lists(row, min_size=1, max_size=120)))


def bucketed(
    lengths: Lengths, budget: int, seed: int = 1, pool: int = POOL, shuffle: bool = True
) -> Bucketed:
    return Bucketed(lambda examples: lengths[examples], len(lengths), budget, seed, shuffle, pool)


@given(sizes, st.integers(1, 40), st.integers(), st.integers(0, 9), st.booleans())
def test_even_batches_hold_all_examples_once(
    size: int, rows: int, seed: int, epoch: int, shuffle: bool
) -> None:
    plan = Even(size, rows, seed, shuffle)
    batches = [plan.examples(epoch, step) for step in range(plan.count(epoch))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(size))
    assert all(len(batch) == rows for batch in batches[:-1])
    assert plan.has(epoch, len(batches) - 1)
    assert not plan.has(epoch, len(batches))


@given(
    length_tables(), st.integers(1, 200), st.integers(), st.integers(0, 9), st.integers(1, 150), st.booleans()
)
def test_bucketed_batches_hold_all_examples_once(
    lengths: Lengths, budget: int, seed: int, epoch: int, pool: int, shuffle: bool
) -> None:
    plan = bucketed(lengths, budget, seed, pool, shuffle)
    batches = [plan.examples(epoch, step) for step in range(plan.count(epoch))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max(axis=0).sum() <= budget
    assert plan.has(epoch, len(batches) - 1)
    assert not plan.has(epoch, len(batches))


@given(length_tables(), st.integers(1, 200), st.integers(0, 3), st.integers(1, 50), st.data())
def test_any_step_is_reached_without_the_ones_before(
    lengths: Lengths, budget: int, epoch: int, pool: int, data: st.DataObject
) -> None:
    through = bucketed(lengths, budget, 4, pool)
    batches = [through.examples(epoch, step) for step in range(through.count(epoch))]
    step = data.draw(st.integers(0, len(batches) - 1))
    fresh = bucketed(lengths, budget, 4, pool)
    assert np.array_equal(fresh.examples(epoch, step), batches[step])
    fresh.examples(epoch + 1, 0)
    assert np.array_equal(fresh.examples(epoch, step), batches[step])


@given(length_tables(), st.integers(1, 200))
def test_a_cut_comes_only_where_one_more_row_would_not_fit(lengths: Lengths, budget: int) -> None:
    lengths = lengths[by_length(lengths)]
    places = [0, *cuts(lengths, budget), len(lengths)]
    for start, end in pairwise(places[:-1]):
        one_more = lengths[start : end + 1]
        assert len(one_more) * one_more.max(axis=0).sum() > budget


def captions(count: int, seed: int) -> Lengths:
    """Lengths like those of Multi30k in sub-words: mean 15, deviation 5, correlation 0.86 of the sides."""
    random = np.random.default_rng(seed)
    common, *own = random.normal(size=(3, count))
    sides = [0.86**0.5 * common + 0.14**0.5 * noise for noise in own]
    spread = [(np.exp(0.3 * side) * 14.5).round() for side in sides]
    lengths: Lengths = np.clip(np.stack(spread, axis=1), 4, 52).astype(np.int64)
    return lengths


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 3), st.sampled_from([1024, 2048, 4096]))
def test_captions_need_less_than_five_percent_of_padding(seed: int, epoch: int, budget: int) -> None:
    lengths = captions(29_000, seed)
    plan = bucketed(lengths, budget, seed)
    batches = [plan.examples(epoch, step) for step in range(plan.count(epoch))]
    assert share_of_padding(lengths, batches) < 0.05
    unsorted = np.array_split(np.arange(29_000), len(batches))
    assert share_of_padding(lengths, unsorted) > 0.3, "the lengths are too alike to test anything"


def test_epochs_differ_in_what_lies_together() -> None:
    lengths = captions(5000, 1)
    plan = bucketed(lengths, 2048)
    first, second = (
        {frozenset(plan.examples(epoch, step).tolist()) for step in range(plan.count(epoch))}
        for epoch in (0, 1)
    )
    assert len(first & second) < 0.05 * len(first)


def test_an_example_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    plan = bucketed(np.array([[3], [50], [4]]), 10, shuffle=False)
    assert [plan.examples(0, step).tolist() for step in range(plan.count(0))] == [[0, 2], [1]]
