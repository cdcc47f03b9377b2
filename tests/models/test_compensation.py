"""Rounding that makes up for its errors: nearer outputs, the same scales, nearest numbers where nothing is known."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from clearhead.models import compensation
from clearhead.models.compensation import compensated, damped, round_for_texts, second_moments
from clearhead.models.inputs import Inputs
from clearhead.models.int8 import from_int8, matrices, round_weights, to_int8
from tests.models.cases import CASES, some_ids

WRITERS = [name for name, case in CASES.items() if case.is_writer and not case.has_source and case.is_sampled]


def some_moments(n: int, k: int) -> tuple[Tensor, Tensor]:
    """A matrix (n, k), and the moments of inputs that fill fewer than k dimensions."""
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(400, k // 4, generator=generator) @ torch.randn(k // 4, k, generator=generator)
    return torch.randn(n, k, generator=generator), damped(X.T @ X / len(X), 0.01)


def error(W: Tensor, rounded: Tensor, H: Tensor) -> float:
    """tr (W − Ŵ) H (W − Ŵ)ᵀ."""
    return float((((W - rounded) @ H) * (W - rounded)).sum())


@pytest.mark.parametrize(("n", "k"), [(7, 150), (70, 64), (3, 1)])
def test_outputs_are_nearer_and_scales_are_found_again(n: int, k: int) -> None:
    W, H = some_moments(n, max(k, 4))
    W, H = W[:, :k], H[:k, :k]
    q, s = compensated(W, H)
    rounded = from_int8(q, s)
    assert error(W, rounded, H) <= error(W, from_int8(*to_int8(W)), H) * (0.2 if k > 60 else 1)
    again, scales = to_int8(rounded)
    assert torch.equal(again, q)
    assert torch.equal(scales, s)


def test_inputs_that_are_all_alike_give_the_nearest_numbers() -> None:
    W = some_moments(7, 40)[0]
    assert torch.equal(compensated(W, torch.eye(40))[0], to_int8(W)[0])


def test_rows_and_columns_may_be_rounded_in_any_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    W, H = some_moments(11, 50)
    whole = from_int8(*compensated(W, H))
    monkeypatch.setattr(compensation, "ROWS", 4)
    monkeypatch.setattr(compensation, "COLUMNS", 7)
    parts = from_int8(*compensated(W, H))
    assert error(W, parts, H) == pytest.approx(error(W, whole, H), rel=0.05)


@pytest.mark.parametrize("name", WRITERS)
def test_a_rounded_model_does_not_change_again(name: str) -> None:
    model, texts = deepcopy(CASES[name].model()), some_ids(3, 5)
    round_for_texts(model, texts)
    before = [weight.clone() for weight in model.parameters()]
    round_weights(model)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_what_multiplies_nothing_is_rounded_to_the_nearest() -> None:
    case = CASES["decoder: scaled_dot learned"]
    model, nearest = deepcopy(case.model()), deepcopy(case.model())
    texts = some_ids(3, 5)
    moments = second_moments(model, texts, lambda stage, detail: None)
    assert matrices(model) - moments.keys() == {"decoder.positions.weight"}
    round_for_texts(model, texts)
    round_weights(nearest)
    assert torch.equal(*(m.get_parameter("decoder.positions.weight") for m in (model, nearest)))


@torch.no_grad()
def test_moments_are_those_of_the_inputs() -> None:
    model, texts = CASES["decoder: own head"].model(), some_ids(4, 5)
    moments = second_moments(model, texts, lambda stage, detail: None)
    X = model.vectors(Inputs(texts)).flatten(0, 1)
    torch.testing.assert_close(moments["head.table.weight"], X.T @ X / len(X))
    assert torch.equal(
        moments["decoder.blocks.0.self.W_q.weight"], moments["decoder.blocks.0.self.W_v.weight"]
    )
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_wide_inputs_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = CASES["decoder: own head"].model()
    monkeypatch.setattr(compensation, "WIDEST", 1)
    assert second_moments(model, some_ids(2, 3), lambda stage, detail: None) == {}
