"""Who may look at whom, and the softmax over those who may."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.layers.masks import View, masked_softmax, real_tokens


def positions(*numbers: int) -> Tensor:
    return torch.tensor([numbers])


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 7), st.integers(0, 1000))
def test_softmax_sees_only_what_is_visible(b: int, n: int, m: int, seed: int) -> None:
    """Hidden scores do not matter, visible weights sum to 1, and nothing visible gives zeros."""
    random = torch.Generator().manual_seed(seed)
    S = 3 * torch.randn(b, 2, n, m, generator=random)
    M = torch.rand(b, 1, n, m, generator=random) < 0.5
    A = masked_softmax(S, M)
    hidden = ~M.expand_as(A)
    assert (A[hidden] == 0).all()
    assert torch.allclose(A.sum(-1), M.any(-1).expand(b, 2, n).float(), atol=1e-6)
    assert torch.equal(A, masked_softmax(S.masked_fill(~M, 1e30), M))
    visible = torch.where(M, S.exp(), 0.0)  # the formula itself
    assert torch.allclose(A, visible / visible.sum(-1, keepdim=True).clamp(min=1e-30), atol=1e-5)


def test_softmax_of_large_scores_does_not_overflow() -> None:
    S = torch.tensor([[1e30, 1e30, -1e30], [-1e30, 0.0, 5.0]])
    A = masked_softmax(S, torch.ones(2, 3, dtype=torch.bool))
    assert torch.allclose(A[0], torch.tensor([0.5, 0.5, 0.0]))
    assert A.isfinite().all()


def test_softmax_has_a_gradient_where_nothing_is_visible() -> None:
    S = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    M = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(1)) < 0.6
    M[0, 1] = False
    (masked_softmax(S, M) * torch.randn(2, 3, 4)).sum().backward()
    assert S.grad is not None
    assert S.grad.isfinite().all()
    assert (S.grad[~M] == 0).all()
    assert torch.autograd.gradcheck(lambda X: masked_softmax(X, M), S)


@pytest.mark.notes("N15")
def test_a_causal_view_hides_the_future() -> None:
    at = positions(0, 1, 2, 3)
    view = View(at, at, causal=True, aligned=True)
    assert view.is_triangle
    assert torch.equal(view.mask[0, 0], torch.ones(4, 4).tril().bool())


def test_a_cached_query_sees_its_past() -> None:
    view = View(positions(3, 4), positions(0, 1, 2, 3, 4), causal=True)
    assert view.mask[0, 0].tolist() == [[True] * 4 + [False], [True] * 5]


@given(st.integers(1, 12), st.integers(1, 13), st.booleans(), st.booleans())
def test_a_window_sees_fewer_than_so_many_positions_away(n: int, w: int, causal: bool, padded: bool) -> None:
    at = torch.arange(n)[None]
    real = real_tokens(torch.tensor([n, max(1, n - 3)]), n) if padded else None
    view = View(at, at, real=real, causal=causal, window=w, aligned=True)
    for row, i, j in [(row, i, j) for row in range(len(view.mask)) for i in range(n) for j in range(n)]:
        is_real = real is None or bool(real[row, j])
        assert bool(view.mask[row, 0, i, j]) == (abs(i - j) < w and (not causal or j <= i) and is_real)
    joined = torch.zeros(len(view.mask), 1, n, n, dtype=torch.bool)
    for queries, keys, part in view.bands():  # bands hide nothing that is visible, and overlap nowhere
        joined[:, :, queries, keys] = part.mask
    assert torch.equal(joined, view.mask)


def test_padding_and_documents_are_hidden() -> None:
    at = positions(0, 1, 0, 1, 2)
    numbers = torch.tensor([[1, 1, 2, 2, 2]])
    view = View(at, at, real=real_tokens(torch.tensor([4]), 5), documents=(numbers, numbers))
    assert view.mask[0, 0].int().tolist() == [[1, 1, 0, 0, 0]] * 2 + [[0, 0, 1, 1, 0]] * 3


def test_an_open_view_needs_no_mask() -> None:
    at = positions(0, 1)
    assert View(at, at).is_open
    assert not View(at, at, causal=True).is_open
    full = View(positions(2), positions(3, 1, 2), causal=True, window=3, open=True)  # a full ring
    assert full.is_open
    assert full.mask.all()


def test_a_bias_is_minus_infinity_where_nobody_may_look() -> None:
    at = positions(0, 1, 2)
    bias = torch.randn(1, 2, 3, 3)
    hidden = ~View(at, at, causal=True).mask.expand(1, 2, 3, 3)
    biased = View(at, at, causal=True, bias=bias).biased_mask
    assert (biased[hidden] == -torch.inf).all()
    assert torch.equal(biased[~hidden], bias[~hidden])
    assert View(at, at, bias=bias).biased_mask is bias


def test_real_tokens_are_the_first() -> None:
    assert real_tokens(None, 3) is None
    real = real_tokens(torch.tensor([1, 3]), 3)
    assert real is not None
    assert real.tolist() == [[True, False, False], [True, True, True]]
