"""Threads follow the load: fewer beside other programs, all again when those give way or end."""

from time import perf_counter
from typing import ClassVar

import pytest

from clearhead.machine import free_cores
from clearhead.machine.free_cores import PERIOD, RETRY, STALE, FreeCores


class Meter:
    """A meter of a machine with four cores, whose other programs use what a list says, one number a period."""

    loads: ClassVar[list[float | None]] = []

    def __init__(self, age: float = PERIOD) -> None:
        self.started = perf_counter() - age

    def others(self) -> float | None:
        return self.loads.pop(0)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> FreeCores:
    monkeypatch.setattr(free_cores, "LoadMeter", Meter)
    monkeypatch.setattr(free_cores, "usable_cores", lambda: set(range(4)))
    return FreeCores(Meter())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("others", "count"), [(0.0, 4), (0.4, 4), (0.6, 3), (2.0, 2), (4.0, 1), (9.0, 1), (None, 4)]
)
def test_a_thread_for_each_free_core(free: FreeCores, others: float | None, count: int) -> None:
    Meter.loads = [others]
    assert free.threads(4) == count


def test_all_threads_come_back_when_the_others_end(free: FreeCores) -> None:
    Meter.loads = [2.0, 2.0, 0.0]
    assert [free.threads(4) for _ in range(3)] == [2, 2, 4]


def test_programs_of_low_priority_give_way_once_all_threads_are_tried(free: FreeCores) -> None:
    # Beside two threads they take what is left; beside four, almost nothing.
    Meter.loads = [*[2.0] * (1 + RETRY), 0.1, 0.1]
    counts = [free.threads(4) for _ in range(len(Meter.loads))]
    assert counts == [2] * RETRY + [4, 4, 4]


def test_what_was_measured_before_a_pause_says_nothing(free: FreeCores) -> None:
    Meter.loads = [3.0]
    assert free.threads(4) == 1
    free.meter = Meter(STALE)  # type: ignore[assignment]
    assert free.threads(4) == 4
