"""The wheel: it contains every file of the package, and its commands run where only the wheel is installed."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.pages import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
TEXT = "".join(f"The {animal} sleeps.\n" for animal in ("dog", "cat", "cow", "frog", "owl")) * 200


def run(command: list[str], folder: Path) -> str:
    """Runs a command in a folder, without the source tree on its path; what it prints."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"CLEARHEAD_CACHE": str(folder / "cache"), "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built with the hatchling that set-up has installed."""
    folder = tmp_path_factory.mktemp("dist")
    build = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
    run([*PIP, *build, str(ROOT)], folder)
    return next(folder.glob("clearhead-*.whl"))


@pytest.mark.prove
def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("clearhead/")}
    source = ROOT / "src"
    files = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert packed == {path.relative_to(source).as_posix() for path in files}
    for kind in (
        "page/index.html",
        "page/style.css",
        "page/main.js",
        "recipes/spanish-translator.toml",
        "py.typed",
    ):
        assert f"clearhead/{kind}" in packed


@pytest.mark.prove
def test_the_wheel_works_beside_dependencies_that_are_installed(wheel: Path, tmp_path: Path) -> None:
    """Dependencies are seen where they are, so that nothing is downloaded; clearhead itself is only in the wheel."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    place = Path(
        run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path).strip()
    )
    # A folder named in a .pth file is searched, but .pth files inside it are not: an editable install stays unseen.
    (place / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    run([*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], tmp_path)
    check_commands(python, tmp_path)


@pytest.mark.prove
def test_the_wheel_installs_with_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    """As the README says it; pip takes the dependencies from where set-up has taken them."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    constraints = ["-c", str(ROOT / "constraints.txt"), "torch==2.13.0"]
    run([*PIP, "--python", str(python), "install", *constraints, str(wheel)], tmp_path)
    check_commands(python, tmp_path)


def check_commands(python: Path, folder: Path) -> None:
    """The commands that a newcomer tries first, by the installed script."""
    clearhead = str(python.parent / "clearhead")
    where = run([str(python), "-c", "import clearhead; print(clearhead.__file__)"], folder)
    assert Path(where.strip()).is_relative_to(folder / "venv")
    assert "--out" in run([clearhead, "demo", "--help"], folder)
    assert "spanish-translator" in run([clearhead, "recipes"], folder)
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    plan = run([clearhead, "train", "language-model", "book.txt", "--training.steps", "5", "--plan"], folder)
    assert "steps" in plan
    assert not (folder / "runs").exists()
