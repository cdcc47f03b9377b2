"""The report of a run: a run and its history enter; `report.html` leaves, one page that needs nothing else.

Curves, quality, samples, attention, the data and the settings; inline SVG and CSS, no scripts, light and dark.
All text passes through `markup`, so that whatever the data says, it cannot break the page.
"""

import platform
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from clearhead import __version__
from clearhead.config.model import ModelConfig
from clearhead.config.settings import Settings
from clearhead.data.audit import Audit, LengthAudit
from clearhead.data.table import table_of
from clearhead.inspection.figures import Attention, large, small
from clearhead.inspection.markup import Inside, Markup, joined, tag
from clearhead.storage import write_whole
from clearhead.training.charts import Curve, bars, chart, compact, smoothed
from clearhead.training.history import Sample
from clearhead.training.place import RECIPE

if TYPE_CHECKING:
    from clearhead.training.runs import Run

STYLE = Path(__file__).with_name("report.css")
TASKS = {
    "language-model": "a language model",
    "masked-language-model": "a masked language model",
    "translate": "a translator",
    "classify": "a classifier",
}
MEANINGS = {
    "loss": "−log P of what is right, in nats, mean over all predictions",
    "perplexity": "between how many equally likely tokens it hesitates: e to the loss",
    "bits_per_byte": "bits that a byte of text costs; comparable between tokenizers",
    "bleu": "overlap of words with the reference, 0 to 100",
    "chrf": "overlap of letters with the reference, 0 to 100",
    "exact_match": "share of translations that are equal to the reference",
    "accuracy": "share of right answers",
    "macro_f1": "mean over the classes of the harmonic mean of precision and recall",
    "examples": "examples that were read",
    "predictions": "predictions that were judged",
    "too_long": "examples left out because the context has no room for them",
    "truncated": "texts of which the context has room for the beginning only",
}
SHOWN_TIMES = 7  # evaluations of which samples are shown
MOST_CLASSES = 25  # of a confusion that can still be read
SMOOTHED_SHARE = 1 / 40  # of the records: how far a smoothed loss looks to each side


def write_report(run: "Run") -> Path:
    """Writes the page; a browser never meets half of it."""
    place = run.out / "report.html"
    write_whole(place, page(run))
    return place


def page(run: "Run") -> Markup:
    """The whole page."""
    parts = [
        headline(run),
        tiles(run),
        curves(run),
        quality_section(run.quality),
        samples_section(run.history.samples),
        attention_section(run.attention),
        data_section(run.data.audit),
        settings_section(run),
        footer(),
    ]
    style = Markup(STYLE.read_text(encoding="utf-8"))
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{run.out.name}: report"),
        tag("style", style),
    ]
    return joined(
        Markup("<!doctype html>\n"),
        tag("html", tag("head", head), tag("body", tag("main", parts)), lang="en"),
    )


def section(title: str, *inside: Inside) -> Markup:
    """One card of the page."""
    return tag("section", tag("h2", title), *inside)


def headline(run: "Run") -> Markup:
    """What is trained, and how far it is."""
    done, steps = run.history.step, run.plan.steps
    model = run.config.model
    state = f"{in_words(model)} · {done:,} of {steps:,} steps"
    bar = tag("div", tag("div", style=f"width:{100 * done / max(1, steps):.1f}%"), class_="progress")
    return tag(
        "header", tag("h1", run.out.name),
        tag("p", f"{TASKS[run.config.task]} · {state}"),
        None if run.is_done else bar,
    )  # fmt: skip


def in_words(model: ModelConfig) -> str:
    """A model in a line: what it is, how deep and how wide."""
    blocks = counted(model.decoder_blocks if model.shape == "decoder" else model.encoder_blocks, "block")
    if model.shape == "encoder-decoder":
        blocks = f"{model.encoder_blocks} + {counted(model.decoder_blocks, 'block')}"
    return f"{model.shape}, {blocks}, d = {model.d}, {counted(model.h, 'head')}"


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def tiles(run: "Run") -> Markup:
    """The few numbers that one looks for first."""
    facts: list[tuple[str, str]] = []
    history, measured = run.history, run.quality or {}
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
    facts.append((compact(float(f"{run.plan.parameters:.3g}")), "parameters"))
    if history.steps:
        last = history.steps[-1]
        facts += [
            (clock(last.seconds), f"of training, {last.epoch:.1f} epochs"),
            (compact(float(f"{last.tokens_per_second:.2g}")), "tokens per second"),
        ]
    return tag("div", [tag("div", tag("b", value), tag("span", name), class_="tile") for value, name in facts],
               class_="tiles")  # fmt: skip


