"""The page on models of other families: states and filters in the place of attention, and that of 2014 as a matrix."""

from collections.abc import Callable
from typing import Any

import pytest

from clearhead.api import Model
from clearhead.config.families import read_model_config
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from tests.browser.conftest import VIEWS, Visitor
from tests.decoding.tiny import tokenizer

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]
OTHERS: dict[str, dict[str, Any]] = {
    "lstm": {"shape": "decoder", "family": "recurrent"},
    "gru translator": {"shape": "encoder-decoder", "family": "recurrent", "cell": "gru"},
    "translator of one state": {"shape": "encoder-decoder", "family": "recurrent", "attention": "none"},
    "filters": {"shape": "decoder", "family": "convolutional"},
    "classifier": {"shape": "encoder", "family": "convolutional", "head": "classifier", "classes": 2},
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_view_of_another_family(name: str, visit: Visit) -> None:
    words, refused = tokenizer("word"), list[str]()
    config = read_model_config({"vocabulary": words.size, "d": 8, "context": 32} | OTHERS[name])
    labels = ["bad", "good"] if config.head == "classifier" else None
    model = Model(Bundle(build(config), words, labels=labels))
    visitor = visit(model, name)
    visitor.page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    given = {"text": "the cat sat", "target": "the dog"} if model.translates else {"text": "the cat sat"}
    page: Any = visitor.page
    for view in VIEWS:
        visitor.go(view, **given)
        assert page.locator(".error").count() == 0, f"{view}: {page.locator('main').inner_text()[:300]}"
        assert page.locator("main canvas, main svg.chart, main table, main .chip, main .empty").count() > 0, (
            view
        )
        assert "undefined" not in page.locator("body").inner_text(), view
    assert refused == []
    visitor.go("residual", **given)
    assert page.locator("[data-panel=states] canvas").count() > 0
    assert page.locator("[data-panel=strongest] tbody tr").count() > 0
    if labels is not None:
        visitor.go("classifier", cell="pooled:1", **given)
        derived = page.locator("[data-panel=derivation]")
        pooled = float(model.trace(given["text"])["head.pooled"][0, 1])
        assert float(derived.get_attribute("data-captured")) == pytest.approx(pooled, abs=1e-6)
        assert float(derived.get_attribute("data-again")) == pytest.approx(pooled, abs=1e-6)
