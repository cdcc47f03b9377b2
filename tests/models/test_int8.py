"""int8 weights: half a step from the given ones, the same when rounded again, and right in folders and exports."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.errors import InputError
from clearhead.exchange.exporting import export_model
from clearhead.inspection.check import check
from clearhead.model_folder import Bundle, load, save
from clearhead.models.int8 import from_int8, matrices, round_weights, to_int8
from tests.decoding.tiny import language_model
from tests.models.cases import CASES


def test_every_number_is_within_half_a_step() -> None:
    W = torch.randn(7, 33, generator=torch.Generator().manual_seed(1)) * torch.logspace(-6, 6, 7)[:, None]
    q, s = to_int8(W)
    assert q.dtype == torch.int8
    assert bool((q.abs().amax(1) == 127).all())
    assert bool(
        ((from_int8(q, s) - W).abs() <= s[:, None] * 0.503).all()
    )  # half a step, and what scales lose


def test_rounding_twice_changes_nothing() -> None:
    W = torch.randn(500, 64, generator=torch.Generator().manual_seed(2))
    q, s = to_int8(W)
    again, scales = to_int8(from_int8(q, s))
    assert torch.equal(again, q)
    assert torch.equal(scales, s)


def test_a_row_of_zeros_stays() -> None:
    W = torch.zeros(3, 8)
    W[1, 2] = 5.0
    assert torch.equal(from_int8(*to_int8(W)), W.where(W == 0, from_int8(*to_int8(W))))
    assert float(from_int8(*to_int8(W))[1, 2]) == pytest.approx(5.0, rel=2**-16)


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="NaN or infinity"):
        to_int8(torch.tensor([[1.0, torch.nan]]))


@pytest.mark.parametrize(
    "name", [name for name in CASES if name.endswith((": shared", ": biases", ": relative"))]
)
def test_a_folder_of_int8_comes_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    bundle = Bundle(deepcopy(CASES[name].model()))
    bundle.quantise()
    save(tmp_path / "model", bundle)
    loaded = load(tmp_path / "model")
    assert loaded.is_int8
    for weight, other in zip(bundle.module.parameters(), loaded.module.parameters(), strict=True):
        assert torch.equal(weight, other)
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert {name for name, weight in stored.items() if weight.dtype == torch.int8} == matrices(bundle.module)


def test_saved_and_checked_like_others(tmp_path: Path) -> None:
    bundle = deepcopy(language_model("word"))
    save(tmp_path / "whole", bundle)
    bundle.quantise()
    save(tmp_path / "rounded", bundle)
    before, after = (tmp_path / name / "model.safetensors" for name in ("whole", "rounded"))
    assert after.stat().st_size < before.stat().st_size
    assert all(law.holds for law in check(load(tmp_path / "rounded")))
    assert load(tmp_path / "rounded", torch.bfloat16).is_int8 is False


def test_an_export_is_float32_again(tmp_path: Path) -> None:
    bundle = deepcopy(language_model("word"))
    bundle.quantise()
    save(tmp_path / "rounded", bundle)
    export_model(tmp_path / "rounded", tmp_path / "theirs")
    stored = load_file(tmp_path / "theirs" / "model.safetensors")
    assert {weight.dtype for weight in stored.values()} == {torch.float32}
    E = bundle.module.get_parameter("decoder.tokens.weight")
    assert any(torch.equal(weight, E) for weight in stored.values())


def test_rounding_at_load_is_quantising(tmp_path: Path) -> None:
    bundle = deepcopy(language_model("word"))
    save(tmp_path / "whole", bundle)
    loaded = clearhead.load(tmp_path / "whole", int8=True)
    round_weights(bundle.module)
    for weight, other in zip(bundle.module.parameters(), loaded.module.parameters(), strict=True):
        assert torch.equal(weight, other)
    with pytest.raises(InputError, match="not in bfloat16"):
        clearhead.load(tmp_path / "whole", "bfloat16", int8=True)
