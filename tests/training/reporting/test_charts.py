"""Charts: round numbers at the side, curves that stay what they are, and a picture that is well-formed."""

import xml.etree.ElementTree as ET
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clearhead.training.reporting.charts import (
    MOST_POINTS,
    Curve,
    chart,
    compact,
    nice_ticks,
    smoothed,
    thinned,
)

numbers = st.floats(-1e6, 1e6)
points = st.lists(st.tuples(st.floats(0, 1e4), numbers), max_size=1000)


@given(numbers, numbers, st.integers(3, 9))
def test_ticks_hold_the_numbers_and_are_few_and_even(one: float, other: float, most: int) -> None:
    low, high = min(one, other), max(one, other)
    ticks = nice_ticks(low, high, most)
    span = ticks[-1] - ticks[0]
    assert ticks[0] <= low + 1e-6 * span
    assert ticks[-1] >= high - 1e-6 * span
    assert 2 <= len(ticks) <= most + 2
    steps = {round((b - a) / span, 6) for a, b in pairwise(ticks)}
    assert len(steps) == 1


@given(points)
def test_thinning_keeps_the_mean_and_the_end(curve: list[tuple[float, float]]) -> None:
    few = thinned(curve)
    assert len(few) <= MOST_POINTS
    assert [x for x, _ in few[-1:]] == [x for x, _ in curve[-1:]]
    if len(curve) <= MOST_POINTS:
        assert few == curve


@given(points, st.integers(0, 30))
def test_smoothing_stays_between_the_extremes(curve: list[tuple[float, float]], reach: int) -> None:
    smooth = smoothed(curve, reach)
    assert [x for x, _ in smooth] == [x for x, _ in curve]
    if curve:
        low, high = min(y for _, y in curve), max(y for _, y in curve)
        assert all(low - 1e-3 <= y <= high + 1e-3 for _, y in smooth)


def test_smoothing_a_line_changes_nothing_but_its_ends() -> None:
    line = [(float(x), 2.0 * x) for x in range(20)]
    assert smoothed(line, 3)[3:-3] == line[3:-3]
    assert smoothed(line, 0) == line


@given(points)
def test_a_chart_is_well_formed(curve: list[tuple[float, float]]) -> None:
    ET.fromstring(chart([Curve("a < b", "main", curve, has_dots=True)], 100.0, 200, "a & b"))


def test_what_is_no_number_is_left_out() -> None:
    curve = [(1.0, 2.0), (2.0, float("nan")), (3.0, float("inf")), (4.0, 1.0)]
    assert thinned(curve) == smoothed(curve, 0) == [(1.0, 2.0), (4.0, 1.0)]


def test_large_numbers_are_short() -> None:
    assert [compact(n) for n in (0, 7, 1500, 294_000.0, 2.5e6, 3e9)] == [
        "0",
        "7",
        "1.5k",
        "294k",
        "2.5M",
        "3G",
    ]
