"""Every schedule rises to 1 over the warm-up, never exceeds it, and goes down as its formula says."""

import math
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import training
from clearhead.training.loop.schedules import CURVES, Schedule, make_schedule

kinds = st.sampled_from(sorted(CURVES))
lengths = st.integers(1, 400)
warmups = st.one_of(st.floats(0, 0.99), st.integers(1, 500).map(float))
decays = st.floats(0.01, 1)
finals = st.floats(0, 1)
schedules = st.builds(make_schedule, kinds, lengths, warmups, decays, finals)


def shares(schedule: Schedule) -> list[float]:
    return [schedule(step) for step in range(schedule.steps)]


def test_the_table_and_the_setting_name_the_same_kinds() -> None:
    assert set(CURVES) == set(get_args(training.Schedule))


@given(schedules)
def test_the_warm_up_is_a_straight_line_to_one(schedule: Schedule) -> None:
    rising = shares(schedule)[: schedule.warmup]
    assert rising == pytest.approx([(step + 1) / schedule.warmup for step in range(len(rising))])
    if rising:
        assert rising[-1] == 1.0


@given(schedules)
def test_the_largest_share_is_one_and_is_reached(schedule: Schedule) -> None:
    if schedule.steps > schedule.warmup + 1 or schedule.warmup or schedule.kind != "stable":
        assert max(shares(schedule)) == pytest.approx(1.0)
    assert all(0 <= share <= 1 + 1e-12 for share in shares(schedule))


@given(schedules)
def test_after_the_warm_up_a_rate_never_rises(schedule: Schedule) -> None:
    falling = shares(schedule)[max(0, schedule.warmup - 1) :]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(falling))


@given(schedules)
def test_the_end_is_the_final_share(schedule: Schedule) -> None:
    last = shares(schedule)[-1]
    if schedule.kind in ("cosine", "linear", "stable") and schedule.steps > schedule.warmup + 1:
        assert last == pytest.approx(schedule.final, abs=1e-12)
    assert last >= schedule.final - 1e-12


@given(lengths, st.integers(0, 300), st.integers(1, 300), finals)
def test_the_shapes_are_their_formulas(steps: int, warmup: int, decay: int, final: float) -> None:
    last = max(1, steps - 1 - warmup)
    for step in range(min(warmup, steps), steps):
        done = (step - warmup) / last
        formulas = {
            "cosine": final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done)),
            "linear": 1 + done * (final - 1),
            "inverse_sqrt": max(final, (max(1, warmup) / (step + 1)) ** 0.5),
            "stable": min(1.0, final + (1 - final) * (steps - 1 - step) / decay),
            "constant": 1.0,
        }
        for kind, expected in formulas.items():
            assert Schedule(kind, steps, warmup, decay, final)(step) == pytest.approx(expected, abs=1e-12)


@given(lengths, warmups, decays, finals)
def test_a_stable_rate_stays_at_one_until_the_way_down(
    steps: int, warmup: float, decay: float, final: float
) -> None:
    schedule = make_schedule("stable", steps, warmup, decay, final)
    flat = shares(schedule)[schedule.warmup : steps - schedule.decay]
    assert flat == pytest.approx([1.0] * len(flat))


@pytest.mark.parametrize(
    ("warmup", "steps", "expected"),
    [(0, 100, 0), (0.03, 100, 3), (0.5, 7, 4), (1, 100, 1), (20, 100, 20), (500, 100, 100)],
)
def test_a_warm_up_below_one_is_a_share_of_the_steps(warmup: float, steps: int, expected: int) -> None:
    assert make_schedule("cosine", steps, warmup, 0.4, 0.1).warmup == expected
