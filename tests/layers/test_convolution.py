"""Sums of the tokens that are some periods apart: which they are, and what a classifier reads of them."""

import torch

from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.layers.convolution import in_phase
from clearhead.models.build import build
from clearhead.models.convolutional.stack import FilterStack

B, N, D, PERIOD = 2, 8, 5, 3


def vectors() -> torch.Tensor:
    """Some vectors (b, n, d)."""
    return torch.randn(B, N, D, generator=torch.Generator().manual_seed(1))


def test_tokens_in_phase_are_summed() -> None:
    """Every third one, before and after, over the root of how many tokens there are."""
    X = vectors()
    for i, y in enumerate(in_phase(X, PERIOD).unbind(1)):
        assert torch.allclose(y, X[:, i % PERIOD :: PERIOD].sum(1) / N**0.5, atol=1e-6)


def test_a_period_of_one_is_the_whole_text_and_a_longer_one_than_it_nothing_else() -> None:
    X = vectors()
    assert torch.allclose(in_phase(X, 1), X.sum(1, keepdim=True).expand_as(X) / N**0.5, atol=1e-6)
    assert torch.allclose(in_phase(X, 2 * N), X / N**0.5)


def test_padding_is_in_no_sum() -> None:
    """The real tokens have the vectors that they have without it."""
    X, counts = vectors(), torch.tensor([N, 4])
    Y = in_phase(X, PERIOD, counts)
    assert torch.allclose(Y[:1], in_phase(X[:1], PERIOD), atol=1e-6)
    assert torch.allclose(Y[1:, :4], in_phase(X[1:, :4], PERIOD), atol=1e-6)


def test_the_last_numbers_of_the_first_block_are_the_sums() -> None:
    """Runs are in them alone; the largest over the tokens is that over the phases, wherever they begin."""
    config = ConvolutionalConfig(
        shape="encoder", vocabulary=11, d=10, token_d=7, period=PERIOD, ngrams=(2,), ngram_rows=29, widths=(2,),
        encoder_blocks=2, head="none",
    )  # fmt: skip
    stack = build(config).encoder
    assert isinstance(stack, FilterStack)
    assert stack.ngrams is not None
    tokens = torch.randint(11, (B, 9), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        before = stack.embed(tokens)
        stack.ngrams.weight.normal_(generator=torch.Generator().manual_seed(3))
        X = stack.embed(tokens)
        assert torch.equal(X[..., :4], before[..., :4])
        assert not torch.equal(X[..., 4:], before[..., 4:])
        sums = in_phase(X[..., 4:], PERIOD)
        assert torch.equal(stack.blocks[0](X)[..., 7:], sums)
        turned = in_phase(X[..., 4:].roll(1, 1), PERIOD)
        assert stack(X).shape == (B, 9, 10)
    assert torch.allclose(turned.amax(1), sums.amax(1), atol=1e-6)
