"""What can be taken out of the page: panels as SVG, PNG, CSV and Python, and the page as one file."""

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.browser.conftest import VIEWS, Visitor
from tests.browser.test_numbers import MODELS, SHAPES, TEXT, target

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]


def printed(program: str) -> str:
    """What a program prints; it runs here, where PyTorch is imported already."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(program, {"__name__": "__main__"})
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs run that load models/tiny."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "models" / "tiny"


@pytest.mark.parametrize("shape", SHAPES)
def test_every_panel_of_every_view_can_be_taken_out(visit: Visit, shape: str, folder: Path) -> None:
    model = MODELS[shape]()
    visitor = visit(model)
    model.save(folder)
    scripts: set[str] = set()
    for view in VIEWS:
        visitor.go(view, text=TEXT, **target(model))
        assert visitor.page.locator(".error").count() == 0, view
        taken = visitor.page.evaluate(
            "[...document.querySelectorAll('.panel')].filter(one => one.exports).map(one =>"
            " ({ name: one.dataset.panel, svg: one.exports.svg(), csv: one.exports.csv(),"
            " python: one.exports.python() }))"
        )
        assert taken, view
        for panel in taken:
            assert re.fullmatch(r"<svg.*</svg>", panel["svg"], re.DOTALL), panel["name"]
            rows = list(csv.reader(io.StringIO(panel["csv"])))
            assert rows, panel["name"]
            scripts.add(panel["python"]) if panel["python"] else None
    assert "tensor(" in "".join(map(printed, sorted(scripts)))


def test_a_panel_is_saved_as_svg_png_csv_and_python(visit: Visit, tmp_path: Path) -> None:
    model = MODELS["decoder"]()
    visitor = visit(model)
    visitor.go("attention", text=TEXT, head=1)
    panel = visitor.page.locator('[data-panel="bench"]')
    kept = {}
    for kind in ("SVG", "PNG", "CSV", "Python"):
        panel.locator("details").evaluate("one => { one.open = true; }")
        with visitor.page.expect_download() as waiting:
            panel.get_by_role("button", name=kind, exact=True).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        kept[path.suffix] = path.read_bytes()
    assert kept[".png"].startswith(b"\x89PNG")
    assert len(kept[".png"]) > 5000
    assert b"<rect" in kept[".svg"]
    rows = list(csv.reader(io.StringIO(kept[".csv"].decode())))
    A = model.trace(TEXT)["decoder.0.self.weights"][0, 1]
    assert [float(x) for x in rows[4][1:]] == pytest.approx(A[3].tolist(), abs=1e-6)
    assert rows[0][1:] == [row[0] for row in rows[1:]]
    assert b'trace["decoder.0.self.weights"][0, 1]' in kept[".py"]


def test_python_of_a_what_if_makes_the_same_pass(visit: Visit, folder: Path) -> None:
    model = MODELS["decoder"]()
    model.save(folder)
    visitor = visit(model)
    visitor.go("attention", text=TEXT, head=1, off="mask", mute="decoder.0.self.0", more="5,6")
    script = visitor.page.evaluate("document.querySelector('[data-panel=bench]').exports.python()")
    numbers = torch.tensor(json.loads(printed(script.replace("print(X)", "print(X.tolist())"))))
    assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(numbers.flatten(), abs=1e-6)


def test_the_saved_page_opens_without_a_server(visit: Visit, open_file: Visit, tmp_path: Path) -> None:
    model = MODELS["decoder"]()
    visitor = visit(model)
    visitor.go("attention", text=TEXT, at="decoder.0.self", head=1, cell="weights:4:2")
    with visitor.page.expect_download() as waiting:
        visitor.page.locator("#save").click()
    path = tmp_path / "saved.html"
    waiting.value.save_as(path)
    saved = open_file(path)
    saved.settle()
    page = saved.page
    trace = model.trace(TEXT)
    A = trace["decoder.0.self.weights"][0, 1]
    assert torch.tensor(saved.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)
    assert page.locator("[data-panel=derivation]").count() == 1
    for view in VIEWS:
        saved.click_view(view)
        assert page.locator(".error").count() == 0, view
    saved.act(lambda: page.locator('[data-key="view attention"]').click())
    saved.act(lambda: page.locator('[data-key="head 2"]').click())
    saved.act(lambda: page.locator('[data-key="choose attention"]').select_option("decoder.1.self"))
    A = trace["decoder.1.self.weights"][0, 2]
    assert torch.tensor(saved.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)
    for cell in (
        "q:5:1",
        "out:5:7",
        "hidden:5:9:decoder.0.ffn",
        "logit:5:4",
        "e:5:7:decoder",
        "mean:4:2:decoder.1.self",
    ):
        saved.act(lambda cell=cell: page.evaluate("cell => { location.hash += `&cell=${cell}`; }", cell))  # type: ignore[misc]
        panel = page.locator("[data-panel=derivation]")
        captured, again = (
            float(panel.get_attribute(f"data-{key}") or "nan") for key in ("captured", "again")
        )
        assert again == pytest.approx(captured, abs=3e-5, rel=3e-5), cell
        saved.act(lambda: page.keyboard.press("Escape"))
    saved.act(lambda: page.locator('[data-key="view residual"]').click())
    saved.act(lambda: page.locator('[data-key="token decoder 2"]').click())
    assert page.locator(".error").count() == 0
    assert page.locator('[data-key="field text"]').is_disabled()
