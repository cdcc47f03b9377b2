"""Attribution and Two texts: what a part adds, and what carries a difference, computed live; by plain PyTorch again."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from clearhead.api import Model
from clearhead.models.inputs import Inputs
from tests.browser.conftest import Visitor, selection
from tests.browser.test_derivations import OTHER
from tests.browser.test_numbers import KINDS, MODELS, SHAPES, TARGET, TEXT, derived, open_page
from tests.decoding.tiny import random_model
from tests.inspection.attribution.hooks import changed_output, part_named

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]


def inputs_of(model: Model, text: str) -> Inputs:
    return model.inputs(text, TARGET if model.translates else None)


def patched(model: Model, place: str, token: int, read: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """The score of one cell by hooks: the sublayer's output of the clean text, at one token, in the corrupted one."""
    kept: list[torch.Tensor] = []

    def keep(X: torch.Tensor) -> torch.Tensor:
        kept.append(X.clone())
        return X

    def put(X: torch.Tensor) -> torch.Tensor:
        X = X.clone()
        X[:, token] = kept[0][:, token]
        return X

    part, clean, corrupted = part_named(model.module, place), inputs_of(model, TEXT), inputs_of(model, OTHER)
    with torch.no_grad():
        with changed_output(part, keep):
            high = read(model.module(clean))
        low = read(model.module(corrupted))
        with changed_output(part, put):
            now = read(model.module(corrupted))
    return float((now - low) / (high - low))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_map_of_two_texts_is_what_hooks_give(visit: Visit, shape: str) -> None:
    model = MODELS[shape]()
    visitor = open_page(visit, model, "contrast", q=3, other=OTHER)
    visitor.page.wait_for_selector("[data-panel=patching][data-done=true]")
    i, id, against = goal_on(visitor)

    def read(Z: torch.Tensor) -> torch.Tensor:
        z = Z[0] if Z.ndim == 2 else Z[0, i]
        return z[id] if against is None else z[id] - z[against]

    stack = model.config.shape.split("-")[0]
    values = visitor.matrix(f"patching {stack}")
    n = len(model.reader.ids(TEXT))
    assert values[:n] == pytest.approx([float(t == 2) for t in range(n)], abs=1e-3)  # where they differ
    for row, place in ((1, f"{stack}.0.self"), (2, f"{stack}.0.ffn")):
        for token in (2, 3):
            assert values[row * n + token] == pytest.approx(patched(model, place, token, read), abs=2e-3)
    cell = f"patch:{stack}.0.ffn:2:{i}:{id}:{'' if against is None else against}"
    visitor.go(
        "contrast", text=TEXT, q=3, other=OTHER, cell=cell, **({"target": TARGET} if model.translates else {})
    )
    captured, again = derived(visitor)
    assert captured == pytest.approx(values[2 * n + 2], abs=1e-6)
    assert again == pytest.approx(captured, abs=1e-4)


def goal_on(visitor: Visitor) -> tuple[int, int, int | None]:
    """What is explained on screen."""
    cell = visitor.page.locator('[data-key^="gap:clean"]').get_attribute("data-key") or ""
    i, id, against = cell.split(":")[2:]
    return int(i), int(id), int(against) if against else None


@pytest.mark.parametrize("shape", ["decoder", "encoder-decoder"])
def test_two_texts_are_compared_where_their_predictions_differ(visit: Visit, shape: str) -> None:
    """A translation from the start; of a text, which ends with what is asked, by a button."""
    model = MODELS[shape]()
    with torch.no_grad():
        P, Q = (model.module(inputs_of(model, text))[0].double().log_softmax(-1) for text in (TEXT, OTHER))
    differs = int((P.exp() * (P - Q)).sum(-1).argmax())
    visitor = open_page(visit, model, "contrast", other=OTHER)
    if shape == "decoder":
        assert goal_on(visitor)[0] == len(P) - 1 != differs
        visitor.act(lambda: visitor.page.click('[data-key="where they differ"]'))
    assert goal_on(visitor)[0] == differs
    assert visitor.page.locator('[data-key="where they differ"]').count() == 0


def test_a_projector_shows_the_map_with_its_numbers(visit: Visit) -> None:
    visitor = visit(MODELS["encoder-decoder"](), alone=True, viewport={"width": 1280, "height": 720})
    visitor.page.add_init_script("localStorage.setItem('size', '1.5')")
    visitor.go("contrast", text=TEXT, target=TARGET, other=OTHER)
    visitor.page.wait_for_selector("[data-panel=patching][data-done=true]")
    boxes = [one.bounding_box() for one in visitor.page.locator("[data-panel=patching] .room canvas").all()]
    assert [box is not None and box["height"] > 170 for box in boxes] == [True, True]
    panel = visitor.page.locator("[data-panel=patching]").bounding_box()
    assert panel is not None
    assert panel["height"] < 720 - visitor.page.evaluate("document.getElementById('frame').offsetHeight")


