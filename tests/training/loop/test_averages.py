"""Averages equal plain loops, stand in for the weights while asked to, and resume from a checkpoint."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from clearhead.config.training import TrainingConfig
from clearhead.training.loop.averages import Exponential, Last, NoAverage, make_average

KINDS = ("none", "exponential", "last")


def make(kind: str) -> tuple[nn.Module, NoAverage]:
    """A model of two weights, one of them not of float32's usual numbers, and its average."""
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.bias.copy_(torch.tensor([-0.0, torch.nan]))
    settings = {"average": kind, "average_last": 3, "average_decay": 0.8}
    return model, make_average(model, TrainingConfig.model_validate(settings))


def step(model: nn.Module, number: int) -> None:
    """A step of training, as far as an average can tell."""
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator))


def bits(model: nn.Module) -> list[Tensor]:
    return [weight.detach().clone().view(torch.int32) for weight in model.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@settings(max_examples=20)
@given(st.integers(0, 30), st.floats(0.1, 0.999))
def test_an_exponential_average_is_its_formula(steps: int, decay: float) -> None:
    model = nn.Linear(3, 2)
    average, expected = Exponential(model, decay), model.weight.detach().double().clone()
    for number in range(1, steps + 1):
        step(model, number)
        average.after_step()
        memory = min(decay, number / (number + 9))
        expected = memory * expected + (1 - memory) * model.weight.detach().double()
    assert torch.allclose(average.average[0].double(), expected, atol=1e-5)


@settings(max_examples=20)
@given(st.integers(1, 8), st.integers(2, 5))
def test_the_last_average_is_the_mean_at_the_last_evaluations(evaluations: int, count: int) -> None:
    model, seen = nn.Linear(3, 2), []
    average = Last(model, count)
    assert average.mean() is None
    for number in range(evaluations):
        step(model, number)
        average.before_evaluation()
        seen.append(model.weight.detach().clone())
    mean = average.mean()
    assert mean is not None
    assert torch.allclose(mean[0], sum(seen[-count:], torch.zeros(2, 3)) / min(count, evaluations), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fails", [False, True])
def test_weights_come_back_to_the_last_bit(kind: str, fails: bool) -> None:
    model, average = make(kind)
    for number in range(3):
        step(model, number)
        average.after_step()
        average.before_evaluation()
    before = bits(model)

    def look() -> None:
        with average.applied():
            assert same(bits(model), before) is (kind == "none")
            mean = average.mean()
            if mean is not None:
                assert same(bits(model), [weight.view(torch.int32) for weight in mean])
            if fails:
                raise KeyboardInterrupt

    if fails:
        with pytest.raises(KeyboardInterrupt):
            look()
    else:
        look()
    assert same(bits(model), before)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(before=st.integers(0, 5), after=st.integers(0, 4))
def test_an_average_goes_on_from_what_was_kept(kind: str, before: int, after: int) -> None:
    (model, whole), (again, resumed) = make(kind), make(kind)
    for number in range(before + after):
        if number == before:
            resumed.restore({name: X.clone() for name, X in whole.state().items()})
        for each, average in ((model, whole), (again, resumed)):
            step(each, number)
            if average is whole or number >= before:
                average.after_step()
                average.before_evaluation()
    if after:
        expected, found = whole.state(), resumed.state()
        assert expected.keys() == found.keys()
        assert all(
            torch.allclose(X, found[name], rtol=0, atol=0, equal_nan=True) for name, X in expected.items()
        )


def test_what_is_kept_stays_as_it_was() -> None:
    """A restored average owns its numbers: those of the checkpoint do not change under it."""
    for kind in KINDS[1:]:
        model, average = make(kind)
        step(model, 1)
        average.after_step()
        average.before_evaluation()
        kept = {name: X.clone() for name, X in average.state().items()}
        before = {name: X.clone() for name, X in kept.items()}
        average.restore(kept)
        step(model, 2)
        average.after_step()
        average.before_evaluation()
        assert all(torch.allclose(X, before[name], equal_nan=True) for name, X in kept.items())


@pytest.mark.parametrize("kind", ["exponential", "last"])
def test_a_frozen_weight_is_neither_averaged_nor_kept(kind: str) -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    average = make_average(model, TrainingConfig.model_validate({"average": kind, "average_last": 3}))
    average.before_evaluation()
    assert [X.shape for X in average.state().values() if X.ndim == 2] == [(2, 3)]
    assert not [X for X in average.state().values() if X.shape == (2,)]
