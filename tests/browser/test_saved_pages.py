"""Pages that Python saves: every view opens from the file alone, with the numbers of the model."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.browser.conftest import DRAWN, VIEWS, Visitor
from tests.browser.test_numbers import MODELS, SHAPES, TEXT, target, trace_of

pytestmark = pytest.mark.slow
OpenFile = Callable[..., Visitor]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_view_of_a_page_that_python_made(open_file: OpenFile, tmp_path: Path, shape: str) -> None:
    model, path = MODELS[shape](), tmp_path / "page.html"
    figure = model.explore(TEXT, target(model).get("target"), "heads")
    if shape == "encoder-decoder":
        figure.save(path)
    else:
        path.write_text(figure.frame, encoding="utf-8")
    visitor = open_file(path)
    visitor.settle()
    page = visitor.page
    assert page.locator('[data-key="view heads"]').get_attribute("aria-current") == "page"
    for view in VIEWS:
        visitor.click_view(view)
        assert page.locator("main .error").count() == 0, (view, page.locator("main").inner_text()[:200])
    visitor.click_view("attention")
    at = page.locator('[data-key="choose attention"]').input_value()
    head = int(page.locator('[data-key^="head "][aria-pressed="true"]').inner_text())
    A = trace_of(model)[f"{at}.weights"][0, head]
    assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)


def test_a_page_inside_another_keeps_its_selection_to_itself(open_file: OpenFile, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    html = MODELS["decoder"]().explore(TEXT)._repr_html_()
    path.write_text(f"<!doctype html><meta charset=utf-8>{html}", encoding="utf-8")
    visitor = open_file(path, color_scheme="dark")
    frame = visitor.page.frames[1]
    frame.evaluate(DRAWN, None)
    assert frame.locator("html").get_attribute("data-theme") == "dark"
    frame.locator('[data-key="view heads"]').click()
    frame.locator('[data-key="view heads"][aria-current="page"]').wait_for()
    frame.locator('[data-panel="heads"]').wait_for()
    assert "view=heads" not in visitor.page.url
