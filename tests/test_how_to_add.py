"""The page *How do I add …*: each change is applied to a copy of the sources, and its program runs there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, Block, PageError, compare, read_blocks

PAGE = ROOT / "docs" / "how-to-add.md"
SECTIONS = dict(re.findall(r"^## … (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S))


def apply(change: Block, root: Path) -> None:
    """Applies a `diff` block; `@@` stands between two places of one file, and `--- NAME` opens a file."""
    name, _, hunks = change.source.removeprefix("--- ").partition("\n")
    path = root / name
    for hunk in re.split(r"^@@\n", hunks, flags=re.MULTILINE):
        lines = [(line[:1], line[1:]) for line in hunk.splitlines()]
        before = "".join(f"{text}\n" for mark, text in lines if mark != "+")
        after = "".join(f"{text}\n" for mark, text in lines if mark != "-")
        content = path.read_text(encoding="utf-8") if path.exists() else ""
        if content.count(before) != 1 and (before or content):
            raise PageError(f"{name} has these lines {content.count(before)} times, not once:\n{before}")
        path.write_text(content.replace(before, after) if before else after, encoding="utf-8")


def changed_copy(section: str, folder: Path) -> list[Block]:
    """Copies the sources, applies the section's changes to the copy, and returns all its blocks."""
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.safetensors")
    )
    blocks = list(read_blocks(SECTIONS[section]))
    for block in blocks:
        if block.kind == "diff":
            apply(block, folder)
    return blocks


@pytest.mark.parametrize("section", SECTIONS)
def test_a_change_fits_the_sources(section: str, tmp_path: Path) -> None:
    changed_copy(section, tmp_path)


@pytest.mark.prove
@pytest.mark.parametrize("section", SECTIONS)
def test_a_change_works_in_a_copy_of_the_sources(section: str, tmp_path: Path) -> None:
    blocks = changed_copy(section, tmp_path)
    program = next(block for block in blocks if block.kind == "python")
    shown = next(block for block in blocks if block.kind == "text")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", program.source],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    compare(shown.source, done.stdout, f"{PAGE.name}, {section}")


def test_a_change_that_fits_no_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n", encoding="utf-8")
    apply(Block("diff", "--- a.py\n x = 1\n+z = 3", 1, False), tmp_path)
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == "x = 1\nz = 3\ny = 2\n"
    apply(Block("diff", "--- b.py\n+new = True", 1, False), tmp_path)
    assert (tmp_path / "b.py").read_text(encoding="utf-8") == "new = True\n"
    with pytest.raises(PageError, match="0 times, not once"):
        apply(Block("diff", "--- a.py\n-x = 2\n+x = 4", 1, False), tmp_path)
