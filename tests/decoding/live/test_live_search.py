"""Searches side by side are the searches alone, whoever comes and goes, and whatever goes wrong with one of them."""

import random
from collections import deque
from typing import Any

import pytest
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.live.search import LiveSearch, Search
from clearhead.decoding.search import beam_search
from clearhead.decoding.steppers.switching import stepper_of
from tests.decoding.tiny import language_model, translator

END, CONTEXT = (2,), 48


def some_searches(count: int, translates: bool = True) -> list[Search]:
    """Searches of different widths, lengths and penalties."""
    draws = random.Random(5)

    def ids() -> list[int]:
        return [draws.randrange(6, 200) for _ in range(draws.randint(1, 20))]

    found = []
    for place in range(count):
        settings = DecodingConfig(
            beam=2 + place % 3, max_tokens=4 + 5 * (place % 2), length_penalty=float(place % 2)
        )
        given = ([1], [1, *ids(), 2]) if translates else ([1, *ids()], None)
        found.append(Search(given[0], settings, END, given[1], CONTEXT))
    return found


def alone(model: Any, search: Search) -> list[list[int]]:
    sources = None if search.source is None else [search.source]
    (found,) = beam_search(model, [search.prompt], search.settings, END, CONTEXT, sources)
    return [one.ids for one in found]


def finish(engine: LiveSearch[Any]) -> None:
    while engine.is_busy:
        engine.step()


@pytest.mark.parametrize("translates", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_searches_that_join_one_by_one_find_what_each_finds_alone(rows: int, translates: bool) -> None:
    bundle = translator() if translates else language_model()
    engine: LiveSearch[Any] = LiveSearch(stepper_of(bundle.module, "fixed"), rows)
    searches = some_searches(6, translates)
    for search in searches:
        engine.add(search)
        engine.step()
        assert sum(one.width for one in engine.active) <= rows or len(engine.active) == 1
    finish(engine)
    for search in searches:
        assert search.found is not None
        assert [one.ids for one in search.found] == alone(bundle.module, search)
    assert engine.state is None


def test_a_cancelled_search_leaves_its_rows() -> None:
    engine: LiveSearch[Any] = LiveSearch(stepper_of(translator().module, "fixed"), 40)
    first, second, third = some_searches(3)
    for search in (first, second, third):
        engine.add(search)
    third.is_cancelled = True
    engine.step()
    assert engine.active == [first, second]
    first.is_cancelled = True
    engine.step()
    assert engine.active == [second]
    assert engine.state is not None
    assert len(engine.state.lengths) == len(second.rows)
    finish(engine)
    assert second.found is not None
    assert [one.ids for one in second.found] == alone(translator().module, second)


class Faulty:
    """A stepper that fails whenever a source has the unlucky token: as it starts, or in a later step."""

    def __init__(self, unlucky: int, fails_at_start: bool) -> None:
        self.module: Any = translator().module
        self.unlucky, self.fails_at_start = unlucky, fails_at_start

    def start(self, batch: int, capacity: int, source: Tensor, counts: Tensor | None = None) -> Any:
        is_unlucky = bool((source == self.unlucky).any())
        if self.fails_at_start and is_unlucky:
            raise RuntimeError("unlucky")
        return self.module.start(batch, capacity, source, counts)

    def step(self, tokens: Tensor, state: Any, counts: Tensor | None = None, last: bool = False) -> Tensor:
        if not self.fails_at_start and len(tokens) > 1 and bool((state.memory.seen().sum(1) == 23).any()):
            raise RuntimeError("unlucky")  # the only source of so many tokens
        Z: Tensor = self.module.step(tokens, state, counts, last)
        return Z


@pytest.mark.parametrize("fails_at_start", [True, False])
def test_an_error_ends_one_search_only(fails_at_start: bool) -> None:
    unlucky = 201
    faulty: Any = Faulty(unlucky, fails_at_start)
    engine: LiveSearch[Any] = LiveSearch(faulty, 40, deque(some_searches(3)))
    others = list(engine.waiting)
    bad = Search([1], DecodingConfig(beam=3, max_tokens=9), END, [1, *[unlucky] * 21, 2], CONTEXT)
    engine.waiting.insert(1, bad)
    finish(engine)
    assert str(bad.error) == "unlucky"
    for search in others:
        assert search.found is not None
        assert [one.ids for one in search.found] == alone(translator().module, search)


def test_what_belongs_to_nobody_ends_all() -> None:
    engine: LiveSearch[Any] = LiveSearch(stepper_of(translator().module, "fixed"), 40)
    first, second = some_searches(2)
    engine.add(first)
    engine.step()
    engine.add(second)
    engine.give_up(RuntimeError("broken"))
    assert str(first.error) == "broken"
    finish(engine)
    assert second.found is not None


def test_time_is_up() -> None:
    engine: LiveSearch[Any] = LiveSearch(stepper_of(translator().module, "fixed"), 40)
    search = some_searches(1)[0]
    search.settings = search.settings.replace(seconds=1e-9, max_tokens=40)
    engine.add(search)
    finish(engine)
    assert search.found is not None
    assert search.found[0].reason == "time"
