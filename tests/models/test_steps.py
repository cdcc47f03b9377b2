"""Going on with a text step by step equals reading it at once, for every kind of model that writes."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.layers import cache
from clearhead.models.model import State
from clearhead.models.writer import Writer
from tests.models.cases import CASES, B, Case, gap, read, some_ids, some_source
from tests.models.test_laws import TOLERANCE, cases

T = 14  # tokens of each text


@pytest.fixture(scope="module", autouse=True)
def _little_room() -> Iterator[None]:
    """A cache that has to grow on the way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "FIRST_SLOTS", 4)
        yield


Plan = list[list[int]]  # for each step, how many tokens each row takes

# Single tokens, rows of different lengths, a row that waits, chunks longer than any window, and the last slot.
RAGGED: Plan = [[1, 1], [6, 2], [1, 0], [0, 5], [1, 1], [5, 5]]


def write(model: Writer[Any], tokens: Tensor, state: State, plan: Plan, extra: int = 0) -> list[list[Tensor]]:
    """Feeds rows by a plan, with `extra` columns of padding; returns the logits of each row's tokens."""
    heard: list[list[Tensor]] = [[] for _ in tokens]
    for counts in plan:
        chunk = some_ids(len(tokens), max(*counts, 1) + extra, seed=9)
        starts = state.lengths.tolist()
        for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
            chunk[row, :count] = tokens[row, start : start + count]
        logits = model.step(chunk, state, torch.tensor(counts))
        assert state.lengths.tolist() == [start + count for start, count in zip(starts, counts, strict=True)]
        for row, count in enumerate(counts):
            heard[row] += list(logits[row, :count])
    return heard


def check(model: Writer[Any], tokens: Tensor, source: Tensor | None, heard: list[list[Tensor]]) -> None:
    """What was said step by step is what one pass says."""
    full = read(model, tokens, source)
    for row, logits in enumerate(heard):
        if logits:
            assert gap(torch.stack(logits), full[row, : len(logits)]) < TOLERANCE


def decoder_of(case: Case) -> Writer[Any]:
    """The model of a case that writes."""
    model = case.model()
    assert isinstance(model, Writer)
    return model


@cases(is_writer=True, is_sampled=True)
@pytest.mark.notes("N40")
def test_one_token_at_a_time(case: Case) -> None:
    model, tokens, source = decoder_of(case), some_ids(B, 7), some_source(case)
    state = model.start(B, T, source)
    heard = [model.step(tokens[:, i : i + 1], state) for i in range(7)]
    assert gap(torch.cat(heard, 1), read(model, tokens, source)) < TOLERANCE


@cases(is_writer=True)
def test_rows_of_different_lengths(case: Case) -> None:
    model, tokens, source = decoder_of(case), some_ids(B, T), some_source(case)
    state = model.start(B, T, source)
    check(model, tokens, source, write(model, tokens, state, RAGGED, extra=2))
    assert state.lengths.tolist() == [T, T]


@cases(is_writer=True, is_sampled=True)
def test_the_last_token_alone(case: Case) -> None:
    model, tokens, source = decoder_of(case), some_ids(B, T), some_source(case)
    counts = torch.tensor([5, 3])
    state, same = model.start(B, T, source), model.start(B, T, source)
    every = model.step(tokens[:, :5], state, counts)
    last = model.step(tokens[:, :5], same, counts, last=True)
    assert last.shape[1] == 1
    assert gap(last[:, 0], every[torch.arange(B), counts - 1]) < TOLERANCE


@cases(is_writer=True, is_sampled=True)
def test_sequences_are_kept_twice_dropped_and_put_in_another_order(case: Case) -> None:
    model, tokens, source = decoder_of(case), some_ids(3, T), some_source(case, 3)
    state = model.start(3, T, source)
    heard = write(model, tokens, state, [[5, 2, 7]])
    for rows in (torch.tensor([2, 0, 2, 1]), torch.tensor([3, 0])):
        state.select(rows)
        tokens, source = tokens[rows], None if source is None else source[rows]
        heard = [list(heard[row]) for row in rows.tolist()]
        more = write(model, tokens, state, [[1] * len(rows), [0, 3, 2, 1][: len(rows)]])
        heard = [old + new for old, new in zip(heard, more, strict=True)]
        check(model, tokens, source, heard)


