"""Curves for a page of the documentation: numbers enter, an SVG file leaves, drawn as the charts of a report are."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.inspection.markup import Markup, tag
from clearhead.training.reporting.charts import LEFT, RIGHT, TOP, WIDTH, PlotArea, Point
from clearhead.training.reporting.comparison import COLOURS

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
HEIGHT, LETTER = 340, 7.4
STYLE = """
.curves { font: 13px system-ui, sans-serif; background: #fff; color: #1b1f24; }
.curves text { fill: currentColor; } .curves .rule { stroke: currentColor; stroke-opacity: .15; }
.curves .curve { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) { .curves { background: #14171b; color: #e6e8eb; } }
"""


@dataclass(frozen=True)
class Axis:
    """What an axis shows, and the values that have a label; by powers if the values span magnitudes."""

    label: str
    ticks: Sequence[float]
    is_logarithmic: bool = False
    show: Callable[[float], str] = "{:g}".format

    def at(self, value: float) -> float:
        """Where a value is along the axis; what is below the first label is drawn there."""
        value = max(value, self.ticks[0])
        return math.log10(value) if self.is_logarithmic else value

    @property
    def ends(self) -> Point:
        """Where it starts and ends."""
        return self.at(self.ticks[0]), self.at(self.ticks[-1])


def draw(name: str, curves: dict[str, list[Point]], x: Axis, y: Axis) -> Path:
    """Writes docs/images/NAME.svg: a curve with dots for each list of points, and their names above."""
    area = PlotArea(x.ends, y.ends, HEIGHT)

    def place(point: Point) -> Point:
        across, up = area.place((x.at(point[0]), y.at(point[1])))
        return across, up + 24 * (HEIGHT - up) / HEIGHT  # room for the names

    parts = []
    for value in y.ticks:
        _, at = place((x.ticks[0], value))
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="rule"))
        parts.append(
            tag("text", y.show(value), x=LEFT - 8, y=at, text_anchor="end", dominant_baseline="central")
        )
    for value in x.ticks:
        at, _ = place((value, y.ticks[0]))
        parts.append(tag("text", x.show(value), x=at, y=HEIGHT + 4, text_anchor="middle"))
    left = float(LEFT)
    for colour, (one, points) in zip(COLOURS, curves.items(), strict=False):
        places = [place(point) for point in points]
        path = "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in places)
        parts.append(tag("path", d=path, class_="curve", stroke=colour))
        parts += [
            Markup(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{colour}"/>')
            for across, up in places
        ]
        parts.append(tag("rect", x=left, y=TOP - 1, width=12, height=4, fill=colour))
        parts.append(tag("text", one, x=left + 17, y=TOP + 6))
        left += 17 + LETTER * len(one) + 18
    parts.append(tag("text", x.label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT + 24, text_anchor="middle"))
    parts.append(
        tag("text", y.label, transform=f"translate(-10 {HEIGHT / 2}) rotate(-90)", text_anchor="middle")
    )
    return write(name, parts, (-24, 0, WIDTH + 44, HEIGHT + 34), f"{y.label} over {x.label}")


def draw_map(
    name: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]
) -> Path:
    """Writes docs/images/NAME.svg: a field for each number, blue above zero and orange below, with its value."""
    left, top, wide, high = (
        20 + LETTER * max(map(len, rows)),
        20 + LETTER * max(map(len, columns)),
        46.0,
        24.0,
    )
    most = max(abs(value) for row in values for value in row) or 1.0
    parts = []
    for j, column in enumerate(columns):
        across = left + (j + 0.5) * wide
        parts.append(tag("text", column, transform=f"translate({across + 4:.1f} {top - 8:.1f}) rotate(-90)"))
    for i, (row, numbers) in enumerate(zip(rows, values, strict=True)):
        middle = top + (i + 0.5) * high
        parts.append(tag("text", row, x=left - 8, y=middle, text_anchor="end", dominant_baseline="central"))
        for j, value in enumerate(numbers):
            colour, share = "#2f6fed" if value >= 0 else "#d97706", abs(value) / most
            parts.append(tag("rect", x=left + j * wide, y=top + i * high, width=wide - 2, height=high - 2, rx=3,
                             fill=colour, fill_opacity=f"{share:.3f}"))  # fmt: skip
            text = f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # no −0.00
            parts.append(tag("text", text, x=left + (j + 0.5) * wide - 1, y=middle - 1,
                             text_anchor="middle", dominant_baseline="central"))  # fmt: skip
    box = (0, 0, left + wide * len(columns) + 8, top + high * len(rows) + 8)
    return write(name, parts, box, f"a number for each of {len(rows)} parts and {len(columns)} tokens")


def write(name: str, parts: list[Markup], box: tuple[float, float, float, float], label: str) -> Path:
    """Writes docs/images/NAME.svg from its elements."""
    picture = tag(
        "svg", tag("style", Markup(STYLE)), parts, xmlns="http://www.w3.org/2000/svg",
        viewBox=" ".join(f"{number:g}" for number in box), class_="curves", role="img", aria_label=label,
    )  # fmt: skip
    file = IMAGES / f"{name}.svg"
    file.write_text(f"{picture}\n", encoding="utf-8")
    return file
