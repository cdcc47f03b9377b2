"""The store keeps what is used, within its limits."""

import pytest

from clearhead.api import Model
from clearhead.serving.passes import Pass, Passes
from clearhead.serving.questions import Question
from clearhead.serving.store import Gone, Store
from tests.decoding.tiny import language_model


@pytest.fixture(scope="module")
def seen() -> Pass:
    return Passes(Model(language_model("word"))).ask(Question(text="the cat"))


def test_a_pass_counts_its_bytes(seen: Pass) -> None:
    assert seen.bytes == sum(4 * X.numel() for X in seen.trace.values())


def test_the_least_used_go_first(seen: Pass) -> None:
    store = Store(most_bytes=2 * seen.bytes)
    first, second = store.add(seen), store.add(seen)
    store.get(first)
    third = store.add(seen)
    assert store.bytes <= store.most_bytes
    assert store.get(first) is store.get(third) is seen
    with pytest.raises(Gone, match="no longer kept"):
        store.get(second)


def test_the_newest_stays_even_if_it_is_too_large(seen: Pass) -> None:
    store = Store(most_bytes=1)
    store.add(seen)
    assert store.get(store.add(seen)) is seen
    assert len(store) == 1


def test_what_nobody_looks_at_expires(seen: Pass) -> None:
    now = [0.0]
    store = Store(seconds=60, clock=lambda: now[0])
    name = store.add(seen)
    now[0] = 50
    store.get(name)
    now[0] = 109
    assert store.get(name) is seen
    now[0] = 170
    with pytest.raises(Gone):
        store.get(name)
    assert len(store) == 0


def test_names_cannot_be_guessed(seen: Pass) -> None:
    store = Store()
    names = {store.add(seen) for _ in range(20)}
    assert len(names) == 20
    assert all(len(name) >= 16 for name in names)
