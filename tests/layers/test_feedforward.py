"""The feed-forward: its formula for each kind, token by token."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from clearhead.layers.feedforward import FEEDFORWARDS, FeedForward, relu2
from tests.layers.parts import B, D, N, randomise, some

D_FF = 9


def phi(x: float) -> float:
    """The share of a standard normal below x."""
    return (1 + math.erf(x / math.sqrt(2))) / 2


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu_tanh(x: float) -> float:
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: x * phi(x),
    "gelu_tanh": gelu_tanh,
    "silu": lambda x: x * sigmoid(x),
    "relu2": lambda x: max(0.0, x) ** 2,
    "swiglu": lambda x: x * sigmoid(x),
    "geglu": lambda x: x * phi(x),
    "geglu_tanh": gelu_tanh,
}


def make(kind: str, bias: bool) -> FeedForward:
    shape, activation = FEEDFORWARDS[kind]
    layer = shape(D, D_FF, activation, bias)
    randomise(layer)
    return layer


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_the_feedforward_is_its_formula(kind: str, bias: bool) -> None:
    layer, x = make(kind, bias), some(D)
    rows = layer.W_1(x).tolist()
    if "glu" in kind:
        gates = layer.W_g(x).tolist()  # type: ignore[operator]
        hidden = [ACTIVATIONS[kind](gate) * row for gate, row in zip(gates, rows, strict=True)]
    else:
        hidden = [ACTIVATIONS[kind](row) for row in rows]
    expected = layer.W_2(torch.tensor(hidden))
    assert torch.allclose(layer(x[None, None])[0, 0], expected, atol=1e-5)
    assert (layer.W_1.bias is not None) == bias


@pytest.mark.notes("N25")
@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_every_token_is_treated_alike_and_alone(kind: str) -> None:
    layer, X = make(kind, bias=True), some(B, N, D)
    Y = layer(X)
    order = torch.tensor([2, 4, 0, 1, 3])
    assert torch.allclose(layer(X[:, order]), Y[:, order], atol=1e-5)
    for i in range(N):
        assert torch.allclose(layer(X[:, i : i + 1])[:, 0], Y[:, i], atol=1e-5)


@pytest.mark.notes("N25")
@pytest.mark.parametrize("bias", [False, True])
def test_two_convolutions_of_width_one_do_the_same(bias: bool) -> None:
    """001 says so: the operations correspond to two 1-D convolutions."""
    layer, X = make("relu", bias), some(B, N, D)
    hidden = F.conv1d(X.mT, layer.W_1.weight[..., None], layer.W_1.bias).relu()  # channels come first there
    expected = F.conv1d(hidden, layer.W_2.weight[..., None], layer.W_2.bias).mT
    assert torch.allclose(layer(X), expected, atol=1e-5)


@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_gradients(kind: str) -> None:
    layer, X = make(kind, bias=True).double(), some(1, 2, D).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda X, *_: layer(X), (X, *layer.parameters()))


def test_the_written_gradient_of_the_squared_relu_is_the_true_one() -> None:
    X = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(relu2, X)
