"""Every order of a matrix gives the same product."""

import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.decoding.steppers import products
from clearhead.decoding.steppers.products import Order, checksum, product, product_of, row_kernel, stamp
from clearhead.decoding.steppers.products import is_faster as measured

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


def test_the_kernel_is_there_and_used_for_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert row_kernel() is not None
    multiplied = product(some(4, 3), None, "for a row")
    monkeypatch.setattr(F, "linear", lambda *given: pytest.fail("left to PyTorch"))
    assert multiplied(some(1, 3)).shape == (1, 4)


@pytest.mark.parametrize("is_faster", [True, False])
def test_the_kernel_is_used_only_where_it_is_faster(is_faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "is_faster", lambda *given: is_faster)
    assert (row_kernel.__wrapped__() is not None) is is_faster


def test_the_faster_product_is_known() -> None:
    def slow(X: Tensor) -> Tensor:
        time.sleep(0.01)
        return X

    assert measured(lambda X: X, slow, some(1, 2))
    assert not measured(slow, lambda X: X, some(1, 2))


def test_where_nothing_can_be_compiled_pytorch_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "row_kernel", lambda: None)
    W, X = some(4, 3), some(1, 3)
    assert torch.equal(product(W, None, "for a row")(X), F.linear(X, W))


def test_a_child_process_multiplies_too() -> None:
    """The threads of the kernel end at a fork, and using them again would end the child."""
    multiplied, X = product(some(7, 3), None, "for a row"), some(1, 3)
    expected = multiplied(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks of processes with threads
        child = os.fork()
    if not child:
        os._exit(0 if torch.allclose(multiplied(X), expected, atol=TOLERANCE) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_numbers_of_autocast_are_left_to_pytorch() -> None:
    multiplied = product(some(4, 3), None, "for a row")
    with torch.autocast("cpu", torch.bfloat16):
        assert multiplied(some(1, 3).bfloat16()).dtype == torch.bfloat16


def test_a_compiler_that_fails_is_told_and_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "clearhead.decoding.steppers.kernels.row", None)
    assert row_kernel.__wrapped__() is None
    assert "could not be compiled" in caplog.text


def test_the_number_of_threads_changes_no_bit_and_threads_may_call_at_once() -> None:
    multiplied, rows = product(some(257, 96), some(257), "for a row"), some(40, 96).split(1)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = [multiplied(X) for X in rows]
    finally:
        torch.set_num_threads(threads)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert all(map(torch.equal, pool.map(multiplied, rows), alone))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_any_one_number_changes_the_checksum(dtype: torch.dtype, size: int) -> None:
    weight = some(size).to(dtype)
    before = checksum(weight)
    assert checksum(weight.clone()) == before
    for place in {0, size // 2, size - 1}:
        changed = weight.clone()
        changed[place] *= 1.01
        assert checksum(changed) != before


def test_many_numbers_are_added_by_threads_to_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 5, bias=False))
    copied = list(model.parameters())
    alone = stamp(model, copied)
    monkeypatch.setattr(products, "MANY", 0)
    assert stamp(model, copied) == alone
