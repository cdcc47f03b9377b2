"""The lecture on the page: every step reaches its state, outlines what it talks about, and knows its answer."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.api import Model
from clearhead.inspection.kept_models import kept_models, load_kept
from clearhead.page.lessons.files import read_lessons
from clearhead.page.service.lessons import Lessons
from clearhead.page.service.service import ExplorerService
from clearhead.shipped import SHIPPED
from tests.browser.conftest import DRAWN, KEPT, TOKEN, Visitor, selection
from tests.browser.test_models import make_model

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]
LESSONS = read_lessons()
FEW = ("01-tokens", "08-softmax", "18-translation")  # in `make test`; all in `make prove`
LOOKED = """() => {
  const all = [...document.querySelectorAll('.look')], box = all[0]?.getBoundingClientRect();
  return { count: all.length, step: all[0]?.dataset.step, width: box?.width, height: box?.height,
    top: box?.top, bottom: box?.bottom, window: innerHeight,
    frame: all[0]?.closest('#frame') ? 0 : document.getElementById('frame').offsetHeight,
    content: all[0]?.textContent.trim().length + all[0]?.querySelectorAll('canvas').length };
}"""

shipped = cache(clearhead.load)  # one model, and so one explorer, for many lessons


def turn(visitor: Visitor, key: str) -> None:
    """Presses a button of the panel that changes the step."""
    button = visitor.page.locator(f'#lesson [data-key="{key}"]')
    visitor.act(button.click)


def check_step(visitor: Visitor, name: str, number: int, step: dict[str, Any]) -> None:
    """The page is in the state of the step, with its text, outline and answer."""
    page, where = visitor.page, f"{name}.{number}"
    now = selection(page.url)
    assert now["lesson"] == where
    for key, value in step["state"].items():
        if value not in ("", "softmax", "place", "head", "1") and key != "tokens":
            assert now.get(key) == value, (where, key)
    assert page.locator("#lesson h2").inner_text() == step["title"], where
    assert page.locator("main .error").count() == 0, where
    looked = page.evaluate(LOOKED)
    assert looked["count"] == 1, where
    assert looked["step"] == where
    assert min(looked["width"], looked["height"]) > 20, where
    assert looked["content"] > 0, where
    assert looked["top"] < looked["window"] - 20, where
    assert looked["bottom"] > looked["frame"] + 20, where
    if step["question"]:
        check_question(visitor, step["question"], where)


def check_question(visitor: Visitor, question: dict[str, Any], where: str) -> None:
    """A wrong answer is not right, and the model's own is."""
    box = visitor.page.locator("#lesson .question")
    shown = box.get_attribute("data-answer") or ""
    assert (float(shown) if question["kind"] == "number" else shown) == question["value"], where
    if question["kind"] == "number":
        for given, is_right in ((question["value"] * 1.5 + 1, False), (question["value"], True)):
            box.locator("input").fill(repr(given))
            box.locator('[data-key="check"]').click()
            assert box.locator(".right").count() == is_right, where
    else:
        for option in sorted(question["options"], key=lambda one: one == question["value"]):
            button = box.locator('[data-key^="option "]').nth(question["options"].index(option))
            assert button.get_attribute("data-key") == f"option {option}"
            button.click()
            assert box.locator(".right").count() == (option == question["value"]), where


def walk(visit: Visit, model: Model, names: list[str], name: str = "walked") -> None:
    """Goes through some lessons by the panel's own buttons."""
    visitor = visit(model, name)
    lessons = Lessons(ExplorerService(model.bundle, "walked", "models/walked", kept=KEPT.get(name, [])))
    usable = {one["name"]: one for one in lessons.listing("en")["lessons"] if one["why"] is None}
    for name in names:
        if name not in usable:
            continue
        visitor.page.goto("about:blank")
        visitor.go("text", lesson="")
        visitor.page.locator("#lessons").click()
        visitor.page.locator(f'#lesson [data-key="lesson {name}"]').wait_for()
        visitor.act(visitor.page.locator(f'#lesson [data-key="lesson {name}"]').click)
        before: tuple[Any, ...] | None = None
        for number in range(1, len(usable[name]["steps"]) + 1):
            if number > 1:
                turn(visitor, "lesson on")
            step = lessons.step(name, number, "en")
            check_step(visitor, name, number, step)
            # What is outlined is another thing than in the step before, or the same thing in another state.
            look = (step["look"], tuple(sorted(step["state"].items())))
            assert look != before, (name, number)
            before = look


@pytest.mark.parametrize("name", FEW)
def test_a_lesson_on_the_shipped_translator(visit: Visit, name: str) -> None:
    walk(visit, shipped("builtin:translator"), [name])


@pytest.mark.prove
@pytest.mark.parametrize("model", ["builtin:translator", "builtin:language-model"])
def test_all_lessons_on_the_shipped_models(visit: Visit, model: str) -> None:
    walk(visit, shipped(model), list(LESSONS), model.removeprefix("builtin:"))


