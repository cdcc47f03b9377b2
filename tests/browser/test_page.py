"""The page as people meet it: every view, hostile texts, the keyboard, small screens, exports, the saved file."""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import unquote

import pytest
import torch

from clearhead.api import Model
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.browser.conftest import VIEWS, Visitor
from tests.browser.test_numbers import MODELS, SHAPES, TARGET, TEXT, target
from tests.decoding.tiny import language_model, tokenizer

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</textarea><script>alert(1)</script>",
    "\u202eright to left\u202c \u2066isolated\u2069",
    "a\x00b\x1b[31m",
    "x" * 10_000,
    "{{7*7}} ${7*7} javascript:alert(1)",
    "=cmd|' /C calc'!A0",
    "a\u0300\u0301\u0302\u0303 \U0001f468\u200d\U0001f469\u200d\U0001f467",
]


def is_fine(visitor: Visitor) -> bool:
    return visitor.page.locator(".error").count() == 0 and visitor.page.locator("main .panel").count() > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_every_view_works_without_a_text(visit: Visit, shape: str) -> None:
    """With 1 token, where the beginning stands alone; with a text each is visited where its panels are taken out."""
    visitor = visit(MODELS[shape]())
    for view in VIEWS:
        visitor.go(view, text="")
        shown = visitor.page.locator("main").inner_text()
        assert is_fine(visitor) or "There is nothing to translate." in shown, f"{view}: {shown}"


def test_a_model_without_a_head(visit: Visit) -> None:
    words = tokenizer("word")
    config = ModelConfig(shape="encoder", head="none", vocabulary=words.size, d=24, h=3, encoder_blocks=2)
    visitor = visit(Model(Bundle(build(config), words)))
    for view in VIEWS:
        visitor.go(view, text=TEXT)
        assert is_fine(visitor), view


def test_a_text_that_fills_the_context(visit: Visit) -> None:
    """What cannot be done with it is said; every view of 512 tokens is visited with models that are trained."""
    letters = Tokenizer.train(["text"], TokenizerConfig(kind="byte"))
    sizes: dict[str, Any] = {"d": 24, "h": 2, "decoder_blocks": 1, "context": 512, "positions": "learned"}
    visitor = visit(Model(Bundle(build(ModelConfig(vocabulary=letters.size, **sizes)), letters)))
    text = ("The chicken did not cross the road because it was too tired. " * 9)[:511]
    visitor.go("generation", text=text)
    assert "but this model has room for 510 of them" in visitor.page.locator(".error").inner_text()
    visitor.go("text", text=text + "more")
    assert "516 tokens, but 512 is the model's context" in visitor.page.locator(".error").inner_text()


def test_hostile_texts_are_texts(visit: Visit) -> None:
    words = Tokenizer.train([*HOSTILE, "the cat"] * 3, TokenizerConfig(kind="word", minimum_frequency=1))
    labels = [*(text[:300] for text in HOSTILE), "good"]
    sizes: dict[str, Any] = {"d": 16, "h": 2, "encoder_blocks": 1, "context": 20_000}
    config = ModelConfig(
        shape="encoder", head="classifier", classes=len(labels), vocabulary=words.size, **sizes
    )
    visitor = visit(Model(Bundle(build(config), words, labels=labels)))
    long = max(HOSTILE, key=len)
    for hostile in (" ".join(text for text in HOSTILE if text != long), long):
        for view in ("text", "attention", "heads", "links", "residual", "classifier", "embeddings"):
            visitor.go(view, text=f"{hostile} the cat")
            assert is_fine(visitor), visitor.page.locator("main").inner_text()
            assert visitor.page.locator("main img, main script, main iframe").count() == 0
            shown = visitor.page.locator("main").inner_text()
            assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", shown)
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_a_changed_text_is_read_again_and_stands_in_the_address(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"]())
    visitor.go("attention", at="decoder.0.self", head=0)
    box = visitor.page.locator('[data-key="field text"]')
    box.fill("he is old")
    visitor.act(lambda: box.press("Enter"))
    assert "text=he+is+old" in visitor.page.url
    A = MODELS["decoder"]().trace("he is old")["decoder.0.self.weights"][0, 0]
    assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)


