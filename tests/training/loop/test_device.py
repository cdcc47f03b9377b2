"""Which device, which precision, compiled or not."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

from clearhead.config.training import TrainingConfig
from clearhead.data.batching.batches import Position
from clearhead.errors import ConfigError
from clearhead.training.loop.device import autocast, pick_device, pick_precision, should_compile
from clearhead.training.loop.losses import inputs_of
from tests.training.trainers import (
    TASKS,
    make_trainer,
    run_through,
)


def test_a_cpu_compiles_only_if_asked_to(tmp_path: Path) -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    for choice, device, expected in (
        ("auto", cpu, False), ("auto", cuda, True), ("off", cuda, False), ("on", cpu, True),
    ):  # fmt: skip
        assert should_compile(TrainingConfig.model_validate({"compile": choice}), device) is expected
    trainer = make_trainer("translate", tmp_path, device="cpu")
    assert trainer.forward is trainer.model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize(
    "task", [task if task == "translate" else pytest.param(task, marks=pytest.mark.prove) for task in TASKS]
)
def test_a_compiled_model_takes_the_same_steps(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced by the compiler; the code that it would write is left out, since that takes half a minute."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    plain, compiled = (make_trainer(task, tmp_path, steps=3, compile=choice) for choice in ("off", "on"))
    assert compiled.forward is not compiled.model
    for one, other in zip(run_through(plain)[0], run_through(compiled)[0], strict=True):
        assert other.loss == pytest.approx(one.loss, abs=1e-5)


@pytest.mark.parametrize("is_fast", [False, True])
def test_auto_takes_bfloat16_only_where_it_is_fast(is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return is_fast or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    auto = TrainingConfig()
    assert pick_precision(auto, torch.device("cpu")) == "float32"
    assert pick_precision(auto, torch.device("mps")) == "float32"
    assert pick_precision(auto, torch.device("cuda")) == ("bfloat16" if is_fast else "float32")
    asked = TrainingConfig(precision="bfloat16")
    assert pick_precision(asked, torch.device("cpu")) == "bfloat16"


def test_a_cpu_computes_in_float32_unless_asked_otherwise(tmp_path: Path) -> None:
    full, few = (
        make_trainer("translate", tmp_path, precision=kind, device="cpu") for kind in ("auto", "bfloat16")
    )
    assert isinstance(autocast(full.training, full.device), nullcontext)
    batch = full.batches.at(Position())
    with autocast(few.training, few.device):
        assert few.model(inputs_of(batch)).dtype == torch.bfloat16
    (exact, _), (rough, _) = full.update(batch), few.update(batch)
    assert rough == pytest.approx(exact, rel=0.02)
    assert all(weight.dtype == torch.float32 for weight in few.model.parameters())


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_the_first_device_that_is_available(
    cuda: bool, mps: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto").type == expected
    assert pick_device("cpu").type == "cpu"
    for name, is_here in (("cuda", cuda), ("mps", mps)):
        if is_here:
            assert pick_device(name).type == name
        else:
            with pytest.raises(ConfigError, match=f"training.device = '{name}', but PyTorch finds no such"):
                pick_device(name)
