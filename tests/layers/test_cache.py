"""The cache itself: slots, rings, and what it refuses. That stepping equals one pass is in tests/models."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.layers import cache as module
from clearhead.layers.attention import Dimensions
from clearhead.layers.cache import Cache
from tests.layers.parts import D_K, D_V, B, D, H, some

SIZES = [Dimensions(D, D, H, 1, D_K, D_V), Dimensions(D, D, H, H, D_K, D_V, kept=(0, 2))]


def make(capacity: int = 9, window: int | None = None, batch: int = B) -> Cache:
    return Cache(SIZES, batch, capacity, window, torch.zeros(1))


def fill(cache: Cache, n: int, seed: int = 1) -> None:
    """Adds n tokens with random keys and values to every sequence."""
    chunk = cache.open(n)
    for block, size in enumerate(SIZES):
        K, V = (some(cache.batch, len(size.key_heads), n, width, seed=seed) for width in (D_K, D_V))
        chunk.extend(block, K, V)
    chunk.finish()


def test_there_is_room_for_what_is_needed() -> None:
    cache = make(9)
    assert [tuple(K.shape) for K in cache.K] == [(B, 1, 9, D_K), (B, 2, 9, D_K)]
    assert [tuple(V.shape) for V in cache.V] == [(B, 1, 9, D_V), (B, 2, 9, D_V)]
    assert cache.bytes == 4 * B * 3 * 9 * (D_K + D_V)
    places = [X.data_ptr() for X in cache.K + cache.V]
    fill(cache, 4)
    fill(cache, 5)
    assert [X.data_ptr() for X in cache.K + cache.V] == places  # written in place


def test_a_generous_capacity_costs_nothing_until_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_SLOTS", 4)
    cache = make(1000)
    rooms = []
    for _ in range(20):
        before = [X[:, :, : cache.used].clone() for X in cache.K]
        fill(cache, 1)
        rooms.append(cache.K[0].shape[2])
        for X, old in zip(cache.K, before, strict=True):
            assert torch.equal(X[:, :, : old.shape[2]], old)  # what was there is there
    assert rooms == [4] * 4 + [8] * 4 + [16] * 8 + [32] * 4
    assert make(11).K[0].shape[2] == 4
    full = make(11)
    fill(full, 11)
    assert full.K[0].shape[2] == 11  # never more than the capacity


def test_a_window_needs_no_more_than_the_window() -> None:
    assert make(1000, window=3).bytes == make(3).bytes
    assert make(2, window=3).bytes == make(2).bytes
    assert make(1000, window=3).is_ring
    assert not make(3, window=3).is_ring


@given(st.integers(1, 6), st.integers(0, 40))
def test_a_slot_of_a_ring_holds_the_newest_position_that_falls_on_it(window: int, length: int) -> None:
    cache = make(50, window)
    held = cache.positions(torch.tensor([length]))[0].tolist()
    for slot, position in enumerate(held):
        falling = [p for p in range(length) if p % window == slot]
        assert position == falling[-1] if falling else position < 0


def test_a_full_cache_says_so() -> None:
    cache = make(9)
    fill(cache, 7)
    with pytest.raises(
        InputError, match="A sequence of 7 tokens has no room for 3 more: the cache's capacity is 9"
    ):
        cache.open(3)
    with pytest.raises(InputError, match="Start with a larger capacity"):
        cache.open(3, torch.tensor([3, 2]))
    cache.open(3, torch.tensor([2, 1]))  # padding does not count


def test_a_ring_does_not_go_back_to_what_it_has_overwritten() -> None:
    cache = make(9, window=3)
    fill(cache, 3)
    cache.truncate(torch.tensor([1, 3]))
    assert cache.lengths.tolist() == [1, 3]
    fill(cache, 2)
    cache.truncate(torch.tensor([2, 5]))  # the first has all its tokens, the second stays as it is
    with pytest.raises(InputError, match="A window of 3 positions has overwritten earlier tokens"):
        cache.truncate(torch.tensor([2, 4]))
    cache.truncate(torch.tensor([99, 99]))
    assert cache.lengths.tolist() == [2, 5]


def test_selecting_fewer_then_more_gives_no_stale_rows() -> None:
    cache = make(6, batch=3)
    fill(cache, 4)
    kept = [X.clone() for X in cache.K]
    cache.select(torch.tensor([2]))
    cache.select(torch.tensor([0, 0, 0, 0]))
    assert cache.lengths.tolist() == [4] * 4
    for X, before in zip(cache.K, kept, strict=True):
        for row in range(4):
            assert torch.equal(X[row, :, :4], before[2, :, :4])