def test_a_link_shows_what_was_on_screen(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = visit(model)
    visitor.go("attention", text=TEXT)
    page = visitor.page
    visitor.act(lambda: page.locator('[data-key="head 2"]').click())
    visitor.act(lambda: page.locator('[data-key="choose attention"]').select_option("decoder.1.self"))
    canvas = page.locator('[data-name="softmax"] canvas').first
    box = canvas.bounding_box()
    assert box is not None
    visitor.act(lambda: canvas.click(position={"x": box["width"] * 0.35, "y": box["height"] * 0.8}))
    before, link = page.locator("main").inner_text(), page.url
    derived = page.locator("#side").inner_text()
    page.goto("about:blank")
    page.goto(link)
    visitor.settle()
    assert page.locator("main").inner_text() == before
    assert page.locator("#side").inner_text() == derived
    assert "at=decoder.1.self" in unquote(link)


NONSENSE: list[dict[str, str]] = [
    {"view": "constructor"}, {"view": "text", "q": "abc"},
    {"at": "x.y.z", "head": "99", "q": "1.5", "k": "1e9", "tokens": "-9", "step": "-3"},
    {
        "q": "-5", "k": "abc", "step": "x", "stack": "constructor", "sort": "constructor", "scope": "zzz",
        "mass": "abc", "stage": "zzz", "site": "nope",
    },
]  # fmt: skip


def test_a_link_with_nonsense_shows_something_that_makes_sense(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"]())
    for given in NONSENSE:
        for view in [given["view"]] if "view" in given else VIEWS:
            visitor.go(**({"view": view, "text": TEXT} | given))
            assert is_fine(visitor), f"{view}, {given}"


def test_a_text_that_changes_while_the_page_loads_is_the_one_that_is_drawn(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = visit(model)
    visitor.go("attention", text=TEXT)
    visitor.page.evaluate(
        """() => {
          for (const text of ['he is', 'he is old', 'he is old and', 'he is old and happy'])
            location.hash = `view=attention&text=${text}&head=1`;
          location.hash = 'view=links&text=he is old and happy&head=1';
          location.hash = 'view=attention&text=he is old and happy&head=1';
        }"""
    )
    visitor.page.wait_for_function("() => document.querySelector('.matrix')?.drawing.rows === 6")
    visitor.settle()
    A = model.trace("he is old and happy")["decoder.0.self.weights"][0, 1]
    assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)
    visitor.act(visitor.page.go_back)
    visitor.act(visitor.page.go_forward)
    assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-6)


def test_a_text_that_is_too_long_is_refused_without_repeating_it(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"]())
    visitor.go("text", text="the cat " * 3000)
    said = visitor.page.locator(".error").inner_text()
    assert "at most 20000 characters" in said
    assert len(said) < 1000


def test_a_walk_through_all_views_by_keyboard(visit: Visit) -> None:
    visitor = visit(MODELS["encoder-decoder"]())
    visitor.go("text", text=TEXT, target=TARGET)
    page = visitor.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the view"
    before = page.url
    page.keyboard.press("Enter")
    assert (page.evaluate("document.activeElement.id"), page.url) == ("main", before)
    page.locator('[data-key="view text"]').focus()
    for view in VIEWS[1:]:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset.key") == f"view {view}":
                break
        visitor.act(lambda: page.keyboard.press("Enter"))
        assert page.locator('#views [aria-current="page"]').get_attribute("data-key") == f"view {view}"
        page.evaluate("document.activeElement.blur(); window.getSelection().removeAllRanges()")
        reached = set()
        page.locator(f'[data-key="view {view}"]').focus()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.closest('main') !== null"))
            if True in reached:
                break
        assert True in reached, view
        page.locator('[data-key="view text"]').focus()


def test_arrow_keys_move_through_a_matrix(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"]())
    visitor.go("attention", text=TEXT, at="decoder.0.self", head=0, q=5, k=3)
    page = visitor.page
    page.locator('[data-key="matrix softmax"]').focus()
    visitor.act(lambda: page.keyboard.press("ArrowUp"))
    visitor.act(lambda: page.keyboard.press("ArrowLeft"))
    assert {"q=4", "k=2"} <= set(page.url.partition("#")[2].split("&"))
    assert page.evaluate("document.activeElement.dataset.key") == "matrix softmax"
    visitor.act(lambda: page.keyboard.press("Enter"))
    A = MODELS["decoder"]().trace(TEXT)["decoder.0.self.weights"][0, 0, 4, 2]
    captured = page.locator("[data-panel=derivation]").get_attribute("data-captured")
    assert float(captured or "nan") == pytest.approx(float(A))
    visitor.act(lambda: page.keyboard.press("Escape"))
    assert page.locator("[data-panel=derivation]").count() == 0


# Every view once, where a model has it, and those that show another shape otherwise.
SHORT = "the cat sat on"  # as long as the cell that is looked at asks for
AUDITED = {
    "encoder-decoder": VIEWS[:-1],
    "encoder": ["classifier", "heads"],
    "decoder": ["translation", "next"],
}


@pytest.mark.parametrize("shape", list(AUDITED))
def test_an_audit_finds_nothing_serious(visit: Visit, shape: str) -> None:
    """Of a short text: the auditor looks at each cell of each matrix, and all of a matrix are alike."""
    auditor = import_module("axe_playwright_python.sync_playwright").Axe()
    model = MODELS[shape]()
    visitor = visit(model, alone=True, color_scheme="light", bypass_csp=True)  # the auditor is a script
    for view in AUDITED[shape]:
        more = {
            "attention": {"cell": "weights:3:1", "off": "scaling"},
            "embeddings": {"swap": "1,2"},
        }.get(view, {})
        given = {"text": SHORT if view != "text" else f"{SHORT} xyzzy", **target(model)}
        visitor.go(view, **given, **more)
        for options in ({}, {"runOnly": ["color-contrast"]}):  # the other theme changes nothing else
            # What is in order is not described, which would take longer than to find it.
            only = {**options, "resultTypes": ["violations"]}
            found = auditor.run(visitor.page, options=only).response["violations"]
            serious = [
                f"{entry['id']}: {entry['help']} {[node['html'][:160] for node in entry['nodes'][:3]]}"
                for entry in found
                if entry["impact"] in ("serious", "critical")
            ]
            assert serious == [], f"{shape}, {view}, {options}"
            visitor.act(lambda: visitor.page.get_by_role("button", name="Light or dark").click())


def test_a_service_that_is_gone_is_said(visit: Visit) -> None:
    visitor = visit(Model(language_model("word")), alone=True)
    visitor.go("attention", text=TEXT)
    visitor.page.route("**/api/passes", lambda route: route.abort())
    visitor.act(lambda: visitor.page.evaluate("location.hash = 'view=attention&text=another'"))
    assert "Is `clearhead explore` still running?" in visitor.page.locator(".error").inner_text()
    visitor.faults = [fault for fault in visitor.faults if "ERR_FAILED" not in fault]


def test_a_pass_that_expired_is_asked_for_again(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = visit(Model(language_model("word")), alone=True)
    visitor.go("attention", text=TEXT)
    seen: list[str] = []

    def expire(route: Any) -> None:
        seen.append(route.request.url)
        if len(seen) == 1:
            route.fulfill(
                status=404, content_type="application/json", body='{"error": "This pass is no longer kept."}'
            )
        else:
            route.continue_()

    visitor.page.route("**/heads?*", expire)
    visitor.go("heads", text=TEXT)
    assert is_fine(visitor)
    assert len(seen) == 2
    visitor.faults = [fault for fault in visitor.faults if "404" not in fault]
