"""Direct logit attribution: its parts add up to the logit, and each is what plain hooks find."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from clearhead.errors import InputError
from clearhead.inspection.attribution.direct import direct_logit_attribution
from clearhead.inspection.attribution.goals import Logit
from clearhead.inspection.capture import intervene, zero
from clearhead.inspection.passes import Inspector
from clearhead.inspection.readings.predictions import predictions
from clearhead.inspection.readings.stream import logit_lens
from clearhead.model_folder import Bundle
from clearhead.models.heads import LanguageHead
from clearhead.models.inputs import Inputs
from tests.decoding.tiny import classifier, language_model, translator
from tests.inspection.attribution.hooks import EXPLAINED, calls_of, decomposed, text_of
from tests.models.cases import CASES, Case

each = pytest.mark.parametrize("case", EXPLAINED.values(), ids=lambda case: case.name)


@each
def test_the_parts_add_up_to_the_logit(case: Case) -> None:
    model, inputs = case.model(), text_of(case)
    for goal in (Logit(3, position=2), Logit(2, against=1)):
        found = direct_logit_attribution(model, inputs, goal)
        with torch.no_grad():
            logit = float(goal(model(inputs)))
        if case.config.soft_cap is None:
            assert abs(found.logit - logit) < 1e-4 * max(1, abs(logit))
        assert abs(found.total - found.logit) < 1e-4 * max(1, abs(logit))
        heads = [
            f"{name}.{head}"
            for name in case.config.attentions()
            for head in case.config.heads(name)
            if case.config.shape != "encoder-decoder" or name.startswith("decoder.")
        ]
        assert [name for name in found.parts if name in set(heads)] == heads


@each
def test_each_part_is_what_plain_hooks_find(case: Case) -> None:
    model, inputs = case.model(), text_of(case)
    if type(model.head) is not LanguageHead:
        pytest.skip("its head is not linear: the sum is proven above")
    goal = Logit(3, against=7, position=2)
    found = direct_logit_attribution(model, inputs, goal)
    W = model.head.table.weight.double()
    direction = (W[3] - W[7]) * model.head.scale
    with torch.no_grad():
        expected = {name: float(X[0, 2] @ direction) for name, X in decomposed(model, inputs).items()}
    if model.head.bias is not None:
        expected["biases"] += float((model.head.bias[3] - model.head.bias[7]).detach())
    assert found.parts == pytest.approx(expected, abs=2e-4)


def test_a_soft_cap_is_not_part_of_it() -> None:
    case = CASES["decoder: soft cap"]
    found = direct_logit_attribution(case.model(), text_of(case), Logit(3))
    with torch.no_grad():
        logit = float(Logit(3)(case.model()(text_of(case))))
    assert 2 * float(torch.tanh(torch.tensor(found.logit / 2))) == pytest.approx(logit, abs=1e-4)


def test_a_muted_head_adds_nothing() -> None:
    case = CASES["decoder: norm_placement post"]
    with intervene(case.model(), zero("decoder.0.self.1")):
        found = direct_logit_attribution(case.model(), text_of(case), Logit(3))
    assert found.parts["decoder.0.self.1"] == 0
    assert found.total == pytest.approx(found.logit, abs=1e-4)


def test_what_cannot_be_explained_is_rejected() -> None:
    case = CASES["decoder: grouped"]
    for name, inputs, goal, message in (
        ("decoder: recurrence gru", text_of(case), Logit(1), "Only a transformer"),
        ("decoder: head none", text_of(case), Logit(1), "no head"),
        ("decoder: grouped", text_of(case), Logit(99), "99 is not an id that this model predicts"),
        ("decoder: grouped", text_of(case), Logit(1, against=-4), "-4 is not an id"),
        ("decoder: grouped", text_of(case), Logit(1, position=5), "5 tokens, so there is no token 5"),
        (
            "decoder: grouped",
            Inputs(torch.zeros(2, 3, dtype=torch.long)),
            Logit(1),
            "2 texts, but one is explained",
        ),
    ):
        with pytest.raises(InputError, match=message):
            direct_logit_attribution(CASES[name].model(), inputs, goal)


def tagger(kind: str) -> Bundle:
    return classifier(kind, labels="each-word")


@pytest.mark.parametrize("make", [language_model, translator, classifier, tagger])
def test_the_lens_is_the_head_on_what_plain_hooks_see(make: Callable[[str], Bundle]) -> None:
    captured = Inspector(make("word")).run("the cat sat on the green table")
    module: Any = captured.module
    source = torch.tensor([captured.ids["encoder"]]) if module.translates else None
    calls = calls_of(module, Inputs(torch.tensor([captured.ids[captured.top]]), source=source))
    stack = getattr(module, captured.top)
    sublayers = [getattr(block, f"add_{name}") for block in stack.blocks for name in stack.sublayers]
    found = logit_lens(captured, 2)[1:]  # the first is that of the embeddings
    assert len(found) == len(sublayers)
    for reading, sublayer in zip(found, sublayers, strict=True):
        with torch.no_grad():
            Z = module.head(stack.norm(calls[sublayer][1].float()))
        P = (Z[0] if Z.ndim == 2 else Z[0, 2]).softmax(-1)
        for one in reading.top:
            assert one.p == pytest.approx(float(P[one.id]), abs=1e-5)


def test_labels_that_may_all_fit_have_a_probability_each_and_no_lens() -> None:
    captured = Inspector(classifier("word", labels="several")).run("the cat sat")
    P = torch.sigmoid(captured.trace["logits"][0])
    assert [one.p for one in predictions(captured)] == pytest.approx(P.tolist(), abs=1e-6)
    assert logit_lens(captured, 1) == []
