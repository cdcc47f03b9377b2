"""The decode thread: requests from other threads, works in parts, faults, and a beat that stops where it hangs."""

import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.live.engine import LiveEngine
from clearhead.decoding.live.request import Part, Request
from clearhead.decoding.live.worker import Work, Worker
from tests.decoding.tiny import language_model

SECONDS = 30.0  # that no test needs


@pytest.fixture
def worker() -> Iterator[Worker]:
    module: Any = language_model().module
    worker = Worker([LiveEngine(module, [2], 48, 4)])
    worker.start()
    yield worker
    worker.stop()
    assert not worker.thread.is_alive()


def asked(worker: Worker, token: int, max_tokens: int = 6) -> tuple[Request, threading.Event]:
    """A request, and the event that it is done."""
    done = threading.Event()
    text = Request([1, token], DecodingConfig(temperature=0.0, max_tokens=max_tokens, banned=(2,)))

    def pass_on(part: Part) -> None:
        if part.reason is not None:
            done.set()

    text.pass_on = pass_on
    engine = worker.engines[0]
    assert isinstance(engine, LiveEngine)
    worker.call(lambda: engine.add(text))
    return text, done


def wait_for(event: threading.Event) -> None:
    """Keeps the thread until somebody sets the event."""
    assert event.wait(SECONDS)


def test_requests_of_many_threads_are_answered(worker: Worker) -> None:
    texts = [asked(worker, 60 + place) for place in range(9)]
    assert all(done.wait(SECONDS) for _, done in texts)
    assert [len(text.ids) for text, _ in texts] == [6] * 9


def test_works_take_turns_and_an_error_ends_one(worker: Worker) -> None:
    order: list[str] = []
    results: list[tuple[Any, Exception | None]] = []
    done = threading.Semaphore(0)

    def steps(name: str) -> Generator[None, None, str]:
        for _ in range(3):
            if name == "c":
                raise ValueError("bad")
            order.append(name)
            yield
        return f"result of {name}"

    def pass_on(result: Any, error: Exception | None) -> None:
        results.append((result, error))
        done.release()

    ready = threading.Event()
    worker.call(lambda: wait_for(ready))
    for name in "abc":
        worker.add(Work(steps(name), pass_on))
    ready.set()
    assert all(done.acquire(timeout=SECONDS) for _ in range(3))
    assert order == list("ababab")
    assert [(result, str(error or "")) for result, error in results] == [
        (None, "bad"),
        ("result of a", ""),
        ("result of b", ""),
    ]


def test_a_hang_stops_the_beat_and_a_fault_outside_any_text_does_not(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = threading.Event()
    worker.call(lambda: wait_for(hangs))
    time.sleep(0.8)
    assert worker.seconds_since_beat > 0.7
    hangs.set()

    def fail(engine: Any, *given: Any) -> None:
        raise MemoryError("full")

    with monkeypatch.context() as patch:
        patch.setattr(LiveEngine, "take_in", fail)
        text, done = asked(worker, 70)
        assert done.wait(SECONDS)
        assert str(text.error) == "full"
    text, done = asked(worker, 70)
    assert done.wait(SECONDS)
    assert text.reason == "length"
    assert worker.seconds_since_beat < 5
    assert "a step of the engine failed" in caplog.text
