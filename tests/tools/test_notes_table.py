"""The table of the notes, on a small repository made up for the purpose."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.notes import ROOT, NotesError, Row, find_line, read_row, read_rows
from tools.notes_table import Proof, table

ROWS = """
[N1]
title = "One"
says = "It is one."
{n1}
[N2]
title = "Two"
says = "It is two."
[N3]
title = "Three"
says = "It is three."
"""


FEW_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}


def make_repository(folder: Path, tests: str, n1: str = "") -> None:
    """A repository with three rows and some tests."""
    (folder / "docs").mkdir()
    (folder / "tests").mkdir()
    (folder / "docs" / "notes.toml").write_text(ROWS.format(n1=n1), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = notes(*ids): rows\n", encoding="utf-8")
    (folder / "tests" / "conftest.py").write_text(
        "pytest_plugins = ['tools.notes_plugin']\n", encoding="utf-8"
    )
    (folder / "tests" / "test_a.py").write_text(
        f"import pytest\nnotes = pytest.mark.notes\n{tests}", encoding="utf-8"
    )


def run_table(folder: Path, *options: str) -> tuple[int, str, str]:
    """`make notes` in that repository: exit code, stdout, stderr."""
    command = [sys.executable, "-m", "tools.notes_table", "--root", str(folder), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | FEW_PLUGINS
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("options", [[], ["--workers", "1"]])
def test_one_line_for_each_row(tmp_path: Path, options: list[str]) -> None:
    make_repository(
        tmp_path,
        """
@notes("N1", "N2")
@pytest.mark.parametrize("x", [1, 2])
def test_both(x): pass

@notes("N2")
class TestTwo:
    def test_fails(self): assert 1 == 2

@notes("N3")
@pytest.mark.skip(reason="not here")
def test_skipped(): pass

def test_unmarked(): assert False
""",
    )
    code, out, err = run_table(tmp_path, *options)
    assert out.splitlines() == [
        "N1   passed  tests/test_a.py::test_both",
        "N2   failed  tests/test_a.py::TestTwo::test_fails tests/test_a.py::test_both",
        "N3   none    tests/test_a.py::test_skipped",
        "notes: 1 passed, 1 failed, 1 none",
    ]
    assert code == 1
    assert "N2 (Two) fails." in err
    assert "assert 1 == 2" in err


def test_a_table_without_failures_ends_with_0(tmp_path: Path) -> None:
    make_repository(tmp_path, "@notes('N1')\ndef test_one(): pass", n1="proven = true")
    code, out, _ = run_table(tmp_path)
    assert (code, out.splitlines()[-1]) == (0, "notes: 1 passed, 0 failed, 2 none")


def test_a_repository_without_marked_tests_has_an_empty_table(tmp_path: Path) -> None:
    make_repository(tmp_path, "def test_one(): pass")
    code, out, _ = run_table(tmp_path)
    assert (code, out.splitlines()[-1]) == (0, "notes: 0 passed, 0 failed, 3 none")


def test_a_broken_fixture_fails_the_row(tmp_path: Path) -> None:
    make_repository(
        tmp_path, "@pytest.fixture\ndef x(): raise ValueError\n@notes('N1')\ndef test_one(x): pass"
    )
    code, out, _ = run_table(tmp_path)
    assert (code, out.splitlines()[0].split()[1]) == (1, "failed")


def test_a_proven_row_that_lost_its_test_fails(tmp_path: Path) -> None:
    make_repository(tmp_path, "def test_one(): pass", n1="proven = true")
    code, _, err = run_table(tmp_path)
    assert code == 1
    assert "N1 (One) was proven before, but no test of it passes now." in err


@pytest.mark.parametrize(
    ("tests", "complaint"),
    [
        (
            "@notes('N99')\ndef test_one(): pass",
            "test_one is marked with N99; docs/notes.toml has no such row.",
        ),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
    ],
)
def test_tests_that_cannot_be_read_are_an_error(tmp_path: Path, tests: str, complaint: str) -> None:
    make_repository(tmp_path, tests)
    code, out, err = run_table(tmp_path)
    assert (code, out) == (1, "")
    assert complaint in err
    assert "The tests did not run" in err


def test_a_row_is_failed_if_any_test_of_it_failed() -> None:
    rows = {id: Row(id, id, id, "", (), proven=False) for id in ("N1", "N2")}
    proofs = [
        Proof("a", ("N1",), "failed"),
        Proof("b", ("N1", "N2"), "passed"),
        Proof("c", ("N2",), "skipped"),
    ]
    lines, complaints = table(rows, proofs)
    assert [line.split()[1] for line in lines[:2]] == ["failed", "passed"]
    assert complaints == ["N1 (N1) fails."]


def test_a_symbol_is_found_by_its_name(tmp_path: Path) -> None:
    source = "import os\n\nTABLE = {}\nSIZE: int = 3\n\nclass A:\n  x: int\n\n  @staticmethod\n  def f(): ..."
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    lines = {name: find_line(f"a.py:{name}", tmp_path) for name in ("TABLE", "SIZE", "A", "A.x", "A.f")}
    assert lines == {"TABLE": 3, "SIZE": 4, "A": 6, "A.x": 7, "A.f": 10}
    with pytest.raises(NotesError, match=r"a\.py:A\.g: a\.py defines no A\.g\."):
        find_line("a.py:A.g", tmp_path)
    with pytest.raises(NotesError, match=r"there is no file b\.py"):
        find_line("b.py:A", tmp_path)


def test_a_mistyped_field_of_a_row_is_an_error() -> None:
    with pytest.raises(NotesError, match=r"N1 in docs/notes\.toml: .*'formulas'"):
        read_row("N1", {"title": "a", "says": "b", "formulas": "c"})


def test_the_rows_are_n1_to_n47_and_point_to_code_that_exists() -> None:
    rows = read_rows()
    assert list(rows) == [f"N{i}" for i in range(1, 48)]
    for row in rows.values():
        assert row.title, row.id
        assert row.says, row.id
        assert all(find_line(reference) > 0 for reference in row.code)
        assert row.code or not row.proven, f"{row.id} is proven, but names no code"


def test_the_table_only_grows() -> None:
    """A proven row keeps a test, and a row with its first test is written down as proven."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    marks = [mark for source in sources for mark in re.findall(r"mark\.notes\(([^)]*)\)", source)]
    marked = {id for mark in marks for id in re.findall(r'"(N\d+)"', mark)}
    proven = {row.id for row in read_rows().values() if row.proven}
    assert proven - marked == set(), "these rows were proven, but no test is marked with them now"
    assert marked - proven == set(), (
        "tests prove these rows: give them `code` and `proven = true` in docs/notes.toml"
    )
