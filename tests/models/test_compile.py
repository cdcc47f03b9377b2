"""A model is one graph for `torch.compile`: no step of a pass falls back to Python."""

import pytest
import torch

from clearhead.models.inputs import Inputs
from tests.models.cases import CASES, B, N, gap, some_ids, some_source

NAMES = ["decoder: window rotary grouped", "encoder: bert", "encoder-decoder: shared"]  # one of each shape
MORE = [
    "decoder: scaled_dot rotary",
    "decoder: kept grouped",
    "decoder: gaussian alibi",
    "decoder: additive learned",
    "encoder: whole post",
    "encoder-decoder: scaled_dot relative",
    "decoder: convolution",
    "decoder: filters",
    "encoder: filters pool max",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *(pytest.param(name, marks=pytest.mark.prove) for name in MORE)])
def test_a_model_compiles_as_a_whole(name: str) -> None:
    case, counts = CASES[name], torch.tensor([N, N - 2])
    model, tokens, source = case.model(), some_ids(B, N), some_source(case)
    inputs = Inputs(tokens, counts, source)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)  # traced in full, then run as it is
    with torch.no_grad():
        assert gap(compiled(inputs), model(inputs)) < 1e-5
