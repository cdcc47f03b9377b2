"""The sections of a report: what is known about a run enters, HTML leaves.

All text passes through `markup`, so that no text of the data can break the page.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from clearhead.config.settings import Settings
from clearhead.data.audit import Audit, LengthAudit, table_of
from clearhead.inspection.figures import AttentionPicture, large, small
from clearhead.inspection.markup import Inside, Markup, joined, tag
from clearhead.training.reporting.charts import Curve, bars, chart, smoothed
from clearhead.training.reporting.history import HeadScores, History, Sample
from clearhead.training.reporting.summary import RunSummary
from clearhead.training.reporting.wording import explain_scores

SHOWN_SCORE = 0.2  # of a head, above which a score is drawn
SHOWN_TIMES = 7  # evaluations of which samples are shown
MOST_LABELS = 200  # whose scores are listed
MOST_CLASSES = 25  # of a confusion matrix that is still readable
SMOOTHED_SHARE = 1 / 40  # of the records, on each side: what a smoothed loss averages over


def section(title: str, *inside: Inside) -> Markup:
    """One section of the page."""
    return tag("section", tag("h2", title), *inside)


def loss_section(history: History, steps: int) -> Markup | None:
    """Loss and learning rate over the steps of a run that will have so many."""
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
    end = float(steps)
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
        tag("p", f"{skipped} steps were skipped because their loss or gradient was not finite.", class_="note")
        if skipped else None,
    )  # fmt: skip


def quality_section(quality: dict[str, Any] | None) -> Markup | None:
    """The scores, each with its meaning, and the confusion matrix of a classifier."""
    if not quality:
        return None
    rows = [
        tag("tr", tag("th", name), tag("td", value), tag("td", meaning, class_="note"))
        for name, value, meaning in explain_scores(quality)
    ]
    signatures = [value for key, value in quality.items() if key.endswith("_signature")]
    return section(
        f"Quality on the {quality.get('split', 'held-out')} data",
        tag("p", "The best model, on examples that it was not trained on.", class_="note"),
        tag("div", tag("table", rows), class_="wide"),
        [tag("p", tag("code", signature), class_="note") for signature in signatures],
        confusion(quality["labels"], quality["confusion"]) if "confusion" in quality else None,
        scores_by_label(quality["by_label"]) if "by_label" in quality else None,
    )


def scores_by_label(scores: dict[str, dict[str, float]]) -> Markup:
    """Precision, recall and F1 of each label."""
    head = tag("tr", [tag("th", name) for name in ("", "precision", "recall", "F1", "true")])
    shown = list(scores.items())[:MOST_LABELS]
    rows = [
        tag("tr", tag("th", label), [tag("td", f"{one[key]:.1%}") for key in ("precision", "recall", "f1")],
            tag("td", f"{one['true']:,}"))
        for label, one in shown
    ]  # fmt: skip
    more = tag("p", f"The first {len(shown)} of {len(scores)} labels.", class_="note")
    return joined(
        tag("h3", "by label"),
        tag("div", tag("table", tag("thead", head), tag("tbody", rows)), class_="wide"),
        more if len(shown) < len(scores) else None,
    )


def confusion(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """The confusion matrix: a row is the true class, a column the answer."""
    if len(labels) > MOST_CLASSES:
        return tag("p", f"The confusion matrix of {len(labels)} classes is too large to show.", class_="note")
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
        tag("h3", "confusion: rows are the true classes, columns the answers"),
        tag("div", tag("table", head, tag("tbody", rows), class_="confusion"), class_="wide"),
    )


def samples_section(samples: Sequence[Sample]) -> Markup | None:
    """What the model made of the same few texts during training."""
    if not samples:
        return None
    texts: dict[str, list[Sample]] = {}
    for _, group in groupby(samples, key=lambda sample: sample.step):
        for place, sample in enumerate(group):
            texts.setdefault(sample.given or f"text {place + 1}", []).append(sample)
    note = (
        "What the model made of held-out texts during training."
        if samples[0].given
        else "What the model writes without a prompt."
    )
    parts = [
        tag("div", sample_over_time(text, choose_samples(found)), class_="sample")
        for text, found in texts.items()
    ]
    return section("Samples", tag("p", note, class_="note"), parts)


def sample_over_time(text: str, samples: Sequence[Sample]) -> Markup:
    """One text, and what the model made of it, step by step."""
    wanted, last = samples[0].wanted, samples[-1]
    if not last.given:  # without a prompt: the latest in full, earlier ones folded away
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


def choose_samples(samples: Sequence[Sample]) -> list[Sample]:
    """A few of many: the first, the last, and some between, without repetitions."""
    changes = [s for place, s in enumerate(samples) if place == 0 or s.made != samples[place - 1].made]
    if len(changes) <= SHOWN_TIMES:
        return changes
    return [changes[round(k * (len(changes) - 1) / (SHOWN_TIMES - 1))] for k in range(SHOWN_TIMES)]


def attention_section(attention: AttentionPicture | None) -> Markup | None:
    """The sharpest head at a readable size, and all of them side by side."""
    if attention is None or not attention.heads:
        return None
    head = attention.sharpest
    grid = [tag("h3", "all heads on the same text"), head_grid(attention, head)]
    said = "Of all heads it is the sharpest."
    return section(
        "Attention", head_picture(attention, head, said), grid if len(attention.heads) > 1 else None
    )


def head_picture(attention: AttentionPicture, head: str, said: str = "") -> Markup:
    """One head at a readable size."""
    what = (
        "tokens of the translation, and columns those of the source"
        if ".cross." in head
        else "queries, and columns keys"
    )
    return joined(
        tag("p", tag("code", head), f" attends from each row to the columns: rows are {what}. {said} A row sums to "
            "one; hover over a cell to read its weight.", class_="note"),
        tag("div", large(attention, head), class_="wide"),
    )  # fmt: skip


def head_grid(attention: AttentionPicture, chosen: str | None = None) -> Markup:
    """All heads side by side."""
    figures = [
        tag("figure", small(weights), tag("figcaption", name), class_="chosen" if name == chosen else None)
        for name, weights in attention.heads.items()
    ]
    return tag("div", figures, class_="heads")


def heads_section(records: Sequence[HeadScores], end: float) -> Markup | None:
    """How the scores of heads emerge over the steps; only those that some head reaches."""
    if not records:
        return None
    charts: list[Markup] = []
    for score in dict.fromkeys(score for record in records for score in record.scores):
        last = records[-1].scores.get(score, {})
        most = max(
            (value for record in records for value in record.scores.get(score, {}).values()), default=0.0
        )
        if score in ("entropy", "distance") or most < SHOWN_SCORE or not last:
            continue
        best = max(last, key=lambda head: last[head])
        curves = [
            Curve(head, "second" if head == best else "faint", points, has_dots=head == best)
            for head in sorted(last, key=lambda head: head == best)
            if (
                points := [
                    (float(one.step), one.scores[score][head])
                    for one in records
                    if head in one.scores.get(score, {})
                ]
            )
        ]
        charts += [
            tag("h3", f"{score}: {best} {last[best]:.2f}"),
            chart(curves, end, 150, f"{score} over steps", 3),
        ]
    note = "Mean attention weights of every head, on held-out data, and of induction on random tokens written twice."
    return section("Heads", tag("p", note, class_="note"), charts)


def data_section(audit: Audit) -> Markup:
    """What was read, truncated, dropped and repeated."""
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
        [length_histogram(name, column) for name, column in train.lengths.items() if column.histogram],
        tag("h3", "sources"),
        [tag("p", line, class_="note") for line in [*sources, *problems]],
    )


def length_histogram(name: str, column: LengthAudit) -> Markup:
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


def settings_section(summary: RunSummary) -> Markup:
    """The settings of the recipe, each with its meaning; the defaults folded away."""
    groups = [(name, value) for name, value in summary.config if isinstance(value, Settings)]
    stated = [row for name, group in groups for row in setting_rows(name, group, is_stated=True)]
    defaults = [row for name, group in groups for row in setting_rows(name, group, is_stated=False)]
    return section(
        "Settings",
        [tag("h3", "reasons"), tag("ul", [tag("li", note) for note in summary.notes])]
        if summary.notes
        else None,
        tag("div", tag("table", stated), class_="wide"),
        tag("details", tag("summary", "settings at their defaults"), tag("table", defaults)),
        tag("details", tag("summary", "the recipe"), tag("pre", summary.config.to_toml())),
    )


def setting_rows(section_name: str, group: Settings, is_stated: bool) -> list[Markup]:
    """A row for each setting of a group: its name, value and meaning."""
    return [
        tag("tr", tag("th", tag("code", f"{section_name}.{key}")),
            tag("td", tag("code", format_setting(getattr(group, key)))), tag("td", field.description, class_="note"))
        for key, field in type(group).model_fields.items()
        if (key in group.model_fields_set and getattr(group, key) != field.default) == is_stated
    ]  # fmt: skip


def format_setting(value: object) -> str:
    """The value of a setting, as in a recipe."""
    if isinstance(value, bool):
        return str(value).lower()
    return (
        "none"
        if value is None
        else ", ".join(map(format_setting, value))
        if isinstance(value, tuple)
        else str(value)
    )
