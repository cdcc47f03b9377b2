"""Charts as inline SVG: numbers enter, a picture leaves that needs no script and follows the colours of the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from clearhead.inspection.markup import Markup, joined, tag

Point = tuple[float, float]
WIDTH = 880
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 10, 26
MOST_POINTS = 400  # more than a screen can show


@dataclass(frozen=True)
class Curve:
    """One line of a chart; `kind` is its class in the style sheet."""

    name: str
    kind: str
    points: list[Point]
    has_dots: bool = False


@dataclass(frozen=True)
class PlotArea:
    """Maps numbers to positions in a picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: float

    def place(self, point: Point) -> Point:
        """The position of a point."""
        across = (point[0] - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        up = (point[1] - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), self.height - BOTTOM - up * (
            self.height - TOP - BOTTOM
        )


def chart(curves: Sequence[Curve], end: float, height: float, label: str, rules: int = 6) -> Markup:
    """Curves over steps from 0 to `end`, with about `rules` labels on the y axis; what lies above is clipped."""
    curves = [Curve(c.name, c.kind, thinned(c.points), c.has_dots) for c in curves if c.points]
    ticks = nice_ticks(*spread(curves), rules)
    area = PlotArea((0.0, max(1.0, end)), (ticks[0], ticks[-1]), height)
    name = f"inside-{label.replace(' ', '-')}"
    room = {"x": LEFT, "y": TOP - 4, "width": WIDTH - LEFT - RIGHT + 6, "height": height - TOP - BOTTOM + 8}
    clip = tag("clipPath", tag("rect", **room), id=name)
    return tag(
        "svg", clip, grid(area, ticks),
        tag("g", [draw_curve(curve, area) for curve in curves], clip_path=f"url(#{name})"),
        viewBox=f"0 0 {WIDTH} {height:g}", class_="chart", role="img", aria_label=label,
    )  # fmt: skip


def grid(area: PlotArea, ticks: Sequence[float]) -> Markup:
    """Lines and labels of both axes."""
    parts = []
    for y in ticks:
        _, at = area.place((0, y))
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="rule"))
        parts.append(tag("text", f"{y:g}", x=LEFT - 10, y=at, text_anchor="end", dominant_baseline="central"))
    for x in nice_ticks(0.0, area.x[1], 8):
        if x <= area.x[1]:
            at, _ = area.place((x, 0))
            anchor = "start" if x == 0 else "middle" if at < WIDTH - 30 else "end"
            parts.append(tag("text", compact(x), x=at, y=area.height - 6, text_anchor=anchor))
    return joined(parts)


def draw_curve(curve: Curve, area: PlotArea) -> Markup:
    """A curve, with a labelled dot at each point if it has dots."""
    places = [area.place(point) for point in curve.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = [
        Markup(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{curve.kind}">')
        + tag("title", f"{curve.name} after step {point[0]:,.0f}: {point[1]:.4f}")
        + Markup("</circle>")
        for (x, y), point in zip(places, curve.points, strict=True)
    ]
    return joined(
        tag("path", d=path, class_=f"curve {curve.kind}"), Markup("".join(dots if curve.has_dots else []))
    )


def spread(curves: Sequence[Curve]) -> Point:
    """The range of the values; the steep fall of the first steps may leave the picture at the top."""
    values = [sorted(y for _, y in curve.points) for curve in curves]
    low = min((column[0] for column in values), default=0.0)
    high = max((column[min(len(column) - 1, int(len(column) * 0.97))] for column in values), default=1.0)
    return low, high


def thinned(points: Sequence[Point]) -> list[Point]:
    """Means of neighbours, no more of them than can be seen; NaN and infinity are skipped."""
    real = [point for point in points if math.isfinite(point[1])]
    size = -(-len(real) // MOST_POINTS) if real else 1
    groups = [real[first : first + size] for first in range(0, len(real), size)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]


def smoothed(points: Sequence[Point], reach: int) -> list[Point]:
    """Each point as the mean of its neighbours, up to `reach` on each side, so that there is no lag."""
    real = [point for point in points if math.isfinite(point[1])]
    sums = [0.0, *accumulate(y for _, y in real)]
    means = []
    for place, (x, _) in enumerate(real):
        first, last = max(0, place - reach), min(len(real), place + reach + 1)
        means.append((x, (sums[last] - sums[first]) / (last - first)))
    return means


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers, evenly spaced, from at or below `low` to at or above `high`."""
    size = max(abs(low), abs(high))
    span = high - low if high - low > 1e-6 * size + 1e-30 else size if size > 1e-30 else 1.0
    rough = span / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{k * step:.10g}") for k in range(first, max(last, first + 1) + 1)]


def compact(number: float) -> str:
    """A large number in short: 1.5k, 20M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.4g}{letter}"
    return f"{number:g}"


def signed_bars(values: Sequence[tuple[str, float]]) -> Markup:
    """A row for each (name, value): a bar to the right of the middle, or to the left for less than zero."""
    most = max((abs(value) for _, value in values), default=1.0) or 1.0

    def side(value: float, kind: str) -> Markup | None:
        return tag("div", style=f"width:{100 * abs(value) / most:.1f}%", class_=kind) if value else None

    rows = [
        tag("tr", tag("th", name), tag("td", side(min(value, 0.0), "bar against")),
            tag("td", side(max(value, 0.0), "bar")), tag("td", f"{value:+.3f}".replace("-", "−")))
        for name, value in values
    ]  # fmt: skip
    return tag("table", rows, class_="bars signed")


def bars(values: Sequence[tuple[str, float, str]]) -> Markup:
    """A row for each (name, value, label), with a bar as long as the value."""
    most = max((value for _, value, _ in values), default=1.0) or 1.0
    rows = [
        tag("tr", tag("th", name), tag("td", tag("div", style=f"width:{100 * value / most:.1f}%", class_="bar")),
            tag("td", label))
        for name, value, label in values
    ]  # fmt: skip
    return tag("table", rows, class_="bars")
