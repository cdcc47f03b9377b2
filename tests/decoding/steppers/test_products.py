"""Every order of a matrix gives the same product."""

from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.decoding.steppers.products import Order, product, product_of

TOLERANCE = 1e-5  # of float32 sums taken in another order


def some(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (64, 129), (513, 48)], ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("order", get_args(Order))
def test_every_order_gives_the_product(
    order: Order, has_bias: bool, shape: tuple[int, int], rows: int
) -> None:
    W, b, X = some(*shape), some(shape[0]) if has_bias else None, some(rows, shape[1])
    assert torch.allclose(product(W, b, order)(X), F.linear(X, W, b), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("order", get_args(Order))
def test_tensors_that_lie_apart_in_memory_are_read_rightly(order: Order) -> None:
    W, b, X = some(5, 9).t(), some(9, 2)[:, 0], some(5, 1).t()
    assert torch.allclose(product(W, b, order)(X), F.linear(X, W, b), atol=TOLERANCE)


@pytest.mark.parametrize("order", get_args(Order))
def test_layers_with_the_same_inputs_are_multiplied_as_one(order: Order) -> None:
    layers, X = [nn.Linear(6, 4), nn.Linear(6, 5, bias=False)], some(1, 6)
    with torch.no_grad():
        joined = torch.cat([layer(X) for layer in layers], 1)
        assert torch.allclose(product_of(*layers, order=order)(X), joined, atol=TOLERANCE)


def test_other_numbers_than_float32_are_left_to_pytorch() -> None:
    W, X = some(4, 3).double(), some(1, 3).double()
    for order in get_args(Order):
        assert torch.equal(product(W, None, order)(X), F.linear(X, W))
