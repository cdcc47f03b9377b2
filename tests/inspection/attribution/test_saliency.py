"""Saliency: gradients are those of plain PyTorch, integrated ones add up, and a missing token is a missing token."""

from itertools import islice
from statistics import median

import pytest
import torch
from torch import Tensor

from clearhead.api import load
from clearhead.corpora import CORPORA
from clearhead.errors import DataError, InputError
from clearhead.examples import Pair
from clearhead.inspection.attribution.goals import Logit
from clearhead.inspection.attribution.saliency import (
    gradient_times_input,
    integrated_gradients,
    leave_one_out,
)
from clearhead.inspection.attribution.strongest import strongest
from clearhead.models.inputs import Inputs
from tests.inspection.attribution.hooks import EXPLAINED, calls_of, part_named, text_of
from tests.models.cases import CASES, Case, some_ids, some_source

GOAL = Logit(3, against=2)
KINDS = (
    "norm ",
    "encoder_norm",
    "norm_placement",
    "own tables",
    "shared",
    "own head",
    "soft cap",
    "pool mean",
)
SOME = [case for case in EXPLAINED.values() if case.kind.startswith(KINDS)]
each = pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)


@each
def test_gradients_are_those_of_the_embeddings(case: Case) -> None:
    model, inputs = case.model(), text_of(case)
    found = gradient_times_input(model, inputs, GOAL)
    outs: list[Tensor] = []

    def keep(module: object, args: object, X: Tensor) -> Tensor:
        outs.append(X.requires_grad_())
        return X

    tables = {
        stack.tokens for stack in (getattr(model, name, None) for name in ("encoder", "decoder")) if stack
    }
    handles = [table.register_forward_hook(keep) for table in tables]
    value = GOAL(model(inputs))
    grads = torch.autograd.grad(value.sum(), outs)
    for handle in handles:
        handle.remove()
    expected = [(X * g).sum(-1)[0] for X, g in zip(outs, grads, strict=True)]  # the source is read first
    assert torch.allclose(found.tokens, expected[-1], atol=1e-4)
    if case.has_source:
        assert found.source is not None
        assert torch.allclose(found.source, expected[0], atol=1e-4)
    assert found.value == pytest.approx(float(value.detach()), abs=1e-4)
    assert found.error is None


def test_integrated_gradients_add_up() -> None:
    case = CASES["encoder-decoder: shared"]
    texts = [text_of(case, seed) for seed in range(10)]
    found = [integrated_gradients(case.model(), text, Logit(1, against=2)) for text in texts]
    assert median(one.error or 0 for one in found) < 0.01
    for one in found:
        assert (one.advice == "") == (one.error is not None and one.error <= 0.01)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("name", "corpus"), [("builtin:language-model", "lines"), ("builtin:translator", "lecture")]
)
def test_integrated_gradients_of_trained_models_add_up(name: str, corpus: str) -> None:
    """The likeliest last token of 50 texts that no model was trained on; 64 steps, which is the default."""
    model, errors = load(name), []
    for example in islice(CORPORA[corpus].examples("test"), 50):
        texts = (example.source, example.target) if isinstance(example, Pair) else (example.text,)
        inputs = model.inputs(*texts)
        with torch.no_grad():
            likeliest = int(model.module(inputs)[0, -1].argmax())
        found = integrated_gradients(model, inputs, Logit(likeliest))
        assert found.error is not None
        assert ("take more steps" in found.advice) == (found.error > 0.01)
        errors.append(found.error)
    assert median(errors) < 0.01


def test_integrated_gradients_are_the_mean_over_the_way() -> None:
    case = CASES["encoder-decoder: norm none"]  # smooth, so that even steps come near too
    model, inputs = case.model(), text_of(case)
    found = integrated_gradients(model, inputs, GOAL, baseline=4)
    X, S = model.decoder.tokens.weight[inputs.tokens], model.encoder.tokens.weight[inputs.source]  # type: ignore[union-attr,index]
    X0, S0 = model.decoder.tokens.weight[4].expand_as(X), model.encoder.tokens.weight[4].expand_as(S)  # type: ignore[union-attr,index]
    at = ((torch.arange(400) + 0.5) / 400)[:, None, None]
    points = [(X0 + at * (X - X0)).detach().requires_grad_(), (S0 + at * (S - S0)).detach().requires_grad_()]
    grads = torch.autograd.grad(GOAL(model(Inputs(points[0], source=points[1]))).sum(), points)
    assert torch.allclose(found.tokens, ((X - X0)[0] * grads[0].mean(0)).sum(-1), atol=5e-3)
    assert found.source is not None
    assert torch.allclose(found.source, ((S - S0)[0] * grads[1].mean(0)).sum(-1), atol=5e-3)


