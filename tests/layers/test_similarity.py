"""Each similarity is its formula, written out with loops; those that can be a dot product are one."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.layers.masks import masked_softmax
from clearhead.layers.similarity import SIMILARITIES, Additive, Similarity
from tests.layers.parts import D_K, B, H, M, N, crossed, randomise, some


def make(kind: str, scale: float | None = None) -> Similarity:
    similarity = SIMILARITIES[kind](H, D_K, scale)
    randomise(similarity)
    return similarity


def norm(x: Tensor) -> float:
    return math.sqrt(sum(float(number) ** 2 for number in x))


# (q, k, v of the head, i, j) -> score, before any scale is given
FORMULAS: dict[str, Callable[[Tensor, Tensor, Tensor, int, int], float]] = {
    "scaled_dot": lambda q, k, v, i, j: float(q @ k) / math.sqrt(D_K),
    "dot": lambda q, k, v, i, j: float(q @ k),
    "cosine": lambda q, k, v, i, j: float(q @ k) / (norm(q) * norm(k)),
    "additive": lambda q, k, v, i, j: sum(float(v[a]) * math.tanh(q[a] + k[a]) for a in range(D_K)),
    "gaussian": lambda q, k, v, i, j: -(norm(q - k) ** 2) / 2,
    "distance": lambda q, k, v, i, j: -((i - j) ** 2) / 2,
}


@pytest.mark.notes("N4", "N13")
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_the_scores_are_the_formula(kind: str) -> None:
    similarity, Q, K = make(kind), some(B, H, N, D_K), some(B, H, M, D_K, seed=2)
    S = similarity(Q, K, crossed(N, M)).detach()
    assert S.shape == (B, H, N, M)
    v = similarity.v.detach() if isinstance(similarity, Additive) else torch.zeros(H, D_K)
    for b, h, i, j in [(b, h, i, j) for b in range(B) for h in range(H) for i in range(N) for j in range(M)]:
        expected = FORMULAS[kind](Q[b, h, i], K[b, h, j], v[h], i, j)
        assert float(S[b, h, i, j]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_a_given_scale_is_a_factor(kind: str) -> None:
    Q, K, view = some(B, H, N, D_K), some(B, H, M, D_K, seed=2), crossed(N, M)
    once, thrice = (make(kind, scale)(Q, K, view) for scale in (1.0, 3.0))
    assert torch.allclose(3 * once, thrice, atol=1e-5)
    default = math.sqrt(D_K) if kind == "scaled_dot" else 1.0
    assert torch.allclose(once, default * make(kind)(Q, K, view), atol=1e-5)


@pytest.mark.parametrize("kind", [name for name, kind in SIMILARITIES.items() if kind.is_dot])
def test_a_dot_product_of_something_gives_the_same_weights(kind: str) -> None:
    """scale · Q′K′ᵀ may differ from S by a constant for each query, which the softmax does not see."""
    similarity, Q, K = make(kind, 0.7), some(B, H, N, D_K), some(B, H, M, D_K, seed=2)
    other_Q, other_K = similarity.as_dot(Q, K)
    gap = similarity(Q, K, crossed(N, M)) - other_Q @ other_K.mT * similarity.scale
    assert torch.allclose(gap, gap[..., :1].expand_as(gap), atol=1e-5)


@pytest.mark.notes("N13")
def test_cosine_ignores_lengths_and_lies_between_minus_one_and_one() -> None:
    Q, K, view = some(B, H, N, D_K), some(B, H, M, D_K, seed=2), crossed(N, M)
    S = make("cosine")(Q, K, view)
    assert S.abs().max() <= 1 + 1e-6
    assert torch.allclose(S, make("cosine")(5 * Q, 0.1 * K, view), atol=1e-5)
    assert torch.allclose(
        make("cosine")(Q, 3 * Q, crossed(N, N)).diagonal(dim1=-2, dim2=-1), torch.ones(B, H, N)
    )


@pytest.mark.notes("N13")
def test_a_gaussian_weighs_keys_by_a_bell_around_the_query() -> None:
    Q, K = some(1, H, N, D_K), some(1, H, M, D_K, seed=2)
    view = crossed(N, M)
    A = masked_softmax(make("gaussian")(Q, K, view), view.mask)
    bell = torch.exp(-(Q[:, :, :, None] - K[:, :, None]).square().sum(-1) / 2)
    assert torch.allclose(A, bell / bell.sum(-1, keepdim=True), atol=1e-6)


def test_a_zero_vector_has_no_direction_and_a_finite_gradient() -> None:
    """relu can leave an all-zero query."""
    Q, K = torch.zeros(1, H, 1, D_K, requires_grad=True), some(1, H, M, D_K).requires_grad_()
    S = make("cosine")(Q, K, crossed(1, M))
    assert (S == 0).all()
    for gradient in torch.autograd.grad(S.sum(), (Q, K)):
        assert gradient.isfinite().all()


def test_distance_ignores_queries_and_keys() -> None:
    view = crossed(N, M)
    empty = torch.empty(B, H, N, 0), torch.empty(B, H, M, 0)
    S = SIMILARITIES["distance"](H, 0, None)(*empty, view)
    assert torch.equal(S, make("distance")(some(B, H, N, D_K), some(B, H, M, D_K), view))


@given(st.integers(1, 400))
def test_additive_scores_do_not_depend_on_the_chunk(chunk: int) -> None:
    similarity, Q, K, view = make("additive"), some(B, H, N, D_K), some(B, H, M, D_K, seed=2), crossed(N, M)
    expected = similarity(Q, K, view)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Additive, "CHUNK", chunk)
        assert torch.equal(similarity(Q, K, view), expected)


@pytest.mark.parametrize("kind", sorted(SIMILARITIES.keys() - {"distance"}))
def test_gradients(kind: str) -> None:
    similarity, view = make(kind).double(), crossed(3, 2)
    Q, K = some(1, H, 3, D_K).double().requires_grad_(), some(1, H, 2, D_K, seed=2).double().requires_grad_()
    parameters = tuple(similarity.parameters())
    assert torch.autograd.gradcheck(lambda Q, K, *_: similarity(Q, K, view), (Q, K, *parameters))
