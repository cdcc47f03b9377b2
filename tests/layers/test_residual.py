"""Residual connections, and where the norm stands."""

import pytest
import torch
from torch import Tensor

from clearhead.layers.residual import PLACEMENTS, Both, Residual
from tests.layers.parts import B, D, N, randomise, some

X = some(B, N, D)
W = some(D, D, seed=2)


def sublayer(Y: Tensor) -> Tensor:
    return torch.tanh(Y @ W)


def make(kind: str, norm: str = "layer", dropout: float = 0.0) -> Residual:
    residual = PLACEMENTS[kind](D, norm, 1e-5, True, dropout)
    randomise(residual)
    return residual


@pytest.mark.notes("N21", "N24")
def test_each_placement_is_its_formula() -> None:
    pre, post, both = make("pre"), make("post"), make("both")
    assert isinstance(both, Both)
    assert torch.allclose(pre(X, sublayer), X + sublayer(pre.norm(X)))
    assert torch.allclose(post(X, sublayer), post.norm(X + sublayer(X)))
    assert torch.allclose(both(X, sublayer), X + both.norm_after(sublayer(both.norm(X))))
    assert not torch.allclose(pre(X, sublayer), post(X, sublayer))


@pytest.mark.notes("N21")
@pytest.mark.parametrize("kind", PLACEMENTS)
def test_a_sublayer_that_says_nothing_changes_nothing(kind: str) -> None:
    residual = make(kind, norm="none")
    assert torch.equal(residual(X, torch.zeros_like), X)


@pytest.mark.notes("N21")
@pytest.mark.parametrize("kind", PLACEMENTS)
def test_the_gradient_passes_as_through_the_identity(kind: str) -> None:
    """∂(F(x) + x)/∂x = F′(x) + I: where F has no gradient at all, the input still has its own."""
    residual = make(kind, norm="none")
    Y = X.clone().requires_grad_()
    weight = some(B, N, D, seed=3)
    (residual(Y, lambda Z: sublayer(Z).detach()) * weight).sum().backward()
    assert torch.equal(Y.grad, weight)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PLACEMENTS)
def test_every_norm_of_a_placement_knows_the_real_tokens(kind: str) -> None:
    residual, real = make(kind, norm="whole"), torch.arange(N) < torch.tensor([[N - 2], [N - 1]])
    wild = torch.where(real[..., None], X, torch.tensor(50.0))
    for row, n in enumerate((N - 2, N - 1)):
        alone = residual(X[row : row + 1, :n], sublayer)
        assert torch.allclose(residual(wild, sublayer, real)[row, :n], alone[0], atol=1e-5)


@pytest.mark.parametrize("kind", PLACEMENTS)
def test_dropout_acts_on_what_is_added_in_training_only(kind: str) -> None:
    residual = make(kind, norm="none", dropout=0.5)
    assert torch.equal(residual.eval()(X, sublayer), X + sublayer(X))
    added = residual.train()(X, sublayer) - X
    dropped = added.abs() < 1e-6
    assert 0.2 < float(dropped.float().mean()) < 0.8
    assert torch.allclose(added[~dropped], 2 * sublayer(X)[~dropped], atol=1e-5)
