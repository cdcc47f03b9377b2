"""Optimizers take the steps of their formulas, and every weight belongs to exactly one of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.config.training import TrainingConfig
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.training.loop.optimizers import (
    NEWTON_SCHULZ,
    ROUNDS,
    Muon,
    hidden_matrices,
    make_optimizers,
    orthogonal,
    set_precision,
    set_rate,
)
from tests.models.cases import CASES, Case, configure
from tests.models.test_laws import cases

sizes = st.integers(1, 9)


def training(**settings: Any) -> TrainingConfig:
    return TrainingConfig.model_validate(settings)


def give_gradients(weights: list[nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator)


def twice(make: Callable[[], Model]) -> tuple[list[nn.Parameter], list[nn.Parameter], Model]:
    """The weights of two equal models, and the first of them."""
    first, second = make(), make()
    return list(first.parameters()), list(second.parameters()), first


# Muon.


@given(sizes, sizes, st.integers(0, 1000), st.floats(0.001, 1000))
def test_singular_values_go_to_one_and_directions_stay(
    rows: int, columns: int, seed: int, size: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    U, _, Vt = torch.linalg.svd(
        torch.randn(rows, columns, generator=generator, dtype=torch.double), full_matrices=False
    )
    S = size * (0.1 + 0.9 * torch.rand(len(U.T), generator=generator, dtype=torch.double))
    found = orthogonal((U * S @ Vt)[None].float())[0].double()
    D = U.T @ found @ Vt.T  # U and V are kept, so this is diagonal
    assert torch.allclose(D, D.diagonal().diag(), atol=1e-3)
    assert (D.diagonal() > 0.6).all()
    assert (D.diagonal() < 1.3).all()


def test_a_gradient_of_zero_moves_nothing() -> None:
    assert not orthogonal(torch.zeros(2, 3, 4)).any()


def test_orthogonal_in_bfloat16_is_the_same_within_its_rounding() -> None:
    torch.manual_seed(1)
    G = torch.randn(3, 8, 20)
    U = orthogonal(G, torch.bfloat16)
    assert U.dtype == G.dtype
    assert not torch.equal(U, orthogonal(G))
    assert torch.allclose(U, orthogonal(G), atol=0.05)


def test_the_format_can_change_and_what_is_kept_stays() -> None:
    weights = [nn.Parameter(torch.randn(4, 6))]
    optimizer = Muon(weights, lr=0.1, momentum=0.9, weight_decay=0.0)
    give_gradients(weights, 0)
    optimizer.step()
    kept = optimizer.state[weights[0]]["average"]
    set_precision([optimizer], "bfloat16")
    assert optimizer.dtype == torch.bfloat16
    optimizer.step()
    assert optimizer.state[weights[0]]["average"] is kept
    assert kept.dtype == torch.float32


def plain_orthogonal(G: Tensor) -> Tensor:
    """Newton-Schulz on one matrix, as the formula stands."""
    a, b, c = NEWTON_SCHULZ
    X = G / (G.norm() + 1e-7)
    for _ in range(ROUNDS):
        A = X @ X.T
        X = a * X + b * (A @ X) + c * (A @ A @ X)
    return X


@settings(max_examples=20)
@given(
    st.lists(st.tuples(sizes, sizes), min_size=1, max_size=5), st.floats(0, 0.99), st.floats(0, 0.5),
    st.integers(1, 4),
)  # fmt: skip
def test_muon_is_a_loop_over_matrices(
    shapes: list[tuple[int, int]], momentum: float, decay: float, steps: int
) -> None:
    """Matrices of one shape are worked on together; that changes nothing."""
    torch.manual_seed(1)
    weights = [nn.Parameter(torch.randn(shape)) for shape in [*shapes, shapes[0]]]
    expected = [weight.detach().double().clone() for weight in weights]
    averages = [torch.zeros_like(W) for W in expected]
    optimizer = Muon(weights, lr=0.05, momentum=momentum, weight_decay=decay)
    for number in range(steps):
        give_gradients(weights, number)
        optimizer.step()
        for i, (W, weight) in enumerate(zip(expected, weights, strict=True)):
            assert weight.grad is not None
            G = weight.grad.double()
            averages[i] = momentum * averages[i] + (1 - momentum) * G
            push = (1 - momentum) * G + momentum * averages[i]
            is_tall = W.shape[0] > W.shape[1]
            U = plain_orthogonal(push.T).T if is_tall else plain_orthogonal(push)
            rate = 0.05 * max(1.0, W.shape[0] / W.shape[1]) ** 0.5
            expected[i] = W * (1 - 0.05 * decay) - rate * U
    for weight, W in zip(weights, expected, strict=True):
        assert torch.allclose(weight.detach().double(), W, atol=1e-4)


def test_muon_leaves_alone_what_has_no_gradient() -> None:
    first, second = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(3, 2))
    first.grad = torch.ones(3, 2)
    Muon([first, second], lr=0.1, momentum=0.9, weight_decay=0.1).step()
    assert (first != 1).all()
    assert (second == 1).all()


# AdamW.


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_is_the_one_of_torch_and_the_formula(decay: float) -> None:
    mine, theirs, model = twice(lambda: build(configure("decoder", {"norm": "layer", "head_bias": True})))
    settings = training(optimizer="adamw", weight_decay=decay, betas=(0.8, 0.9), epsilon=1e-6)
    (ours,) = make_optimizers(model, settings)
    reference = torch.optim.AdamW(
        [
            {"params": [weight], "weight_decay": decay if weight.ndim >= 2 else 0.0, "fused": False}
            for weight in theirs
        ],
        lr=settings.learning_rate, betas=(0.8, 0.9), eps=1e-6,
    )  # fmt: skip
    W = mine[0].detach().double().clone()
    m, v = torch.zeros_like(W), torch.zeros_like(W)
    for number in range(1, 5):
        for weights in (mine, theirs):
            give_gradients(weights, number)
        ours.step()
        reference.step()
        assert mine[0].grad is not None
        G, rate = mine[0].grad.double(), settings.learning_rate
        m, v = 0.8 * m + 0.2 * G, 0.9 * v + 0.1 * G * G
        W = W * (1 - rate * decay) - rate * (m / (1 - 0.8**number)) / ((v / (1 - 0.9**number)).sqrt() + 1e-6)
    for one, other in zip(mine, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert torch.allclose(mine[0].detach().double(), W, atol=1e-6)


# Groups.


@cases(is_crossed=False, is_double=False)
@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_every_weight_is_in_exactly_one_group(case: Case, kind: str) -> None:
    model = case.model()
    found = make_optimizers(model, training(optimizer=kind, weight_decay=0.1))
    groups = [group for optimizer in found for group in optimizer.param_groups]
    held = [id(weight) for group in groups for weight in group["params"]]
    assert sorted(held) == sorted(id(weight) for weight in model.parameters())
    for group in groups:
        assert group["params"]
        for weight in group["params"]:
            assert group["weight_decay"] == (0.1 if weight.ndim >= 2 else 0.0)
    in_muon = [
        weight for each in found if isinstance(each, Muon) for weight in each.param_groups[0]["params"]
    ]
    assert [id(weight) for weight in in_muon] == [
        id(weight) for weight in (hidden_matrices(model) if kind == "muon" else [])
    ]
    names = {id(weight): name for name, weight in model.named_parameters()}
    for weight in in_muon:
        assert weight.ndim == 2
        assert ".blocks." in names[id(weight)]


def test_hidden_matrices_are_those_of_every_stack() -> None:
    model = CASES["encoder-decoder: biases"].model()
    names = {id(weight): name for name, weight in model.named_parameters()}
    found = {names[id(weight)] for weight in hidden_matrices(model)}
    expected = {
        name for name, weight in model.named_parameters() if ".blocks." in name and name.endswith("weight")
        and weight.ndim == 2
    }  # fmt: skip
    assert found == expected
    assert {name.split(".")[0] for name in found} == {"encoder", "decoder"}
    assert any(".cross." in name for name in found)


def test_what_does_not_learn_is_left_out() -> None:
    model = build(configure("decoder", {}))
    for weight in model.get_submodule("decoder.blocks.0").parameters():
        weight.requires_grad_(False)
    found = make_optimizers(model, training())
    held = {id(weight) for each in found for group in each.param_groups for weight in group["params"]}
    assert held == {id(weight) for weight in model.parameters() if weight.requires_grad}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_rates_are_shares_of_the_largest_whatever_came_before(shares: list[float]) -> None:
    found = make_optimizers(
        CASES["decoder: biases"].model(), training(learning_rate=3e-3, matrix_rate=0.07, weight_decay=0.1)
    )
    for share in shares:
        set_rate(found, share)
        for optimizer in found:
            largest = 0.07 if isinstance(optimizer, Muon) else 3e-3
            assert all(group["lr"] == largest * share for group in optimizer.param_groups)


# Rates by depth.


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("shape", ["decoder", "encoder", "encoder-decoder"])
def test_each_block_has_the_rate_of_the_one_above_times_the_decay(optimizer: str, shape: str) -> None:
    blocks = {"encoder": 2, "decoder": 3}
    sizes = {"d": 8, "h": 2, "context": 7} | {f"{stack}_blocks": count for stack, count in blocks.items()}
    kinds = {"shape": shape, "tied": False, "shared": False, "positions": "learned"}
    model = build(ModelConfig.model_validate(kinds | sizes))
    config = training(optimizer=optimizer, layer_decay=0.5, learning_rate=0.08, matrix_rate=0.8)
    names = {id(weight): name for name, weight in model.named_parameters()}
    found: dict[str, float] = {}
    for one in make_optimizers(model, config):
        largest = config.matrix_rate if isinstance(one, Muon) else config.learning_rate
        for group in one.param_groups:
            assert group["largest_rate"] == group["lr"]
            found |= {names[id(weight)]: group["lr"] / largest for weight in group["params"]}
    assert found.keys() == set(names.values())  # each in one group
    for name, share in found.items():
        stack, part, *rest = name.split(".")
        above = {"blocks": blocks.get(stack, 0) - 1 - int(rest[0]) if part == "blocks" else 0}
        above |= dict.fromkeys(("tokens", "positions"), blocks.get(stack, 0))
        assert share == pytest.approx(0.5 ** above.get(part, 0)), name


def test_without_decay_there_is_one_rate() -> None:
    model = build(ModelConfig(d=8, h=2))
    assert {group["lr"] for one in make_optimizers(model, training()) for group in one.param_groups} == {
        2e-3,
        0.02,
    }
