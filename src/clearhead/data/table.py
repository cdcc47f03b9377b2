"""The data report as a table: an `Audit` enters; the name of each count and its value in every split leave."""

from clearhead.data.audit import Audit, SplitAudit

# Counts that are shown even where they are zero.
ALWAYS = ("examples", "tokens", "unknown tokens", "truncated", "dropped", "duplicates")


def table_of(audit: Audit) -> list[tuple[str, list[str]]]:
    """The rows of the table: counts that are zero in all splits are left out, but for the most telling ones."""
    columns = [counts_of(report, list(audit.splits)) for report in audit.splits.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name, "") for column in columns]) for name in names]
    return [
        (name, values)
        for name, values in rows
        if name in ALWAYS or name.startswith("also in") or any(value not in ("", "0") for value in values)
    ]


def counts_of(report: SplitAudit, splits: list[str]) -> dict[str, str]:
    """The counts of one split by name, as texts."""
    counts: dict[str, int | None] = {
        "lines": report.lines,
        "documents": report.documents if report.documents < report.examples else 0,
        "examples": report.examples,
        "tokens": report.tokens,
        "unknown tokens": report.unknown,
        "truncated": report.truncated,
        "divided": report.divided,
        "dropped": report.dropped,
        **{f"dropped: {reason}": count for reason, count in report.dropped_for.items()},
        "duplicates": report.duplicates,
        **{f"also in {split}": report.overlap.get(split) for split in splits},
        "other answers to the same input": report.conflicts,
        "lines skipped": report.problems,
        **{f"passed over: {reason}": count for reason, count in report.passed_over.items()},
        **{f"label {name}": count for name, count in report.labels.items()},
    }
    shown = {name: "" if count is None else f"{count:,}" for name, count in counts.items()}
    return shown | {"characters per token": f"{report.characters_per_token:.2f}"}