def curves(run: "Run") -> Markup | None:
    """Loss and learning rate over the steps."""
    history = run.history
    if not history.steps:
        return None
    losses = [(float(record.step), record.loss) for record in history.steps]
    training = smoothed(losses, round(len(losses) * SMOOTHED_SHARE))
    validation = [(float(record.step), record.validation_loss) for record in history.evaluations]
    rates = [(float(record.step), record.learning_rate) for record in history.steps]
    keys = [("faint", "training, as measured", None), ("main", "training, smoothed", training)]
    keys += [("second", "validation", validation)] if validation else []
    legend = [
        tag("span", tag("i", class_=kind), name, [" ", tag("b", f"{points[-1][1]:.3f}")] if points else None)
        for kind, name, points in keys
    ]
    end = float(run.plan.steps)
    skipped = history.steps[-1].skipped
    return section(
        "Loss",
        tag("div", legend, class_="legend"),
        chart(
            [
                Curve("training", "faint", losses),
                Curve("training", "main", training),
                Curve("validation", "second", validation, has_dots=True),
            ],
            end, 300, "loss over steps", 6,
        ),
        tag("h3", "learning rate"),
        chart([Curve("learning rate", "main", rates)], end, 110, "learning rate over steps", 3),
        tag("p", f"{skipped} steps were left out because their loss or gradient was not finite.", class_="note")
        if skipped else None,
    )  # fmt: skip


def quality_section(quality: dict[str, Any] | None) -> Markup | None:
    """The measured numbers, each with its meaning, and the confusion of a classifier."""
    if not quality:
        return None
    rows = [
        tag("tr", tag("th", name), tag("td", value), tag("td", meaning, class_="note"))
        for name, value, meaning in measures(quality)
    ]
    signatures = [value for key, value in quality.items() if key.endswith("_signature")]
    return section(
        f"Quality on the {quality.get('split', 'held-out')} data",
        tag("p", "Of the best model, on examples that it has not learned from.", class_="note"),
        tag("div", tag("table", rows), class_="wide"),
        [tag("p", tag("code", signature), class_="note") for signature in signatures],
        confusion(quality["labels"], quality["confusion"]) if "confusion" in quality else None,
    )