@pytest.mark.prove
@pytest.mark.parametrize("name", ["spanish-translator", "python-lm", "minilm"])
def test_all_lessons_on_models_of_recipes_and_an_imported_one(
    visit: Visit, name: str, tmp_path: Path
) -> None:
    walk(visit, make_model(name, tmp_path / name), list(LESSONS))


def test_the_slider_moves_through_the_run(visit: Visit) -> None:
    model = shipped("builtin:language-model")
    visitor = visit(model, "language-model", alone=True)
    text = "The chicken didn't cross the road because it was too tired."
    visitor.go("attention", text=text, at="decoder.1.self", head=1, q=6, k=3, moment=0)
    page, slider = visitor.page, visitor.page.locator("#scrubber input")
    kept = kept_models(SHIPPED / "language-model")
    for one in kept[:3]:
        assert page.locator("#scrubber output").inner_text().startswith(f"step {one.step}")
        A = Model(load_kept(model.bundle, one)).trace(text)["decoder.1.self.weights"][0, 1]
        assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)
        slider.focus()
        visitor.act(lambda: page.keyboard.press("ArrowRight"))
    visitor.act(lambda: page.keyboard.press("End"))
    assert page.locator("#scrubber output").inner_text() == "the trained model"
    assert "moment" not in selection(page.url)
    A = model.trace(text)["decoder.1.self.weights"][0, 1]
    assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)


def test_from_the_first_page_to_the_second_step_in_three_clicks(visit: Visit) -> None:
    visitor = visit(shipped("builtin:translator"), "walked", alone=True)
    visitor.go("attention")
    page = visitor.page
    page.locator("#lessons").click()
    page.locator("#lesson ol button").first.wait_for()
    visitor.act(page.locator("#lesson ol button").first.click)
    visitor.act(page.locator('[data-key="lesson on"]').click)
    assert selection(page.url)["lesson"].endswith(".2")


def test_keys_links_and_spanish(visit: Visit) -> None:
    model = shipped("builtin:translator")
    visitor = visit(model, "walked", alone=True)
    visitor.go("text", lesson="")
    page = visitor.page
    page.goto("about:blank")
    page.goto(f"{visitor.address}?token={TOKEN}#lesson=06-scaling.2")  # a link to a step alone
    page.evaluate(DRAWN, None)
    page.locator("#lesson h2").wait_for()
    assert selection(page.url)["off"] == "scaling"
    assert page.locator("#changed").is_visible()
    visitor.act(lambda: page.keyboard.press("n"))
    assert selection(page.url)["lesson"] == "06-scaling.3"
    assert not page.locator("#changed").is_visible()  # nothing of the step before stays
    visitor.act(lambda: page.keyboard.press("p"))
    assert selection(page.url)["lesson"] == "06-scaling.2"
    page.keyboard.press("l")
    page.locator("#lesson select").select_option("es")
    page.locator("#lesson h2", has_text="Lecciones").wait_for()
    visitor.act(page.locator('#lesson [data-key="lesson 07-mask"]').click)
    assert page.locator("#lesson h2").inner_text() == LESSONS["07-mask"].within("es").steps[0].title
    assert page.locator("#lesson").get_attribute("lang") == "es"
    visitor.act(page.locator('[data-key="lesson close"]').click)
    assert not page.locator("#lesson").is_visible()
    assert page.locator(".look").count() == 0


def test_at_200_percent_a_step_opens_with_its_text(visit: Visit) -> None:
    window = {"width": 640, "height": 360}
    visitor = visit(shipped("builtin:translator"), "walked", alone=True, viewport=window)
    visitor.go("attention", lesson="06-scaling.1")
    page = visitor.page
    visitor.act(lambda: page.keyboard.press("n"))
    page.locator("#lesson h2", has_text=LESSONS["06-scaling"].steps[1].title).wait_for()
    box = page.locator("#lesson h2").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < window["height"] - 40
    assert page.evaluate("document.documentElement.scrollWidth") <= window["width"]
    page.locator('[data-key="lesson see"]').click()
    page.wait_for_function(
        f"document.querySelector('.look').getBoundingClientRect().top < {window['height']}"
    )


def test_an_audit_of_the_panel_finds_nothing_serious(visit: Visit) -> None:
    auditor = import_module("axe_playwright_python.sync_playwright").Axe()
    visitor = visit(shipped("builtin:translator"), "walked", alone=True, bypass_csp=True)
    visitor.go("text", lesson="01-tokens.1")
    page = visitor.page
    page.locator("#lesson .question").wait_for()
    for what in ("step", "list"):
        if what == "list":
            page.keyboard.press("l")
            page.locator("#lesson ol").wait_for()
        for _ in range(2):  # in both themes
            found = auditor.run(page, "#lesson", {"resultTypes": ["violations"]}).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
            visitor.act(lambda: page.get_by_role("button", name="Light or dark").click())
