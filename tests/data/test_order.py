"""Laws of the order: a permutation, random access, fair, and the same everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.order import Order, draws

seeds = st.integers(min_value=-(2**63), max_value=2**63)
epochs = st.integers(min_value=0, max_value=10**6)


@given(seeds, epochs, st.integers(min_value=1, max_value=3000))
def test_every_index_comes_exactly_once(seed: int, epoch: int, size: int) -> None:
    indices = Order(seed, epoch, size).at(np.arange(size))
    assert np.array_equal(np.sort(indices), np.arange(size))


@given(seeds, epochs, st.integers(min_value=1, max_value=2**62), st.data())
def test_a_position_alone_gives_what_it_gives_among_others(
    seed: int, epoch: int, size: int, data: st.DataObject
) -> None:
    positions = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20, unique=True))
    order = Order(seed, epoch, size)
    together = order.at(positions)
    assert [int(order.at(position)[0]) for position in positions] == together.tolist()
    assert len(set(together.tolist())) == len(positions)
    assert together.min() >= 0
    assert together.max() < size


@pytest.mark.parametrize("size", [2, 3, 5, 12])
def test_a_small_order_is_fair(size: int) -> None:
    """Chi-square over 2,000 seeds: every index is as likely at every position, every pair at the start."""
    orders = np.stack([Order(seed, 0, size).at(np.arange(size)) for seed in range(2000)])
    for position in range(size):
        assert chi_square(np.bincount(orders[:, position], minlength=size)) < size - 1 + 6 * np.sqrt(2 * size)
    if size > 3:
        pairs = np.bincount(orders[:, 0] * size + orders[:, 1], minlength=size * size).reshape(size, size)
        seen = pairs[~np.eye(size, dtype=bool)]
        assert chi_square(seen) < len(seen) - 1 + 6 * np.sqrt(2 * len(seen))


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def test_neighbours_are_scattered() -> None:
    """Neighbours in the order are as far apart as two random numbers: a third of the size on average."""
    size = 1_000_003
    indices = Order(5, 2, size).at(np.arange(100_000))
    assert abs(np.abs(np.diff(indices)).mean() / size - 1 / 3) < 0.01
    assert abs(np.corrcoef(np.arange(100_000), indices)[0, 1]) < 0.02


def test_seed_epoch_and_purpose_change_the_order() -> None:
    size = 1000
    places = np.arange(size)
    orders = [Order(1, 0, size), Order(2, 0, size), Order(1, 1, size), Order(1, 0, size, "batches")]
    lists = [order.at(places).tolist() for order in orders]
    assert len({tuple(indices) for indices in lists}) == 4


def test_the_order_is_the_same_on_every_machine() -> None:
    """A changed order would silently change every resumed run; who changes it on purpose changes this too."""
    assert Order(1, 0, 10).at(np.arange(10)).tolist() == GOLDEN
    assert Order(1, 0, 10**12).at([0, 1]).tolist() == GOLDEN_LARGE


@given(seeds, epochs, st.integers(min_value=0, max_value=2**40), st.integers(min_value=0, max_value=10**6))
def test_a_draw_depends_only_on_where_it_is_used(seed: int, epoch: int, example: int, place: int) -> None:
    alone = draws(seed, epoch, "test", example, place)
    among = draws(seed, epoch, "test", np.array([7, example, 9]), np.array([place, place, 0]))
    assert alone[0] == among[1]
    assert 0 <= alone[0] < 1


def test_draws_are_uniform_and_not_related() -> None:
    examples, places = np.meshgrid(np.arange(300), np.arange(300), indexing="ij")
    table = draws(3, 1, "test", examples, places)
    assert abs(table.mean() - 0.5) < 0.005
    assert abs(table.var() - 1 / 12) < 0.002
    assert abs(np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]) < 0.02


GOLDEN = [1, 5, 8, 9, 7, 2, 6, 0, 3, 4]
GOLDEN_LARGE = [764071226675, 429325534950]