@cases(is_writer=True, is_sampled=True, can_go_back=True)
def test_going_back_and_on_with_other_words(case: Case) -> None:
    model, tokens, source = decoder_of(case), some_ids(B, T), some_source(case)
    state = model.start(B, T, source)
    lengths = torch.tensor([1, 2])  # no window has been filled yet
    write(model, tokens, state, [[2, 2]])
    state.truncate(lengths)
    assert state.lengths.tolist() == [1, 2]
    other = some_ids(B, T, seed=5)
    for row, length in enumerate(lengths.tolist()):
        other[row, :length] = tokens[row, :length]
    full = read(model, other, source)
    heard = write(model, other, state, [[4, 5], [1, 1]])
    for row, length in enumerate(lengths.tolist()):
        logits = torch.stack(heard[row])
        assert gap(logits, full[row, length : length + len(logits)]) < TOLERANCE


@cases(is_writer=True, is_sampled=True)
def test_sequences_leave_and_others_join(case: Case) -> None:
    model, tokens, source = decoder_of(case), some_ids(4, T), some_source(case, 4)
    state = model.start(4, 5, source)
    heard = write(model, tokens, state, [[5, 4, 1, 2]])
    leave = torch.tensor([3])
    state.select(leave)
    newcomers, their_source = some_ids(3, T, seed=7), some_source(case, 3, seed=8)
    their_source = None if their_source is None else their_source[:, :4]  # shorter than the other's
    guests = model.start(3, T, their_source)
    heard = [heard[3], *write(model, newcomers, guests, [[6, 3, 1]])]
    state.join(guests)
    assert state.lengths.tolist() == [2, 6, 3, 1]
    order = torch.tensor([3, 1, 2, 0])
    state.select(order)
    tokens = torch.cat([tokens[leave], newcomers])[order]
    heard = [heard[row] for row in order]
    more = write(model, tokens, state, [[1, 1, 1, 1], [4, 0, 2, 1]])
    for row, logits in enumerate(old + new for old, new in zip(heard, more, strict=True)):
        own = None
        if source is not None and their_source is not None:
            own = source[3:] if row == 3 else their_source[order[row] - 1][None]
        assert gap(torch.stack(logits), read(model, tokens[row : row + 1], own)[0, : len(logits)]) < TOLERANCE


@pytest.mark.parametrize("name", ["window", "window rotary grouped", "window relative", "kept"])
@settings(max_examples=15)
@given(
    plan=st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), max_size=6), extra=st.integers(0, 2)
)
def test_any_plan_of_chunks(name: str, plan: Plan, extra: int) -> None:
    """Whatever the chunks, across the window's edge and up to the last slot."""
    model, tokens = decoder_of(CASES[f"decoder: {name}"]), some_ids(3, T)
    done, fitting = [0, 0, 0], []
    for counts in plan:
        counts = [min(count, T - before) for count, before in zip(counts, done, strict=True)]
        done = [count + before for count, before in zip(counts, done, strict=True)]
        fitting.append(counts)
    check(model, tokens, None, write(model, tokens, model.start(3, T), fitting, extra))


@pytest.mark.parametrize("capacity", [2, 3, 4, 8])
def test_a_window_keeps_only_the_window(capacity: int) -> None:
    case = CASES["decoder: window"]
    model, tokens = decoder_of(case), some_ids(B, T)
    state = model.start(B, capacity)
    assert case.window == 3
    assert all(K.shape[2] == min(3, capacity) for K in state.cache.K)
    heard = write(model, tokens, state, [[1, 1]] * capacity)
    check(model, tokens, None, heard)
