"""The report of a run: a summary enters; `report.html` leaves, one page that needs nothing else.

Curves, quality, samples, attention, the data and the settings; inline SVG and CSS, no scripts, light and dark.
"""

import platform
from datetime import datetime
from pathlib import Path

import torch

from clearhead import __version__
from clearhead.inspection.markup import Inside, Markup, joined, tag
from clearhead.storage import write_atomically
from clearhead.training.reporting.charts import compact
from clearhead.training.reporting.sections import (
    attention_section,
    data_section,
    heads_section,
    loss_section,
    quality_section,
    samples_section,
    settings_section,
)
from clearhead.training.reporting.summary import RunSummary
from clearhead.training.reporting.trials import trials_section
from clearhead.training.reporting.wording import clock, describe_model

STYLE = Path(__file__).with_name("report.css")


def write_report(summary: RunSummary) -> Path:
    """Writes the page atomically: a browser never sees half of it."""
    place = summary.out / "report.html"
    write_atomically(place, page(summary))
    return place


def page(summary: RunSummary) -> Markup:
    """The whole page."""
    parts = [
        headline(summary),
        tiles(summary),
        loss_section(summary.history, summary.steps),
        quality_section(summary.quality),
        trials_section(summary.trials),
        samples_section(summary.history.samples),
        attention_section(summary.attention),
        heads_section(summary.history.heads, float(summary.steps)),
        data_section(summary.data.audit),
        settings_section(summary),
        footer(),
    ]
    return document(f"{summary.out.name}: report", parts)


def document(title: str, parts: Inside, class_: str | None = None) -> Markup:
    """A page that needs nothing else, in the style of reports."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(STYLE.read_text(encoding="utf-8"))),
    ]
    return joined(
        Markup("<!doctype html>\n"),
        tag("html", tag("head", head), tag("body", tag("main", parts), class_=class_), lang="en"),
    )


def headline(summary: RunSummary) -> Markup:
    """What is trained, and how far it is."""
    done, steps = summary.history.step, summary.steps
    model = summary.config.model
    state = f"{describe_model(model)} · {done:,} of {steps:,} steps"
    bar = tag("div", tag("div", style=f"width:{100 * done / max(1, steps):.1f}%"), class_="progress")
    return tag(
        "header", tag("h1", summary.out.name),
        tag("p", f"{summary.config.task_row.noun} · {state}"),
        None if summary.is_done else bar,
    )  # fmt: skip


def tiles(summary: RunSummary) -> Markup:
    """The few numbers that readers look for first."""
    facts: list[tuple[str, str]] = []
    history, measured = summary.history, summary.quality or {}
    for key, name, show in (
        ("bleu", "BLEU", "{:.1f}"), ("exact_match", "exact match", "{:.1%}"), ("accuracy", "accuracy", "{:.1%}"),
        ("bits_per_byte", "bits per byte", "{:.3f}"), ("perplexity", "perplexity", "{:.2f}"),
    ):  # fmt: skip
        if key in measured and len(facts) < 2:
            facts.append((show.format(measured[key]), f"{name}, {measured.get('split', 'held-out')}"))
    if history.best is not None:
        facts.append(
            (f"{history.best.validation_loss:.3f}", f"best validation loss, step {history.best.step:,}")
        )
    facts.append((compact(float(f"{summary.parameters:.3g}")), "parameters"))
    if history.steps:
        last = history.steps[-1]
        facts += [
            (clock(last.seconds), f"of training, {last.epoch:.1f} epochs"),
            (compact(float(f"{last.tokens_per_second:.2g}")), "tokens per second"),
        ]
    return tag("div", [tag("div", tag("b", value), tag("span", name), class_="tile") for value, name in facts],
               class_="tiles")  # fmt: skip


def footer() -> Markup:
    """The versions, the machine and the date."""
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return tag(
        "footer",
        f"clearhead {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, threads: {torch.get_num_threads()} · {made}",
    )
