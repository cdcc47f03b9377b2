"""The numbers of docs/scale.md are those of the formulas, and the formulas are what a small model does."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.training.loop.optimizers import make_optimizers
from tools.notes import ROOT
from tools.scale_table import SIZES, Size, tables

N = 40  # tokens of a row, enough for the fused kernel


def kept(size: Size, rows: int) -> int:
    """The bytes that a model keeps of so many rows for a backward pass."""
    model = build(size.config).train()
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    saved: dict[int, int] = {}

    def save(X: torch.Tensor) -> torch.Tensor:
        storage = X.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return X

    with saved_tensors_hooks(save, lambda X: X), torch.autocast("cpu", torch.bfloat16):
        model(Inputs(torch.zeros(rows, N, dtype=torch.long)))
    return sum(saved.values())


def test_the_page_shows_the_tables() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for table in tables():
        assert table in page


@pytest.mark.parametrize(("d", "d_ff"), [(128, 96), (192, 96), (128, 160)])
def test_a_block_keeps_what_is_said_of_a_token(d: int, d_ff: int) -> None:
    def of_a_token(blocks: int) -> float:
        size = Size("small", d, blocks, d_ff, tied=True, vocabulary=11)
        return (kept(size, rows=5) - kept(size, rows=3)) / (2 * N)

    size = Size("small", d, 1, d_ff, tied=True, vocabulary=11)
    assert of_a_token(3) - of_a_token(2) == pytest.approx(size.block_activations())


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_an_optimizer_remembers_what_is_said(optimizer: str) -> None:
    from clearhead.config.training import TrainingConfig

    size = Size("small", 64, 2, 96, tied=False, vocabulary=11)
    model = build(size.config)
    optimizers = make_optimizers(model, TrainingConfig(optimizer=optimizer))  # type: ignore[arg-type]
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    for one in optimizers:
        one.step()
    states = [X for one in optimizers for state in one.state.values() for X in state.values()]
    assert sum(X.nbytes for X in states if X.ndim) == size.state(optimizer)


def test_shards_divide_what_lasts_and_traffic_grows_to_its_limit() -> None:
    for size in SIZES:
        assert size.lasting("muon", 8) < size.lasting("muon") / 2
        assert size.sent("ddp", 2) == size.weights + 2 * size.counts[1]
        assert size.sent("fsdp", 64) < 3 * size.weights + size.counts[1]
        assert size.activations(True) < size.activations(False) / 4
