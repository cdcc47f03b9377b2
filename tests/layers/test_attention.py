"""Attention: two paths with one result, heads, groups, pruning, and what a query that sees nothing gets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.inspection.capture import capture
from clearhead.layers.attention import Attention, Dimensions, fused, join, plain, split
from clearhead.layers.masks import View
from clearhead.layers.similarity import SIMILARITIES
from tests.layers.parts import (
    D_K,
    D_MEMORY,
    D_V,
    VIEWS,
    B,
    D,
    H,
    M,
    N,
    attend,
    crossed,
    make_attention,
    padded,
    some,
    square,
    with_bias,
)  # fmt: skip

Path = Callable[[Attention, Tensor, Tensor, Tensor, View], Tensor]
DOTS = [name for name, kind in SIMILARITIES.items() if kind.is_dot]


def inputs(attention: Attention, view: View) -> tuple[Tensor, Tensor, Tensor]:
    """Random Q, K and V for an attention under a view, with gradients."""
    n, m, size = view.at.shape[1], view.to.shape[1], attention.size
    Q, K = some(B, attention.h, n, size.d_k), some(B, attention.g, m, size.d_k, seed=2)
    V = some(B, attention.g, m, size.d_v, seed=3)
    return Q.requires_grad_(), K.requires_grad_(), V.requires_grad_()


def close(X: Tensor, Y: Tensor) -> bool:
    X, Y = X.detach(), Y.detach()
    return float((X - Y).abs().max()) < 1e-5 * max(1.0, float(Y.abs().max()))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", DOTS)
def test_the_fused_kernel_is_the_plain_formula(kind: str, view: str, biased: bool) -> None:
    """Forward and backward; a query that may look nowhere gets zeros and leaves finite gradients."""
    attention, seen = make_attention(kind, h=4, g=2), VIEWS[view]()
    seen = with_bias(seen, 4) if biased else seen
    arguments, weight = inputs(attention, seen), some(B, 4, seen.at.shape[1], D_V, seed=4)
    results = []
    for path in (plain, fused):
        output = path(attention, *arguments, seen)
        results.append((output, *torch.autograd.grad((output * weight).sum(), arguments)))
    for slow, fast in zip(*results, strict=True):
        assert slow.isfinite().all()
        assert close(fast, slow)
    nowhere = ~seen.mask.any(-1, keepdim=True)
    for output, *_ in results:
        assert (output.masked_select(nowhere) == 0).all()
    assert nowhere.any() == ("blind" in view or view == "padded window")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", sorted(SIMILARITIES.keys() - DOTS))
def test_the_plain_formula_alone_is_as_safe(kind: str, view: str) -> None:
    attention, seen = make_attention(kind), with_bias(VIEWS[view](), H)
    arguments = inputs(attention, seen)
    output = plain(attention, *arguments, seen)
    assert (output.masked_select(~seen.mask.any(-1, keepdim=True)) == 0).all()
    used = arguments if attention.similarity.uses_content else arguments[2:]
    for gradient in torch.autograd.grad(output.square().sum(), used):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("d_v", [2, 4, 5, 9])
@pytest.mark.parametrize("kind", DOTS)
def test_values_may_be_narrower_or_wider_than_keys(kind: str, d_v: int) -> None:
    attention, seen = make_attention(kind, d_v=d_v), VIEWS["triangle"]()
    arguments = inputs(attention, seen)
    assert plain(attention, *arguments, seen).shape == (B, H, M, d_v)
    assert close(fused(attention, *arguments, seen), plain(attention, *arguments, seen))


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_the_fused_kernel_runs_for_long_texts_that_nobody_watches(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []
    kernel = F.scaled_dot_product_attention

    def counted(*arguments: Any, **options: Any) -> Tensor:
        calls.append(True)
        return kernel(*arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    attention, X = make_attention(kind, d_memory=D), some(B, N, D)
    attend(attention, X, X, square(N))
    assert not calls  # so few scores are not worth it
    monkeypatch.setattr("clearhead.layers.attention.SHORT", N * N - 1)
    for watched, is_fused in (("", True), ("q", True), ("out", True), ("scores", False), ("weights", False)):
        calls.clear()
        with capture(attention, watched or "heads"):
            attend(attention, X, X, square(N))
        assert bool(calls) == (is_fused and kind in DOTS)


def test_no_mask_is_made_where_the_kernel_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask of n × n would cost more memory than the attention itself."""
    masks: list[Tensor | None] = []
    kernel = F.scaled_dot_product_attention

    def noted(*arguments: Any, **options: Any) -> Tensor:
        masks.append(options["attn_mask"])
        return kernel(*arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    attention = make_attention("gaussian")
    for name in ("open", "triangle", "cross"):
        seen = VIEWS[name]()
        fused(attention, *inputs(attention, seen), seen)
        assert "mask" not in seen.__dict__  # the cached property was never asked
    assert masks == [None, None, None]


def test_split_and_join_are_inverse() -> None:
    X = some(B, N, H * D_K)
    heads = split(X, H)
    assert heads.shape == (B, H, N, D_K)
    assert torch.equal(heads[1, 2, 3], X[1, 3, 2 * D_K : 3 * D_K])
    assert torch.equal(join(heads), X)


@pytest.mark.notes("N16")
@pytest.mark.parametrize("bias", ["", "o"])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_joined_heads_are_a_sum_over_heads(kind: str, bias: str) -> None:
    """[H_1 … H_h] W_o = Σ_c H_c W_{h,c}: each head on its own, mapped back by its own (d_v, d) matrix."""
    attention = make_attention(kind, bias=bias)
    X, memory, view = some(B, N, D), some(B, M, D_MEMORY, seed=2), padded(crossed(N, M))
    total = torch.zeros(B, N, D) if not bias else attention.W_o.bias.detach().expand(B, N, D).clone()  # type: ignore[operator]
    for c in range(H):
        lone = one_head(attention, c)
        total = total + attend(lone, X, memory, view)
    assert close(attend(attention, X, memory, view), total)


def one_head(attention: Attention, c: int) -> Attention:
    """Head c of an attention, as an attention of its own with W_{h,c} as its W_o."""
    lone = make_attention(kind_of(attention), h=1)
    keys, values = slice(c * D_K, (c + 1) * D_K), slice(c * D_V, (c + 1) * D_V)
    weights = dict(attention.named_parameters())
    with torch.no_grad():
        for name, weight in lone.named_parameters():
            whole = weights[name]
            if name == "W_o.weight":
                weight.copy_(whole[:, values])
            elif name == "similarity.v":
                weight.copy_(whole[c : c + 1])
            else:
                weight.copy_(whole[values if name.startswith("W_v") else keys])
    return lone


def kind_of(attention: Attention) -> str:
    """The name of the similarity that an attention uses."""
    return next(name for name, kind in SIMILARITIES.items() if type(attention.similarity) is kind)


@pytest.mark.parametrize("g", [1, 2, 3, 6])
@pytest.mark.parametrize("path", [plain, fused])
def test_grouped_heads_share_keys_and_values(g: int, path: Path) -> None:
    """The same as one head of keys for each query head, repeated."""
    few, many = make_attention(h=6, g=g), make_attention(h=6)
    seen = VIEWS["padded triangle"]()
    Q, K, V = inputs(few, seen)
    repeated = [X.repeat_interleave(6 // g, 1) for X in (K, V)]
    assert close(path(few, Q, K, V, seen), plain(many, Q, repeated[0], repeated[1], seen))


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize(("g", "kept"), [(6, (0, 2, 5)), (3, (1, 4, 5)), (2, (3,)), (1, (0, 5)), (3, (2, 3))])
def test_kept_heads_are_those_of_the_whole(kind: str, g: int, kept: tuple[int, ...]) -> None:
    """A pruned attention gives what the whole one gives with the other heads muted, also under a bias."""
    whole, pruned = make_attention(kind, h=6, g=g), make_attention(kind, h=6, g=g, kept=kept)
    assert len(pruned.size.key_heads) <= len(kept)
    copy_kept(whole, pruned)
    X, memory = some(B, N, D), some(B, M, D_MEMORY, seed=2)
    seen = with_bias(padded(crossed(N, M)), 6)
    K, V = whole.keys_values(memory)
    heads = plain(whole, whole.queries(X), K, V, seen)
    muted = [head for head in range(6) if head not in kept]
    heads[:, muted] = 0
    expected = whole.W_o(join(heads))
    assert close(attend(pruned, X, memory, seen), expected)
    with capture(pruned, "weights"):
        assert close(attend(pruned, X, memory, seen), expected)


def copy_kept(whole: Attention, pruned: Attention) -> None:
    """Gives a pruned attention the weights of its heads in the whole one."""
    size = pruned.size
    weights = dict(whole.named_parameters())

    def rows(heads: tuple[int, ...], width: int) -> list[int]:
        return [head * width + i for head in heads for i in range(width)]

    picks = {
        "W_q.weight": rows(size.heads, size.d_k),
        "W_k.weight": rows(size.key_heads, size.d_k),
        "W_v.weight": rows(size.key_heads, size.d_v),
        "similarity.v": list(size.heads),
    }
    with torch.no_grad():
        for name, weight in pruned.named_parameters():
            if name == "W_o.weight":
                weight.copy_(weights[name][:, rows(size.heads, size.d_v)])
            else:
                weight.copy_(weights[name][picks[name]])


def test_dimensions_know_which_keys_a_head_reads() -> None:
    size = Dimensions(D, D, h=6, g=3, d_k=D_K, d_v=D_V, kept=(0, 1, 5))
    assert (size.heads, size.key_heads, size.reads) == ((0, 1, 5), (0, 2), [0, 0, 1])
    every = Dimensions(D, D, h=4, g=2, d_k=D_K, d_v=D_V)
    assert (every.heads, every.key_heads, every.reads) == ((0, 1, 2, 3), (0, 1), [0, 0, 1, 1])


@pytest.mark.notes("N11")
def test_relu_follows_all_three_projections() -> None:
    attention = make_attention(projections="relu", bias="qkv")
    X, memory = some(B, N, D), some(B, M, D_MEMORY, seed=2)
    with capture(attention, "q", "k", "v") as trace:
        attend(attention, X, memory, crossed(N, M))
    for name, W, from_ in (
        ("q", attention.W_q, X),
        ("k", attention.W_k, memory),
        ("v", attention.W_v, memory),
    ):
        assert close(trace[name], split(W(from_).clamp(min=0), H))
        assert (trace[name] == 0).any()


@pytest.mark.notes("N17")
@pytest.mark.parametrize("kind", sorted(SIMILARITIES.keys() - {"distance"}))
def test_a_query_acts_only_through_its_weights(kind: str) -> None:
    """y_i depends on x_i and the memory alone, and nothing but the weights carries what x_i says."""
    attention = make_attention(kind)
    X, memory, view = some(B, N, D), some(B, M, D_MEMORY, seed=2), crossed(N, M)
    Y = attend(attention, X, memory, view)
    assert Y.shape == (B, N, D)
    other = X.clone()
    other[:, 2] += some(B, D, seed=5)
    changed = attend(attention, other, memory, view)
    assert close(changed[:, [0, 1, 3, 4]], Y[:, [0, 1, 3, 4]])
    assert not close(changed[:, 2], Y[:, 2])
    with capture(attention, "weights", "v") as trace:
        attend(attention, X, memory, view)
    assert close(attention.W_o(join(trace["weights"] @ trace["v"])), Y)  # nothing else of X is in it


@pytest.mark.notes("N17")
def test_with_equal_weights_the_query_does_not_matter() -> None:
    attention = make_attention()
    with torch.no_grad():
        attention.W_q.weight.zero_()  # type: ignore[operator]
    memory, view = some(B, M, D_MEMORY, seed=2), crossed(N, M)
    Y, other = (attend(attention, some(B, N, D, seed=seed), memory, view) for seed in (1, 9))
    assert close(Y, other)
    mean = attention.W_o(join(attention.keys_values(memory)[1].mean(2, keepdim=True)))
    assert close(Y, mean.expand(B, N, D))


def test_attention_dropout_is_off_outside_training() -> None:
    attention = make_attention()
    attention.dropout = 0.5
    X, memory, view = some(B, N, D), some(B, M, D_MEMORY, seed=2), crossed(N, M)
    assert torch.equal(attend(attention, X, memory, view), attend(attention, X, memory, view))
    attention.train()
    assert not torch.equal(attend(attention, X, memory, view), attend(attention, X, memory, view))


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_dropped_weights_leave_the_mean_as_it_is(kind: str) -> None:
    attention, seen = make_attention(kind), VIEWS["triangle"]()
    attention.dropout = 0.5
    Q, K, V = (X.detach()[:1].repeat(2000, 1, 1, 1) for X in inputs(attention, seen))
    expected = plain(attention, Q[:1], K[:1], V[:1], seen)
    attention.train()
    torch.manual_seed(1)
    for path in [plain, fused] if kind in DOTS else [plain]:
        mean = path(attention, Q, K, V, seen).mean(0, keepdim=True)
        assert float((mean - expected).detach().abs().max()) < 0.15  # ± the deviation of 2000 draws


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_gradients_of_the_whole_sublayer(kind: str) -> None:
    attention = make_attention(kind, bias="qkvo").double()
    X, memory = some(1, 3, D).double().requires_grad_(), some(1, 4, D_MEMORY).double().requires_grad_()
    view = replace(padded_few(), bias=None)
    assert torch.autograd.gradcheck(lambda X, memory: attend(attention, X, memory, view), (X, memory))
    with capture(attention, "weights"):
        assert torch.autograd.gradcheck(lambda X, memory: attend(attention, X, memory, view), (X, memory))


def padded_few() -> View:
    """Three queries, four keys of which three are real."""
    return replace(crossed(3, 4), real=torch.tensor([[True, True, True, False]]))
