"""How much a machine computes: it is measured once for each width, and grows with time and threads."""

from typing import Any

import pytest
import torch

from clearhead.training.recipes import machine
from clearhead.training.recipes.machine import CORE_SPEED, WIDTHS, Machine, measured_speed


def test_tokens_grow_with_time_and_threads_and_fall_with_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six operations for each weight that a token passes."""
    monkeypatch.setattr(machine, "measured_speed", lambda d, threads, precision: threads * 6e6)
    monkeypatch.setattr(machine, "usable_cores", lambda: range(2))
    one, two = Machine.here(5, "cpu", 1), Machine.here(10, "cpu", 2)
    assert one.tokens(64, 1000.0) == 5 * 60 * 1000
    assert two.tokens(64, 1000.0) == 4 * one.tokens(64, 1000.0) == 8 * one.tokens(64, 2000.0)
    assert (one.name, two.name) == ("1 core", "2 cores")


def test_a_width_is_measured_as_the_next_one_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of any width, also one that somebody states, is timed as one of a few."""
    asked: list[Any] = []

    def measured(*what: Any) -> float:
        asked.append(what)
        return 1.0

    monkeypatch.setattr(machine, "measured_speed", measured)
    monkeypatch.setattr(machine, "usable_cores", lambda: range(3))
    for d in (8, 90, 128, 8192):
        Machine.here(1, "cpu", 3, "float32").speed(d)
    assert asked == [(d, 3, "float32") for d in (WIDTHS[0], WIDTHS[0], 128, WIDTHS[-1])]
    Machine.here(1, "cpu", 1000).speed(64)
    assert asked[-1] == (64, 3, "auto")  # as many threads as there are cores


def test_ranks_do_not_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """They must choose the same recipe without asking one another."""
    monkeypatch.setattr(machine, "ranks", lambda: 2)
    assert Machine.here(1, "cpu", 3).speed(64) == 3 * CORE_SPEED


def test_a_speed_is_measured_and_nothing_else_changes() -> None:
    """Neither the random state nor the number of threads; the second question takes no time."""
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    speed = measured_speed(64, 2, "auto")
    assert speed > 0
    assert measured_speed(64, 2, "auto") == speed
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
