"""The pytest side of the notes: tests marked `notes("N12")` enter, a JSON file of their outcomes leaves.

`--notes-report FILE` asks for the file: {test: {"rows": ["N12"], "outcome": "passed"}}. With `--collect-only`
the outcome is "collected". A mark with an unknown row stops the run, since a mistyped id would prove nothing.
"""

import json
from pathlib import Path

import pytest

from tools.notes import read_rows

PROPERTY = "notes"


class Report:
    """Collects the outcome of every marked test; under xdist only the controller writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, dict[str, object]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if rows := rows_of(item):
                self.tests[item.nodeid] = {"rows": rows, "outcome": "collected"}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rows = dict(report.user_properties).get(PROPERTY)
        if rows and (report.when == "call" or report.outcome != "passed"):
            self.tests[report.nodeid] = {"rows": rows, "outcome": report.outcome}

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(self.tests, indent=1, sort_keys=True), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--notes-report", type=Path, help="write the outcome of every test marked `notes` to this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--notes-report")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = read_rows(config.rootpath / "docs" / "notes.toml")
    for item in items:
        rows = rows_of(item)
        if unknown := [row for row in rows if row not in known]:
            raise pytest.UsageError(
                f"{item.nodeid} is marked with {', '.join(unknown)}; docs/notes.toml has no such row."
            )
        if rows:
            item.user_properties.append((PROPERTY, rows))


def rows_of(item: pytest.Item) -> list[str]:
    """The ids that a test is marked with, its own and those of its class and module."""
    ids = {id for mark in item.iter_markers("notes") for id in mark.args}
    return sorted(ids, key=lambda id: (len(id), id))
