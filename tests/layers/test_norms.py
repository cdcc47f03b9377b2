"""Norms: what they fix, what they ignore, and which tokens they look at."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.layers.norms import NORMS, LayerNorm, RMSNorm, WholeNorm
from tests.layers.parts import B, D, N, randomise, some

X = 3 * some(B, N, D) + 1
REAL = torch.arange(N) < torch.tensor([[N], [N - 2]])


@pytest.mark.notes("N22")
def test_a_layer_norm_gives_each_token_mean_zero_and_variance_one() -> None:
    Y = LayerNorm(D, 1e-8)(X)
    assert torch.allclose(Y.mean(-1), torch.zeros(B, N), atol=1e-5)
    assert torch.allclose(Y.var(-1, unbiased=False), torch.ones(B, N), atol=1e-4)


@pytest.mark.notes("N22")
def test_a_layer_norm_is_stretched_and_shifted_by_what_it_learns() -> None:
    norm = LayerNorm(D, 1e-5)
    fixed = norm(X)
    randomise(norm)
    assert norm.bias is not None
    assert torch.allclose(norm(X), norm.weight * fixed + norm.bias, atol=1e-5)
    assert LayerNorm(D, 1e-5, bias=False).bias is None


def test_an_rms_norm_keeps_the_direction() -> None:
    Y = RMSNorm(D, 1e-8)(X)
    assert torch.allclose(Y.square().mean(-1), torch.ones(B, N), atol=1e-5)
    ratio = Y / X
    assert torch.allclose(ratio, ratio[..., :1].expand_as(ratio), atol=1e-4)


@pytest.mark.notes("N23")
def test_the_whole_norm_fixes_the_whole_matrix() -> None:
    Y = WholeNorm(D, 1e-8)(X)
    assert torch.allclose(Y.mean((1, 2)), torch.zeros(B), atol=1e-5)
    assert torch.allclose(Y.var((1, 2), unbiased=False), torch.ones(B), atol=1e-4)
    assert not list(WholeNorm(D, 1e-5).parameters())


@pytest.mark.notes("N23")
def test_the_whole_norm_counts_real_tokens_only() -> None:
    norm = WholeNorm(D, 1e-5)
    wild = X.clone()
    wild[~REAL] = 1e3
    assert torch.allclose(norm(wild, REAL)[1, : N - 2], norm(X[1:, : N - 2])[0], atol=1e-5)
    assert torch.equal(norm(X, torch.ones(B, N, dtype=torch.bool)), norm(X))


@pytest.mark.notes("N23")
@pytest.mark.parametrize("kind", NORMS)
def test_only_the_whole_norm_mixes_tokens(kind: str) -> None:
    """A token changed at the end changes the ones before it: the future would leak into a causal stack."""
    norm = NORMS[kind](D, 1e-5)
    other = X.clone()
    other[:, -1] += 2
    is_changed = not torch.allclose(norm(other)[:, :-1], norm(X)[:, :-1], atol=1e-6)
    assert is_changed == (kind == "whole")


def test_no_norm_is_a_norm_too() -> None:
    assert NORMS["none"](D, 1e-5)(X) is X


@pytest.mark.parametrize("kind", NORMS)
def test_equal_numbers_are_not_divided_by_zero(kind: str) -> None:
    Y = NORMS[kind](D, 1e-5)(torch.full((B, N, D), 2.0))
    assert Y.isfinite().all()


@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_long_sequences_in_few_bits(dtype: torch.dtype, n: int) -> None:
    """Counts above what the type can hold must not spoil the statistics."""
    Y = 3 * some(1, n, 64) + 1
    exact = WholeNorm(64, 1e-5)(Y)
    rough = WholeNorm(64, 1e-5)(Y.to(dtype))
    assert rough.dtype == dtype
    assert torch.allclose(rough.float(), exact, atol=0.05)


@pytest.mark.parametrize("kind", NORMS)
def test_gradients(kind: str) -> None:
    norm = NORMS[kind](4, 1e-5)
    randomise(norm.double())
    Y = some(B, N, 4).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda Y, *_: norm(Y, REAL), (Y, *norm.parameters()))


@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 4, 6), (1, 1, 8)])
def test_the_written_gradient_of_the_rms_norm_is_that_of_pytorch(shape: tuple[int, ...]) -> None:
    norm = NORMS["rms"](shape[-1], 1e-5)
    weight = norm.weight
    assert isinstance(weight, torch.Tensor)
    with torch.no_grad():
        weight.copy_(torch.randn(shape[-1]))
    X, G = torch.randn(shape, requires_grad=True), torch.randn(shape)
    ours = torch.autograd.grad(norm(X), (X, weight), G)
    theirs = torch.autograd.grad(F.rms_norm(X, shape[-1:], weight, 1e-5), (X, weight), G)
    for mine, yours in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-5)