def test_one_step_is_too_few_and_says_so() -> None:
    case = CASES["decoder: norm layer"]
    found = integrated_gradients(case.model(), text_of(case), GOAL, steps=1)
    assert "take more steps, or another baseline" in found.advice
    with pytest.raises(InputError, match="steps = 0"):
        integrated_gradients(case.model(), text_of(case), GOAL, steps=0)
    with pytest.raises(InputError, match="77 is not an id"):
        integrated_gradients(case.model(), text_of(case), GOAL, baseline=77)


@pytest.mark.parametrize("name", ["decoder: norm layer", "encoder: pool mean", "encoder-decoder: shared"])
def test_leaving_one_out_is_reading_the_rest(name: str) -> None:
    case = CASES[name]
    model, inputs, goal = case.model(), text_of(case), Logit(1, position=2)
    found = leave_one_out(model, inputs, goal)
    for token in range(5):
        rest = torch.cat([inputs.tokens[:, :token], inputs.tokens[:, token + 1 :]], 1)
        with torch.no_grad():
            Z = model(inputs._replace(tokens=rest))
        after = Z[0, 1] if Z.ndim == 2 else Z[0, 2 if token > 2 else 1, 1]
        assert float(found.tokens[token]) == pytest.approx(found.value - float(after), abs=1e-4)
    if inputs.source is not None and found.source is not None:
        with torch.no_grad():
            Z = model(inputs._replace(source=inputs.source[:, 1:]))
        assert float(found.source[0]) == pytest.approx(found.value - float(Z[0, 2, 1]), abs=1e-4)


def test_the_only_token_cannot_be_left_out() -> None:
    case = CASES["decoder: norm layer"]
    found = leave_one_out(case.model(), Inputs(torch.tensor([[4]])), Logit(1))
    assert found.tokens.isnan().all()


@pytest.mark.parametrize(
    "place", ["encoder.1.ffn.4", "decoder.0.ffn.2", "decoder.1.cross.2", "encoder.0.self.1"]
)
def test_the_strongest_texts_are_those_of_a_full_search(place: str) -> None:
    case = CASES["encoder-decoder: grouped"]
    model = case.model()
    batches = [Inputs(some_ids(2, 5, seed=s), source=some_source(case, seed=s + 1)) for s in range(0, 12, 2)]
    batches = [
        one._replace(counts=torch.tensor([5, 2]), source_counts=torch.tensor([3, 7])) for one in batches
    ]
    found = strongest(model, batches, place, count=4)
    stack, block, sublayer, number = place.split(".")
    part = part_named(model, f"{stack}.{block}.{sublayer}")
    rows = []
    for index in range(12):
        one, row = batches[index // 2], index % 2
        n, m = int(one.counts[row]), int(one.source_counts[row])  # type: ignore[index]
        alone = Inputs(one.tokens[row : row + 1, :n], source=one.source[row : row + 1, :m])  # type: ignore[index]
        last = part.W_2 if sublayer == "ffn" else part.W_o
        H, W = calls_of(model, alone)[last][0][0].float(), last.weight.detach()
        k = int(number)
        strength = (
            H[:, k]
            if sublayer == "ffn"
            else (H[:, 4 * k : 4 * k + 4] @ W[:, 4 * k : 4 * k + 4].mT).norm(dim=1)
        )
        ids = alone.source if stack == "encoder" else alone.tokens
        rows.append((float(strength.max()), index, int(strength.argmax()), tuple(ids[0].tolist())))  # type: ignore[index]
    expected = sorted(rows, reverse=True)[:4]
    assert [one.value for one in found] == pytest.approx([row[0] for row in expected], abs=1e-4)
    assert [(one.text, one.position, one.ids) for one in found] == [row[1:] for row in expected]


def test_a_search_needs_texts_and_a_unit_or_a_head() -> None:
    model = CASES["decoder: grouped"].model()
    with pytest.raises(DataError, match="no texts to search"):
        strongest(model, [], "decoder.0.ffn.1")
    with pytest.raises(InputError, match="neither a unit nor a head"):
        strongest(model, [text_of(CASES["decoder: grouped"])], "decoder.0.ffn")
