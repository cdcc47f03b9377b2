"""The page of a comparison: a table and the curves of runs enter; one HTML file leaves that needs nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.inspection.markup import Markup, joined, tag
from clearhead.storage import write_atomically
from clearhead.training.reporting.charts import Curve, chart
from clearhead.training.reporting.history import History
from clearhead.training.reporting.report import STYLE, footer
from clearhead.training.reporting.sections import section

COLOURS = ("#4453c4", "#c8580c", "#1a7f4b", "#a83279", "#0f7c8a", "#8a6d0f", "#6b4fbb", "#7a4a2b")


@dataclass(frozen=True)
class ComparisonTable:
    """Texts in rows, below their headings; notes say what the columns mean."""

    headings: list[str]
    rows: list[list[str]]
    notes: list[str]


def comparison_page(title: str, table: ComparisonTable, histories: dict[str, History]) -> Markup:
    """The whole page."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(STYLE.read_text(encoding="utf-8") + colours())),
    ]
    thead = tag("thead", tag("tr", [tag("th", name) for name in table.headings]))
    rows = [
        tag("tr", tag("th", name), [tag("td", value) for value in values]) for name, *values in table.rows
    ]
    body = [
        tag("header", tag("h1", title), tag("p", f"{len(histories)} runs on the same test data")),
        section(
            "Result",
            tag("div", tag("table", thead, tag("tbody", rows), class_="numbers"), class_="wide"),
            [tag("p", note, class_="note") for note in table.notes],
        ),
        curve_section("Validation loss over steps", validation_over_steps(histories)),
        curve_section("Training loss over seconds", training_over_seconds(histories)),
        footer(),
    ]
    return joined(
        Markup("<!doctype html>\n"),
        tag("html", tag("head", head), tag("body", tag("main", body)), lang="en"),
    )


def colours() -> str:
    """The style of the curves, one class for each run."""
    return ".wide{margin-bottom:16px}\n" + "".join(
        f".curve.run-{k},circle.run-{k}{{stroke:{colour}}}circle.run-{k}{{fill:var(--card);stroke-width:2}}"
        f".legend .run-{k}{{border-color:{colour}}}\n"
        for k, colour in enumerate(COLOURS)
    )


def validation_over_steps(histories: dict[str, History]) -> list[Curve]:
    """A curve for each run that was evaluated on validation data."""
    return curves_of(
        {
            name: [(float(record.step), record.validation_loss) for record in history.evaluations]
            for name, history in histories.items()
        },
        has_dots=True,
    )


def training_over_seconds(histories: dict[str, History]) -> list[Curve]:
    """A curve for each run."""
    return curves_of(
        {
            name: [(record.seconds, record.loss) for record in history.steps]
            for name, history in histories.items()
        }
    )


def curves_of(points: dict[str, list[tuple[float, float]]], has_dots: bool = False) -> list[Curve]:
    """Curves in colours of their own."""
    return [
        Curve(name, f"run-{place % len(COLOURS)}", each, has_dots)
        for place, (name, each) in enumerate(points.items())
    ]


def curve_section(title: str, curves: Sequence[Curve]) -> Markup | None:
    """A chart with its legend, if there is anything to draw."""
    if not any(curve.points for curve in curves):
        return None
    legend = [
        tag("span", tag("i", class_=curve.kind), curve.name, " ", tag("b", f"{curve.points[-1][1]:.3f}"))
        for curve in curves
        if curve.points
    ]
    end = max(curve.points[-1][0] for curve in curves if curve.points)
    return section(title, tag("div", legend, class_="legend"), chart(curves, end, 300, title.lower(), 6))


def write_comparison(path: Path, page: Markup) -> None:
    """Writes the page atomically."""
    write_atomically(path, page)
