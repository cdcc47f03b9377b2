"""The cache keeps what is used, within its limits."""

import pytest

from clearhead.inspection.passes import Inspector, Pass
from clearhead.page.service.pass_cache import PassCache, PassExpired
from tests.decoding.tiny import language_model


@pytest.fixture(scope="module")
def captured() -> Pass:
    return Inspector(language_model("word")).run("the cat")


def test_a_pass_counts_its_bytes(captured: Pass) -> None:
    assert captured.bytes == sum(4 * X.numel() for X in captured.trace.values())
    assert captured.bytes < captured.trace.bytes.most(None)  # with what is allocated while a block runs


def test_the_least_used_go_first(captured: Pass) -> None:
    cache = PassCache(most_bytes=2 * captured.trace.bytes.most(None))
    first, second = cache.add(captured), cache.add(captured)
    cache.get(first)
    third = cache.add(captured)
    assert cache.bytes <= cache.most_bytes
    assert cache.get(first) is cache.get(third) is captured
    with pytest.raises(PassExpired, match="no longer kept"):
        cache.get(second)


def test_the_latest_stays_even_if_it_is_too_large(captured: Pass) -> None:
    cache = PassCache(most_bytes=1)
    cache.add(captured)
    assert cache.get(cache.add(captured)) is captured
    assert len(cache) == 1


def test_what_nobody_looks_at_expires(captured: Pass) -> None:
    now = [0.0]
    cache = PassCache(seconds=60, clock=lambda: now[0])
    name = cache.add(captured)
    now[0] = 50
    cache.get(name)
    now[0] = 109
    assert cache.get(name) is captured
    now[0] = 170
    with pytest.raises(PassExpired):
        cache.get(name)
    assert len(cache) == 0


def test_names_cannot_be_guessed(captured: Pass) -> None:
    cache = PassCache()
    names = {cache.add(captured) for _ in range(20)}
    assert len(names) == 20
    assert all(len(name) >= 16 for name in names)


def test_room_is_made_before_a_pass_runs(captured: Pass) -> None:
    most = captured.trace.bytes.most(None)
    cache = PassCache(most_bytes=2 * most)
    first, second = cache.add(captured), cache.add(captured)
    cache.reserve(most)
    assert len(cache) == 1
    assert cache.get(second) is captured
    with pytest.raises(PassExpired):
        cache.get(first)


def test_a_question_that_was_asked_before_is_found(captured: Pass) -> None:
    cache = PassCache()
    assert cache.find("a") is None
    cache.entry(cache.add(captured, "a")).answer = {"name": "x"}
    assert cache.find("a") == {"name": "x"}
    assert cache.find("b") is None
