"""What a checkpoint contains, who may read it, and how many are kept."""

import json
import os
from pathlib import Path
from typing import NoReturn

import pytest

from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.checkpoints.restore import read
from tests.training.checkpoints.saved import (
    TENSORS,
    save_now,
    train_until,
)
from tests.training.trainers import make_trainer


def test_a_checkpoint_is_safetensors_and_json_and_nothing_else(tmp_path: Path) -> None:
    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    for average in ("none", "last", "exponential"):
        trainer = make_trainer("translate", tmp_path, average=average, average_last=2)
        at_once = save_now(tmp_path / average, trainer, keep=2)
        later, _ = train_until(trainer, 3, tmp_path / average)
        for place in (at_once, later):
            assert {path.name for path in place.iterdir()} == {
                "state.json",
                TENSORS,
                "checksums.json",
            }
            metadata = json.loads((place / "state.json").read_text(), parse_constant=refuse)
            assert metadata["step"] == int(place.name.removeprefix("step-"))
            assert {name.split(".")[0] for name in read(place)[1]} >= {"weights", "random"}


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_umask_decides_who_may_read_a_checkpoint(mask: int, tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path)
    before = os.umask(mask)
    try:
        place = save_now(tmp_path / "checkpoints", trainer)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o666 & ~mask}


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    for step in (2, 9, 10, 11, 100):
        trainer.step = step
        assert save_now(folder, trainer, keep=2).name == f"step-{step}"
    (folder / ".step-200.x.writing").mkdir()  # of a run that was killed
    (folder / "step-300").write_text("a file")
    (folder / "step-last").mkdir()
    assert [path.name for path in list_checkpoints(folder)] == ["step-11", "step-100"]
    assert list_checkpoints(tmp_path / "nothing") == []


def test_a_checkpoint_of_the_same_step_replaces_the_old_one(tmp_path: Path) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    save_now(folder, trainer, keep=2)
    trainer.skipped = 4
    place = save_now(folder, trainer, keep=2)
    assert json.loads((place / "state.json").read_text())["skipped"] == 4
    assert [path.name for path in folder.iterdir()] == ["step-0"]
