"""The notebooks of examples/: executed from start to end, and shown with the network cut."""

import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import nbformat
import pytest

from tests.browser.conftest import Visitor
from tests.pages import ROOT

pytestmark = pytest.mark.slow
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
# In a process of its own, as it leaves event loops open; in one kernel, which forgets each notebook before the next.
EXECUTE = """
import sys, nbformat
from jupyter_client import KernelManager
from nbclient import NotebookClient
kernel = KernelManager()
kernel.start_kernel()
for path in sys.argv[1:]:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    NotebookClient(notebook, km=kernel, timeout=300, startup_timeout=300).execute()
    nbformat.write(notebook, path.rpartition("/")[2])
kernel.shutdown_kernel(now=True)
"""
MOST_BYTES = 400_000  # of one output
ELSEWHERE = re.compile(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|@import|url\(\s*["']?http""")
DRAWN = "!!document.querySelector('html[data-drawn] main[aria-busy=false]') && !document.querySelector('main .error')"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the executed notebooks; it was empty before."""
    folder = tmp_path_factory.mktemp("run")
    subprocess.run([sys.executable, "-c", EXECUTE, *map(str, NOTEBOOKS)], cwd=folder, check=True)
    return folder


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def outputs(request: pytest.FixtureRequest, executed: Path) -> list[str]:
    """The HTML that a notebook shows."""
    notebook = nbformat.read(executed / request.param.name, as_version=4)
    return [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    assert all(
        not cell.get("outputs") and not cell.get("execution_count") for cell in nbformat.read(path, 4).cells
    )


@pytest.mark.prove
def test_a_notebook_runs_and_is_shown_with_the_network_cut(
    outputs: list[str],
    open_file: Callable[..., Visitor],
    tmp_path: Path,
) -> None:
    assert len(outputs) >= 2
    for html in outputs:
        assert len(html.encode()) <= MOST_BYTES
        assert not ELSEWHERE.search(unescape(html))
    heights = [
        int(found[1]) for html in outputs if (found := re.search(r'<iframe[^>]* height="(\d+)"', html))
    ]
    assert len(heights) == len(outputs)
    file = tmp_path / "exported.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + "".join(outputs), encoding="utf-8")
    page, shown = open_file(file).page, 0
    for number, height in enumerate(heights):
        element = page.locator("iframe").nth(number)
        element.scroll_into_view_if_needed()
        frame = element.element_handle().content_frame()
        assert frame is not None
        frame.wait_for_selector("main")
        if frame.locator("#desk").count():
            frame.wait_for_function(DRAWN)
            shown += 1
        assert frame.locator("main").inner_text().strip()
        assert element.bounding_box()["height"] == height  # type: ignore[index]
    assert shown == sum("id=&quot;answers&quot;" in html for html in outputs)
