"""`make notes`: the marked tests are run, and one line for each row leaves, with the tests that prove it.

The table goes to stdout and pytest's own words to stderr. The exit code is 1 when a test fails, or when a row
that `docs/notes.toml` calls proven has lost its last test: the table only grows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tools.notes import ROOT, Row, read_rows


@dataclass(frozen=True)
class Proof:
    """One test that is marked with some rows, and how it ended."""

    test: str
    rows: tuple[str, ...]
    outcome: str

    @property
    def name(self) -> str:
        """The test without its parameters."""
        return self.test.partition("[")[0]


class RunError(Exception):
    """The tests could not be read or run."""


def run_tests(options: Iterable[str] = (), root: Path = ROOT) -> list[Proof]:
    """Run the marked tests of a repository, with pytest's words on stderr."""
    return read_report(["-q", *options], root, sys.stderr)


def find_tests(root: Path = ROOT) -> list[Proof]:
    """The marked tests of a repository, without running them."""
    return read_report(["-qq", "--collect-only"], root, subprocess.PIPE)


def read_report(options: list[str], root: Path, out: int | TextIO) -> list[Proof]:
    """Start pytest on the marked tests and read the report that it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "notes.json"
        command = [sys.executable, "-m", "pytest", "-m", "notes", f"--notes-report={report}", *options]
        done = subprocess.run(command, cwd=root, stdout=out, text=True, check=False)
        if done.returncode not in (0, 1, 5):  # all passed, some failed, none found
            raise RunError(f"{done.stdout or ''}The tests did not run: pytest ended with {done.returncode}.")
        tests = json.loads(report.read_text(encoding="utf-8"))
    return [Proof(test, tuple(entry["rows"]), entry["outcome"]) for test, entry in tests.items()]


def state(proofs: list[Proof]) -> str:
    """The state of a row: failed if any of its tests failed, passed if one passed, none otherwise."""
    outcomes = {proof.outcome for proof in proofs}
    return next((name for name in ("failed", "passed") if name in outcomes), "none")


def table(rows: dict[str, Row], proofs: list[Proof]) -> tuple[list[str], list[str]]:
    """The lines of the table, and the complaints that make it fail."""
    lines, complaints, counts = [], [], Counter[str]()
    for row in rows.values():
        own = [proof for proof in proofs if row.id in proof.rows]
        counts[now := state(own)] += 1
        lines.append(f"{row.id:<4} {now:<7} {' '.join(sorted({proof.name for proof in own}))}".rstrip())
        if now == "failed":
            complaints.append(f"{row.id} ({row.title}) fails.")
        elif now == "none" and row.proven:
            complaints.append(f"{row.id} ({row.title}) was proven before, but no test of it passes now.")
    lines.append(f"notes: {counts['passed']} passed, {counts['failed']} failed, {counts['none']} none")
    return lines, complaints


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(
        description="Which rows of the lecture notes are proven, and by which tests."
    )
    parser.add_argument("--workers", default="0", help="tests that run at the same time")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository whose tests are run")
    arguments = parser.parse_args()
    try:
        proofs = run_tests(["-n", arguments.workers], arguments.root)
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    lines, complaints = table(read_rows(arguments.root / "docs" / "notes.toml"), proofs)
    print("\n".join(complaints), end="\n" * bool(complaints), file=sys.stderr)
    print("\n".join(lines))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