def test_bars_of_both_signs_start_at_one_zero(visit: Visit) -> None:
    visitor = open_page(visit, MODELS["decoder"](), "attribution", q=3)
    ends = visitor.page.locator("[data-panel=parts] .track").evaluate_all(
        "all => all.map(one => one.classList.contains('k') ? one.firstChild.getBoundingClientRect().right"
        " : one.firstChild.getBoundingClientRect().left)"
    )
    values = visitor.page.locator("[data-panel=parts] tbody tr:not(.on) .n").evaluate_all(
        "all => all.map(one => Number(one.dataset.value))"
    )
    assert len(ends) == len(values)  # the sum has no bar: it is on another scale
    assert min(values) < 0 < max(values)
    assert max(ends) - min(ends) < 1
    assert [abs(value) for value in values] == sorted((abs(value) for value in values), reverse=True)
    assert visitor.page.evaluate(
        "async () => [-0.001, -0.006].map((await import('/page/parts/matrix.js')).short)"
    ) == ["0.00", "−0.01"]


def test_many_tokens_are_a_coloured_text(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"]())
    visitor.go("attribution", text=" ".join([TEXT] * 4), q=25)
    words = visitor.page.locator("[data-panel=tokens] .sentence .word")
    assert words.count() == 26  # none after the one that is asked about
    visitor.act(words.nth(20).locator(".n").click)
    captured, again = derived(visitor)
    assert again == pytest.approx(captured, abs=1e-4)


def test_the_map_can_be_cancelled_and_continued(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"](), alone=True)

    def slowly(route: Any) -> None:
        visitor.page.wait_for_timeout(60)
        route.continue_()

    visitor.page.route("**/patching?*", slowly)
    visitor.go("contrast", text=TEXT, q=3, other=OTHER, parts="heads")
    visitor.page.click('[data-key="cancel"]')
    visitor.page.wait_for_selector("[data-panel=patching][data-done=false]")
    said = visitor.page.locator("[data-name=progress]").inner_text()
    assert "Cancelled after" in said
    assert int(said.split()[2]) < 6
    visitor.page.click('[data-key="go on"]')
    visitor.page.wait_for_selector("[data-panel=patching][data-done=true]")
    assert not any(value != value for value in visitor.matrix("patching decoder"))


def test_texts_that_do_not_line_up_are_said_beside_their_field(visit: Visit) -> None:
    visitor = open_page(visit, MODELS["decoder"](), "contrast", other="the dog sat")
    assert "do not line up: one text has 8, the other 4" in visitor.page.locator("[role=alert]").inner_text()
    field = visitor.page.locator('[data-key="field other"]')
    field.fill(OTHER)
    visitor.act(lambda: field.press("Enter"))
    assert visitor.page.locator("[data-panel=patching]").count() == 1
    assert "other=the+dog" in visitor.page.url


def test_a_head_is_one_click_away_and_an_answer_is_chosen(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "attribution", q=3, goal="3:4:9")
    assert visitor.page.locator('[data-key="choose answer"]').input_value() == "4"
    total = visitor.number('[data-key="attributed:3:4:9"]')
    Z = model.trace(TEXT)["logits"][0, 3]
    assert total == pytest.approx(float(Z[4] - Z[9]), abs=1e-4)
    bars = visitor.page.locator("[data-panel=parts] tbody tr:not(.on) .n").evaluate_all(
        "all => all.map(one => Number(one.dataset.value))"
    )
    assert sum(bars) == pytest.approx(total, abs=1e-4)
    visitor.act(lambda: visitor.page.click('[data-key="go decoder.1.self.2"]'))
    chosen = selection(visitor.page.url)
    assert (chosen["view"], chosen["at"], chosen["head"]) == ("attention", "decoder.1.self", "2")


@pytest.mark.parametrize(
    "kind",
    [
        "layer norm, biases, cosine",
        pytest.param("post-norm, sinusoids, pruned, own widths", marks=pytest.mark.prove),
        pytest.param("alibi, gated, additive, norms on both sides", marks=pytest.mark.prove),
    ],
)
def test_what_a_part_adds_is_derived_behind_every_norm(visit: Visit, kind: str) -> None:
    visitor = visit(Model(random_model("decoder", "word", 3, **KINDS[kind])))
    visitor.go("attribution", text=TEXT, q=5)
    keys = visitor.page.locator('[data-panel=parts] [data-key^="adds:"]').evaluate_all(
        "all => all.map(one => one.dataset.key)"
    )
    for key in [keys[0], keys[1], keys[len(keys) // 2], keys[-2], keys[-1]]:
        visitor.go("attribution", text=TEXT, q=5, cell=key)
        captured, again = derived(visitor)
        assert again == pytest.approx(captured, rel=1e-3, abs=1e-5), key
