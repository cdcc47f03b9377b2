"""Models in bfloat16: the same numbers as in float32, as far as 8 bits go."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from clearhead.inspection.capture import capture
from clearhead.layers.cache import DecoderState
from clearhead.models.model import Model
from clearhead.models.writer import Writer
from tests.models.cases import B, Case, N, random_model, read, some_ids, some_source
from tests.models.test_laws import cases

ROUGH = 0.08  # a product of two numbers of 8 bits is off by up to 0.8 %, and a stack makes many of them


def off(found: Tensor, expected: Tensor) -> float:
    """The size of the difference, relative to the size of what was expected."""
    return float((found.float() - expected).norm() / expected.norm())


def rounded(case: Case) -> tuple[Model, Model]:
    """The model in bfloat16, and in float32 with the very same weights."""
    few = deepcopy(random_model(case.name)).to(torch.bfloat16)
    return few, deepcopy(few).float()


@cases(is_sampled=True, is_double=False)
def test_few_bits_say_nearly_the_same(case: Case) -> None:
    few, many = rounded(case)
    tokens, source = some_ids(B, N), some_source(case)
    expected, found = read(many, tokens, source), read(few, tokens, source)
    assert found.dtype == torch.bfloat16
    assert off(found, expected) < ROUGH
    with capture(few):  # the plain formula
        assert off(read(few, tokens, source), expected) < ROUGH


@cases(is_writer=True, is_sampled=True, is_double=False)
def test_few_bits_step_by_step(case: Case) -> None:
    few, many = rounded(case)
    assert isinstance(few, Writer)
    tokens, source = some_ids(B, N), some_source(case)
    state = few.start(B, N, source)
    kept = state.cache.K if isinstance(state, DecoderState) else state.tensors
    assert all(X.dtype == torch.bfloat16 for X in kept)
    heard = [few.step(tokens[:, :3], state), few.step(tokens[:, 3:4], state), few.step(tokens[:, 4:], state)]
    assert off(torch.cat(heard, 1), read(many, tokens, source)) < ROUGH


@cases(is_sampled=True, is_double=False)
def test_few_bits_of_a_single_token(case: Case) -> None:
    """One row of one token: the shape of a step of decoding, for which kernels have a path of their own."""
    few, many = rounded(case)
    tokens, source = some_ids(1, 1), some_source(case, 1)
    source = None if source is None else source[:, :1]
    expected = read(many, tokens, source)
    assert off(read(few, tokens, source), expected) < ROUGH
    with capture(few):
        assert off(read(few, tokens, source), expected) < ROUGH
    if case.is_writer:
        assert isinstance(few, Writer)
        state = few.start(1, 3, source)
        assert off(few.step(tokens, state), expected) < ROUGH
        again = some_ids(1, 2, seed=4)
        again[:, 0] = tokens[:, 0]
        assert off(few.step(again[:, 1:], state), read(many, again, source)[:, 1:]) < ROUGH


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_vectors_of_another_type_may_be_given(dtype: torch.dtype) -> None:
    model = random_model("decoder: norm layer")
    X = torch.randn(B, N, model.config.d, generator=torch.Generator().manual_seed(1))
    assert off(read(model, X.to(dtype)), read(model, X)) < ROUGH
    assert read(model, X.to(dtype)).dtype == torch.float32
