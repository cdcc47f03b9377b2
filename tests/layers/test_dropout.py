"""Dropout: the mean stays, evaluation drops nothing, and a thread's own generator can be repeated."""

import pytest
import torch

from clearhead.layers.dropout import Dropout, drawing_from


def drawn(seed: int, p: float = 0.3) -> torch.Tensor:
    with drawing_from(torch.Generator().manual_seed(seed)):
        return Dropout(p)(torch.ones(200, 300))


def test_without_a_generator_it_draws_from_that_of_pytorch() -> None:
    torch.manual_seed(5)
    found = Dropout(0.25)(torch.ones(70, 110))
    torch.manual_seed(5)
    assert torch.equal(found, Dropout(0.25)(torch.ones(70, 110)))
    assert not torch.equal(found, Dropout(0.25)(torch.ones(70, 110)))
    assert float((found == 0).float().mean()) == pytest.approx(0.25, abs=0.02)


def test_a_generator_gives_the_same_again_and_leaves_the_common_one_alone() -> None:
    before = torch.get_rng_state()
    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_mean_stays(p: float) -> None:
    X = drawn(3, p)
    assert float((X == 0).float().mean()) == pytest.approx(p, abs=0.01)
    assert float(X.mean()) == pytest.approx(1.0, abs=0.05)


def test_gradients_pass_where_numbers_pass() -> None:
    X = torch.randn(5, 6, requires_grad=True)
    with drawing_from(torch.Generator().manual_seed(1)):
        Y = Dropout(0.5)(X)
    Y.sum().backward()
    assert X.grad is not None
    assert torch.equal(X.grad, torch.where(Y == 0, 0.0, 2.0))


def test_nothing_is_dropped_in_evaluation() -> None:
    X = torch.ones(3, 4)
    with drawing_from(torch.Generator()):
        assert Dropout(0.5).eval()(X) is X
        assert Dropout(0.0)(X) is X


@pytest.mark.parametrize("p", [0.1, 1 / 3, 0.5, 0.95])
def test_neighbouring_numbers_are_dropped_independently(p: float) -> None:
    """Four numbers share one draw of 64 bits: any two of them are dropped together as often as by chance."""
    rows = (drawn(3, p) == 0).double().view(-1, 4)
    together = rows.mT @ rows / len(rows)  # (4, 4)
    chance = torch.full((4, 4), p * p, dtype=torch.double).fill_diagonal_(p)
    assert torch.allclose(together, chance, atol=5 * (p * (1 - p) / len(rows)) ** 0.5)


def test_sizes_that_four_does_not_divide_and_all_number_formats() -> None:
    for shape in ((), (1,), (3, 5), (0, 4)):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            with drawing_from(torch.Generator().manual_seed(1)):
                Y = Dropout(0.5)(torch.ones(shape, dtype=dtype))
            assert Y.shape == shape
            assert Y.dtype == dtype
            assert set(Y.flatten().tolist()) <= {0.0, 2.0}
