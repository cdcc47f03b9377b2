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
    picture = tag(
        "svg", tag("style", Markup(STYLE)), parts, xmlns="http://www.w3.org/2000/svg",
        viewBox=f"-24 0 {WIDTH + 44} {HEIGHT + 34}", class_="curves", role="img",
        aria_label=f"{y.label} over {x.label}",
    )  # fmt: skip
    file = IMAGES / f"{name}.svg"
    file.write_text(f"{picture}\n", encoding="utf-8")
    return file
