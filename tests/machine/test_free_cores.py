"""Threads follow the load: fewer beside other programs, all again when those give way or end."""

from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import ClassVar

import pytest
import torch

from clearhead.decoding import threads
from clearhead.machine import free_cores, load
from clearhead.machine.free_cores import PATIENCE, PERIOD, STALE, FreeCores


class Meter:
    """A meter of a machine with four cores, whose other programs use what a list says, one number a period."""

    loads: ClassVar[list[float | None]] = []
    urgent: ClassVar[float | None] = 0.0  # what those of them use that do not give way

    def __init__(self, age: float = PERIOD) -> None:
        self.started = perf_counter() - age

    def others(self, nice: bool = True) -> float | None:
        return self.loads.pop(0) if nice else self.urgent


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> FreeCores:
    monkeypatch.setattr(free_cores, "LoadMeter", Meter)
    monkeypatch.setattr(free_cores, "usable_cores", lambda: set(range(4)))
    monkeypatch.setattr(free_cores, "are_others_running", lambda: True)
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
    Meter.loads = [2.0, 2.0, 2.0, 0.1, 0.1]
    assert [free.threads(4) for _ in range(5)] == [2, 2, 4, 4, 4]


def test_programs_that_hardly_give_way_are_tried_ever_less(free: FreeCores) -> None:
    Meter.loads = [2.0] * 100
    counts = [free.threads(4) for _ in range(100)]
    tries = [at for at, count in enumerate(counts) if count == 4]
    gaps = [b - a for a, b in pairwise(tries)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == PATIENCE + 1


def test_programs_that_give_no_way_are_not_tried(free: FreeCores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meter, "urgent", 2.0)
    Meter.loads = [2.0] * 30
    assert {free.threads(4) for _ in range(30)} == {2}


@pytest.mark.parametrize(
    ("urgent", "running", "count"), [(0.0, True, 4), (3.0, True, 1), (3.0, False, 4), (None, True, 4)]
)
def test_after_a_pause_the_load_in_it_counts_if_it_has_not_ended(
    urgent: float | None, running: bool, count: int, free: FreeCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meter.loads = [2.0]
    assert free.threads(4) == 2
    monkeypatch.setattr(Meter, "urgent", urgent)
    monkeypatch.setattr(free_cores, "are_others_running", lambda: running)
    free.meter = Meter(STALE)  # type: ignore[assignment]
    assert free.threads(4) == count


def test_a_program_that_has_just_ended_takes_no_core(
    free: FreeCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meter.loads = [3.0]
    monkeypatch.setattr(free_cores, "are_others_running", lambda: False)
    assert free.threads(4) == 4  # such as a browser that drew what was computed before


@pytest.mark.parametrize(
    ("text", "running"), [("0.5 0.4 0.3 1/99 7", False), ("0 0 0 3/99 7", True), ("?", True)]
)
def test_others_that_run_are_seen(
    text: str, running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loadavg").write_text(text)
    monkeypatch.setattr(load, "RUNNING", tmp_path / "loadavg")
    assert load.are_others_running() is running


def test_work_inside_other_work_leaves_its_threads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def one(most: int) -> int:
        asked.append(most)
        return 1

    monkeypatch.setattr(threads.FREE, "threads", one)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads.free_cores(), threads.free_cores():
            assert torch.get_num_threads() == 1
        assert (asked, torch.get_num_threads()) == ([2], 2)
    finally:
        torch.set_num_threads(before)