def measures(quality: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The name, the value and the meaning of every number to show; that nothing was too long needs no line."""
    for key, value in quality.items():
        if key in MEANINGS and (value or key not in ("too_long", "truncated")):
            yield key.replace("_", " "), shown(key, value), MEANINGS[key]


def shown(key: str, value: Any) -> str:
    """A number of an evaluation, with as many digits as mean something."""
    if key in ("exact_match", "accuracy", "macro_f1"):
        return f"{value:.2%}"
    if key in ("bleu", "chrf"):
        return f"{value:.2f}"
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"


def confusion(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """How often each class was taken for each: a row is what is true, a column what was said."""
    if len(labels) > MOST_CLASSES:
        return tag("p", f"The confusion of {len(labels)} classes is too large to show.", class_="note")
    head = tag("thead", tag("tr", tag("th"), [tag("th", label) for label in labels]))
    rows = []
    for i, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = sum(row) or 1
        fields = [
            tag("td", tag("div", f"{count:,}",
                          style=f"--share:{70 * count / total:.0f};--tone:var(--{'accent' if i == j else 'second'})"))
            for j, count in enumerate(row)
        ]  # fmt: skip
        rows.append(tag("tr", tag("th", label), fields))
    return joined(
        tag("h3", "confusion: rows are the true class, columns the answer"),
        tag("div", tag("table", head, tag("tbody", rows), class_="confusion"), class_="wide"),
    )


def samples_section(samples: Sequence[Sample]) -> Markup | None:
    """What the model made of the same few texts as it learned."""
    if not samples:
        return None
    texts: dict[str, list[Sample]] = {}
    for _, group in groupby(samples, key=lambda sample: sample.step):
        for place, sample in enumerate(group):
            texts.setdefault(sample.given or f"text {place + 1}", []).append(sample)
    note = (
        "What it made of held-out texts while it learned."
        if samples[0].given
        else "What it writes from nothing."
    )
    parts = [tag("div", growth(text, chosen(found)), class_="sample") for text, found in texts.items()]
    return section("Samples", tag("p", note, class_="note"), parts)


def growth(text: str, samples: Sequence[Sample]) -> Markup:
    """One text, and what was made of it, step by step."""
    wanted, last = samples[0].wanted, samples[-1]
    if not last.given:  # a text from nothing: the newest in full, those before it folded away
        older = [(f"step {sample.step:,}", tag("div", sample.made, class_="text")) for sample in samples[:-1]]
        return joined(
            tag("h3", f"{text}, step {last.step:,}"),
            tag("div", last.made, class_="text"),
            tag("details", tag("summary", "earlier"), [[tag("h3", name), made] for name, made in older])
            if older else None,
        )  # fmt: skip
    rows = [("given", tag("dd", text, class_="given"))]
    rows += [
        (
            f"step {sample.step:,}",
            tag("dd", sample.made or "(nothing)", class_="right" if sample.made == wanted else None),
        )
        for sample in samples
    ]
    rows += [("wanted", tag("dd", wanted))] if wanted is not None else []
    return tag("dl", [[tag("dt", name), value] for name, value in rows])


def chosen(samples: Sequence[Sample]) -> list[Sample]:
    """A few of many: the first, the last, and some between, without those that changed nothing."""
    changes = [s for place, s in enumerate(samples) if place == 0 or s.made != samples[place - 1].made]
    if len(changes) <= SHOWN_TIMES:
        return changes
    return [changes[round(k * (len(changes) - 1) / (SHOWN_TIMES - 1))] for k in range(SHOWN_TIMES)]


def attention_section(attention: Attention | None) -> Markup | None:
    """One head at a size that can be read, and all of them beside each other."""
    if attention is None or not attention.heads:
        return None
    head = attention.sharpest
    what = (
        "the text that is written, and columns the source"
        if ".cross." in head
        else "queries, and columns keys"
    )
    others = [
        tag("figure", small(weights), tag("figcaption", name), class_="chosen" if name == head else None)
        for name, weights in attention.heads.items()
    ]
    return section(
        "Attention",
        tag("p", tag("code", head), f" looks from each row at the columns: rows are {what}. Of all heads it is the "
            "one that decides most sharply. A row sums to one; rest on a field to read its weight.", class_="note"),
        tag("div", large(attention, head), class_="wide"),
        [tag("h3", "all heads on the same text"), tag("div", others, class_="heads")] if len(others) > 1 else None,
    )  # fmt: skip


def data_section(audit: Audit) -> Markup:
    """What was read, cut, dropped and repeated."""
    head = tag("thead", tag("tr", tag("th"), [tag("th", split) for split in audit.splits]))
    rows = [
        tag("tr", tag("th", name), [tag("td", value) for value in values]) for name, values in table_of(audit)
    ]
    sources = [f"{split}: {', '.join(report.sources[:8])}" for split, report in audit.splits.items()]
    problems = [
        f"{split}: {text}" for split, report in audit.splits.items() for text in report.first_problems[:5]
    ]
    train = audit.splits["train"]
    return section(
        "Data",
        tag("div", tag("table", head, tag("tbody", rows), class_="numbers"), class_="wide"),
        [lengths(name, column) for name, column in train.lengths.items() if column.histogram],
        tag("h3", "sources"),
        [tag("p", line, class_="note") for line in [*sources, *problems]],
    )


def lengths(name: str, column: LengthAudit) -> Markup:
    """How long the training examples are."""
    values = [
        (
            str(bin.least) if bin.least == bin.most else f"{bin.least}–{bin.most}",
            float(bin.examples),
            f"{bin.examples:,}",
        )
        for bin in column.histogram
    ]
    title = (
        f"tokens of the {name} in training: {column.shortest} to {column.longest}, half up to {column.median}"
    )
    return joined(tag("h3", title), bars(values))


def settings_section(run: "Run") -> Markup:
    """What the recipe says, with the meaning of each setting; the defaults folded away."""
    groups = [(name, value) for name, value in run.config if isinstance(value, Settings)]
    stated = [row for name, group in groups for row in setting_rows(name, group, is_stated=True)]
    defaults = [row for name, group in groups for row in setting_rows(name, group, is_stated=False)]
    return section(
        "Settings",
        [tag("h3", "why these"), tag("ul", [tag("li", note) for note in run.notes])] if run.notes else None,
        tag("div", tag("table", stated), class_="wide"),
        tag("details", tag("summary", "settings left to their defaults"), tag("table", defaults)),
        tag("details", tag("summary", RECIPE), tag("pre", run.config.to_toml())),
    )


def setting_rows(section_name: str, group: Settings, is_stated: bool) -> list[Markup]:
    """A row for each setting of a group: its name, value and meaning."""
    return [
        tag("tr", tag("th", tag("code", f"{section_name}.{key}")), tag("td", tag("code", plain(getattr(group, key)))),
            tag("td", field.description, class_="note"))
        for key, field in type(group).model_fields.items()
        if (key in group.model_fields_set and getattr(group, key) != field.default) == is_stated
    ]  # fmt: skip


def plain(value: object) -> str:
    """A value of a setting as a reader would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return (
        "none" if value is None else ", ".join(map(plain, value)) if isinstance(value, tuple) else str(value)
    )


def footer() -> Markup:
    """Where and with what this was made."""
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return tag(
        "footer",
        f"clearhead {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, threads: {torch.get_num_threads()} · {made}",
    )


def clock(seconds: float) -> str:
    """Seconds as on a clock: 0:42, 3:20, 2:05:00."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def duration(seconds: float) -> str:
    """Seconds in words: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
