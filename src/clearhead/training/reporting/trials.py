"""The section of a report on the recipes that were tried: the table of trials enters, HTML leaves."""

from typing import Any

from clearhead.inspection.markup import Markup, tag
from clearhead.training.reporting.sections import section

HEADS = ("recipe", "right", "loss", "parts", "seconds")


def trials_section(trials: dict[str, Any] | None) -> Markup | None:
    """What was tried on parts of the training data, the best first, and the floor below."""
    if not trials:
        return None
    rows = [
        (
            row["name"],
            f"{100 * row['accuracy']:.1f} ± {100 * row['standard_error']:.1f} %",
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
    head = tag("thead", tag("tr", [tag("th", name) for name in HEADS]))
    body = [tag("tr", tag("th", row[0]), [tag("td", field) for field in row[1:]]) for row in rows]
    return section(
        "Trials",
        tag("p", f"{trials['reason']}.", class_="note"),
        tag("div", tag("table", head, tag("tbody", body)), class_="wide"),
    )
