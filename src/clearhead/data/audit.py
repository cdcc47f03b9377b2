"""What was read, truncated, dropped and repeated: the data report, before anything is trained.

The shards of each split enter; counts leave, as an object, as JSON, and for the table of `clearhead data`.
Most counts were taken while the shards were written. What is repeated is found here by 8-byte hashes of the
contents, a part of them at a time, so that memory stays bounded: two different examples are taken for the
same with a probability of 2⁻⁶⁴, which even among a billion examples is less than one expected mistake.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from clearhead.data.order import Integers, Words
from clearhead.data.shards.manifest import TAGS
from clearhead.data.shards.reading import Shards
from clearhead.examples import Split

HASHES_AT_ONCE = 1 << 20
LONGEST = 1 << 20  # lengths above it count as this
# Counts that the table shows even where they are zero.
ALWAYS = ("examples", "tokens", "unknown tokens", "truncated", "dropped", "duplicates")


@dataclass(frozen=True)
class Bin:
    """How many examples have between `least` and `most` tokens."""

    least: int
    most: int
    examples: int


@dataclass(frozen=True)
class LengthAudit:
    """The lengths of one column in tokens, beginning and end tokens included."""

    shortest: int
    median: int
    longest: int
    histogram: tuple[Bin, ...]


@dataclass(frozen=True)
class SplitAudit:
    """The report on one split."""

    examples: int  # what the model will see
    tokens: int  # of these, without the tokens added at beginnings and ends
    unknown: int
    truncated: int  # examples truncated to the length that the model takes
    dropped: int  # examples omitted: empty, or too long
    duplicates: int  # examples equal to an earlier one
    overlap: dict[str, int]  # examples whose input is also an input in that other split
    sources: list[str]
    lines: int
    documents: int
    divided: int  # examples that became several
    dropped_for: dict[str, int]
    conflicts: int  # distinct examples whose input came before with another target or label
    characters: int
    characters_per_token: float
    ignored_lines: dict[str, int]  # lines ignored by rule, such as blank ones
    problems: int  # lines that could not be read and were skipped
    first_problems: list[str]
    guesses: list[str]  # what was found out about the files: encodings, delimiters
    ignored: list[str]  # files of folders that have no known format
    held_out: int  # examples of the same source that belong to other splits
    columns: dict[str, int]  # tokens of each column
    lengths: dict[str, LengthAudit]
    labels: dict[str, int]


@dataclass(frozen=True)
class Audit:
    """The data report: one part for each split."""

    splits: dict[Split, SplitAudit]

    def to_json(self) -> dict[str, object]:
        """The report as plain objects, by split."""
        return {split: asdict(report) for split, report in self.splits.items()}


def audit(splits: Mapping[Split, Shards], sources: Mapping[Split, list[str]] | None = None) -> Audit:
    """The report on prepared splits; `sources` are those of this run, which others may have prepared elsewhere."""
    repeats = Repeats(splits)
    return Audit(
        {
            split: _report(split, shards, repeats, (sources or {}).get(split))
            for split, shards in splits.items()
        }
    )


def _report(split: Split, shards: Shards, repeats: "Repeats", sources: list[str] | None) -> SplitAudit:
    account = shards.manifest.account
    encoded, characters = sum(account.encoded.values()), sum(account.characters.values())
    return SplitAudit(
        examples=shards.examples,
        tokens=sum(account.tokens.values()),
        unknown=sum(account.unknown.values()),
        truncated=account.truncated,
        dropped=sum(account.dropped.values()),
        duplicates=repeats.duplicates[split],
        overlap=repeats.overlap[split],
        sources=account.names if sources is None else sources,
        lines=account.lines,
        documents=account.documents,
        divided=account.divided,
        dropped_for=account.dropped,
        conflicts=repeats.conflicts[split],
        characters=characters,
        characters_per_token=round(characters / encoded, 3) if encoded else 0.0,
        ignored_lines=account.ignored_lines,
        problems=account.problems,
        first_problems=account.first_problems,
        guesses=account.guesses,
        ignored=account.ignored,
        held_out=account.held_out,
        columns=account.tokens,
        lengths={name: lengths_of(shards, name) for name in shards.manifest.columns if name != TAGS},
        labels=label_balance(shards),
    )


class Repeats:
    """Which examples come more than once: counted over the hashes of all splits, a part at a time."""

    def __init__(self, splits: Mapping[Split, Shards]) -> None:
        self.duplicates: dict[str, int] = dict.fromkeys(splits, 0)
        self.conflicts: dict[str, int] = dict.fromkeys(splits, 0)
        self.overlap: dict[str, dict[str, int]] = {
            split: dict.fromkeys((other for other in splits if other != split), 0) for split in splits
        }
        total = sum(shards.examples for shards in splits.values())
        parts = max(1, -(-total // HASHES_AT_ONCE))
        for part in range(parts):
            self._count(splits, part, parts)

    def _count(self, splits: Mapping[Split, Shards], part: int, parts: int) -> None:
        distinct: dict[str, Words] = {}
        inputs: dict[str, Words] = {}
        for split, shards in splits.items():
            whole = _hashes(shards, -1, part, parts)
            inputs[split] = _hashes(shards, 0, part, parts)
            distinct[split] = np.unique(inputs[split])
            self.duplicates[split] += len(whole) - len(np.unique(whole))
            self.conflicts[split] += len(np.unique(whole)) - len(distinct[split])
        for one, others in self.overlap.items():
            for other in others:
                others[other] += int(np.isin(inputs[one], distinct[other]).sum())


def _hashes(shards: Shards, column: int, part: int, parts: int) -> Words:
    """The hashes of one kind that fall into a part: of the input (0) or of the whole example (-1)."""
    chosen = [hashes[:, column][hashes[:, column] % parts == part] for hashes in shards.arrays("hashes")]
    return np.concatenate([np.empty(0, np.uint64), *chosen])


def lengths_of(shards: Shards, column: str) -> LengthAudit:
    """The lengths of one column."""
    counts = np.zeros(LONGEST + 1, np.int64)
    for borders in shards.arrays(f"{column}.borders"):
        lengths = np.minimum(np.diff(borders), LONGEST)
        found = np.bincount(lengths)
        counts[: len(found)] += found
    if not counts.any():
        return LengthAudit(0, 0, 0, ())
    seen = np.flatnonzero(counts)
    below = np.cumsum(counts)
    median = int(np.searchsorted(below, (below[-1] + 1) // 2))
    return LengthAudit(int(seen[0]), median, int(seen[-1]), histogram(counts))


def histogram(counts: Integers) -> tuple[Bin, ...]:
    """Counts of every length as a few bins, two for each doubling: 1, 2, 3, 4 to 5, 6 to 7, 8 to 11 …"""
    powers = [1 << power for power in range(len(counts).bit_length())]
    borders = sorted({0, *powers, *(3 * power // 2 for power in powers)})
    bins = [Bin(least, end - 1, int(counts[least:end].sum())) for least, end in pairwise(borders)]
    filled = [index for index, bin in enumerate(bins) if bin.examples]
    return tuple(bins[filled[0] : filled[-1] + 1]) if filled else ()


def label_balance(shards: Shards) -> dict[str, int]:
    """How many examples, or words, have each label."""
    names = shards.manifest.labels or ()
    counts = np.zeros(len(names) + 1, np.int64)
    for labels in shards.label_numbers() if names else ():
        counts += np.bincount(labels, minlength=len(names) + 1)
    return dict(sorted(zip(names, counts.tolist(), strict=False)))


def table_of(audit: Audit) -> list[tuple[str, list[str]]]:
    """The rows of the table: counts that are zero in all splits are omitted, except for the most important ones."""
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
        **{f"ignored: {reason}": count for reason, count in report.ignored_lines.items()},
        **{f"label {name}": count for name, count in report.labels.items()},
    }
    shown = {name: "" if count is None else f"{count:,}" for name, count in counts.items()}
    return shown | {"characters per token": f"{report.characters_per_token:.2f}"}
