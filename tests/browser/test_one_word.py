"""A text that is one word, such as DNA: letters take the place of words. And what pictures of the views showed."""

from collections.abc import Callable

import pytest

from clearhead.api import Model
from tests.browser.conftest import Visitor
from tests.browser.test_numbers import MODELS, TEXT
from tests.decoding.tiny import classifier

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]
LETTERS = "AATGCA"


def test_letters_change_places_if_the_text_is_one_word(visit: Visit) -> None:
    visitor = visit(Model(classifier("byte")))
    visitor.go("embeddings", text=LETTERS)
    visitor.act(lambda: visitor.page.locator('[data-key="swap"]').click())
    panel = visitor.page.locator('[data-panel="swap"]').inner_text()
    assert "Swap two letters" in panel
    assert "AATCGA" in panel
    same = visitor.page.locator('[data-panel="swap"] tbody tr').last.locator("td").last.inner_text()
    assert same == "the same"  # without positions


def test_removed_letters_are_told_apart_by_their_place(visit: Visit) -> None:
    visitor = visit(Model(classifier("byte")))
    visitor.go("classifier", text=LETTERS)
    rows = visitor.page.locator('[data-panel="words"] tbody tr td:first-child').all_inner_texts()
    assert rows == ["A (1)", "A (2)", "T", "G", "C", "A (6)"]


def test_dots_stand_only_for_omitted_text(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"]())
    visitor.go("text", text=TEXT, q=1)
    assert "…" not in visitor.page.locator("main").inner_text()
    visitor.go("text", text="the cat sat " * 8, q=1)
    shown = visitor.page.locator("main dd", has_text="characters 0").inner_text()
    assert shown.startswith("characters 0 to 3: the")
    assert shown.endswith("…")


def test_the_map_fits_a_small_screen(visit: Visit) -> None:
    visitor = visit(MODELS["encoder-decoder"](), viewport={"width": 800, "height": 900})
    visitor.go("map", text=TEXT)
    wide, inside = visitor.page.evaluate(
        "(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.querySelector('main .scroll'))"
    )
    assert wide <= inside


def test_the_promise_looks_the_same_in_every_view(visit: Visit) -> None:
    visitor = visit(MODELS["encoder"]())
    sizes = []
    for view in ("attention", "heads", "classifier"):
        visitor.go(view, text=TEXT)
        sizes.append(
            visitor.page.evaluate("getComputedStyle(document.querySelector('main .proof')).fontSize")
        )
    assert len(set(sizes)) == 1
