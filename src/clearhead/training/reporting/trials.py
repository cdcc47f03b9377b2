"""The section of a report on the recipes that were tried: the table of trials enters, HTML leaves."""

from typing import Any, Literal

from clearhead.inspection.markup import Markup, tag
from clearhead.training.reporting.sections import section

Measure = Literal["accuracy", "bits_per_byte"]  # by which candidates are compared
WORDS: dict[Measure, str] = {"accuracy": "right", "bits_per_byte": "bits per byte"}


def describe_score(score: float, error: float | None, measure: Measure) -> str:
    """A share that is right, in per cent; or bits per byte, which may have the sign of a score."""
    if measure == "accuracy":
        return f"{100 * score:.1f}" + ("" if error is None else f" ± {100 * error:.1f}") + " %"
    return f"{abs(score):.3f}" + ("" if error is None else f" ± {error:.3f}") + " bits per byte"


def measure_of(trials: dict[str, Any]) -> Measure:
    """How candidates were compared; before there were others, by what they had right."""
    measure: Measure = trials.get("measure", "accuracy")
    return measure


def trials_section(trials: dict[str, Any] | None) -> Markup | None:
    """What was tried on parts of the training data, the best first, and the floor below."""
    if not trials:
        return None
    measure = measure_of(trials)
    rows = [
        (
            row["name"],
            describe_score(row[measure], row["standard_error"], measure),
            f"{row['loss']:.3f}",
            str(row["folds"]),
            f"{row['seconds']:.0f}" + ("" if row["complete"] else ", cut short"),
        )
        for row in trials["candidates"]
    ]
    rows += [
        ("a bag of n-grams, the floor", f"{100 * one['accuracy']:.1f} %", f"{one['loss']:.3f}", f"part {part}",
         f"{one['seconds']:.0f}")
        for part, one in enumerate(trials["floor"], 1)
    ]  # fmt: skip
    heads = ("recipe", WORDS[measure], "loss", "parts", "seconds")
    head = tag("thead", tag("tr", [tag("th", name) for name in heads]))
    body = [tag("tr", tag("th", row[0]), [tag("td", field) for field in row[1:]]) for row in rows]
    return section(
        "Trials",
        tag("p", f"{trials['reason']}.", class_="note"),
        tag("div", tag("table", head, tag("tbody", body)), class_="wide"),
    )
