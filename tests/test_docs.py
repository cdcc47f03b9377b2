"""Every example of the documentation is executed, and the site is built without a complaint."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, PageError, make_targets, read_blocks, run_page

PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    # Those of "How do I add …" run in a changed copy of the sources: tests/test_how_to_add.py.
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.stem != "how-to-add"),
]
TRAINING = ("vectors", "heads", "compare")  # these pages train for some seconds: in `make prove`


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.prove] * (page.stem in TRAINING)) for page in PAGES],
    ids=[page.relative_to(ROOT).as_posix() for page in PAGES],
)
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix(), make_targets())


def test_blocks_are_found_in_order_and_with_their_lines() -> None:
    page = "a\n```python\nx = 1\n```\n\n```text\n1\n```\nb\n````text\n```python\n```\n````\n"
    page += "- c\n\n    ```toml\n    d = 1\n    ```\n"
    blocks = [(block.kind, block.source, block.line, block.follows) for block in read_blocks(page)]
    assert blocks == [
        ("python", "x = 1", 3, False),
        ("text", "1", 7, True),
        ("text", "```python\n```", 11, False),
        ("toml", "d = 1", 17, False),
    ]


@pytest.mark.parametrize(
    "page",
    [
        "```python\nx = 2\n```\ntext\n```python\nprint(x, x)\nprint(3)\n```\n```text\n2   2\n3\n```",
        "```python\nprint('loss', 0.25)\nprint('end')\n```\n\n```text\nloss ...\nend\n```",
        "```console\n$ clearhead --version\nclearhead ...\n$ make test\n$ cd somewhere\n```",
        "```console\n$ clearhead dream\n... Error ... No such command 'dream'...\n```",
        "```text\nshown, not compared\n```",
    ],
)
def test_a_page_that_tells_the_truth_passes(page: str) -> None:
    run_page(page, "page.md", make_targets())


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```", "page.md:5: the page shows"),
        ("```python\nprint('a b')\n```\n```text\na ... c\n```", "the page shows"),
        ("```python\nassert 1 == 2, 'not so'\n```", "not so"),
        ("```py\n1\n```", "page.md:2: write python for py"),
        ("```bash\nls\n```", "write console for bash"),
        ("```console\nclearhead demo\n```", "opens with a command"),
        ("```console\n$ clearhead dream\n```", "`clearhead dream` ended with 2"),
        ("```console\n$ clearhead --version\nclearhead 99\n```", "clearhead 99"),
        ("```console\n$ make wishes\n```", "the Makefile has no target wishes"),
        ("```python\n1\n", "line 1: a block is opened and never closed"),
    ],
)
def test_a_page_that_does_not_is_caught(page: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        run_page(page, "page.md", make_targets())


def test_a_traceback_names_the_line_of_the_page() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("words\n\n```python\nx = 0\n1 / x\n```", "page.md", set())
    last = caught.traceback[-1]
    assert (str(last.path).endswith("page.md"), last.lineno + 1) == (True, 5)


def test_page_errors_are_assertions() -> None:
    assert issubclass(PageError, AssertionError)


@pytest.mark.prove
def test_the_site_is_built_and_its_links_lead_to_lines(tmp_path: Path) -> None:
    """A strict build passes, loads nothing from other hosts, and every link into a source meets its line."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    for page in tmp_path.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|img|iframe)[^>]*src=\"https?:", html), page
        assert not re.findall(r"<link[^>]*rel=\"(?:stylesheet|preconnect)\"[^>]*href=\"https?:", html), page

    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = [one["location"] for one in index["docs"] if "training.keep_models" in one["text"]]
    assert "reference/settings.html#training" in found
    assert not [one["location"] for one in index["docs"] if one["location"].startswith("source/")]

    notes = (tmp_path / "notes.html").read_text(encoding="utf-8")
    for path, anchor in re.findall(r'href="(source/[^"#]+)#([^"]+)"', notes):
        assert f'name="{anchor}"' in (tmp_path / path).read_text(encoding="utf-8")
    assert [f"N{i}" for i in range(1, 48)] == re.findall(r'<h2 id="(?:n\d+)-[^"]*">(N\d+):', notes)


def test_the_architecture_names_every_folder_and_only_files_that_exist() -> None:
    page, sources = (
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
        ROOT / "src" / "clearhead",
    )
    tree = next(block for block in read_blocks(page) if block.kind == "text")
    listed = [line.split()[0].rstrip("/") for line in tree.source.splitlines()]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", page)
    assert [name for name in (*listed, *named) if not (sources / name).exists()] == []
    files = [path.parent if path.name == "__init__.py" else path for path in sources.rglob("*.py")]
    parts = {path.relative_to(sources).as_posix() for path in files if path != sources}
    top = {
        part for part in parts if part.count("/") == 0 or (part.count("/") == 1 and not part.endswith(".py"))
    }
    assert {part for part in top if not any(f"{name}/".startswith(f"{part}/") for name in listed)} == set()
