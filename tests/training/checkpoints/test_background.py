"""Checkpoints are written while training continues: of the moment of the call, one at a time, errors raised."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import torch

from clearhead.training.checkpoints import background
from clearhead.training.checkpoints.background import Saver
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.checkpoints.save import save
from clearhead.training.loop.trainer import Trainer
from tests.training.checkpoints.saved import restore_from
from tests.training.trainers import make_trainer, same_bits, state_of

WAIT = 60.0  # seconds, for a machine that is busy


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    """A trainer after three steps."""
    trainer = make_trainer("translate", tmp_path, average="exponential")
    for record in trainer.train():
        if record.step == 3 and trainer.is_last_of_step(record):
            break
    return trainer


class Gate:
    """Stands before the disk: nothing is written until it opens."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.opens, self.reached = Event(), Event()
        self.write: Callable[..., Path] = save
        patch.setattr(background, "save", self.pass_through)

    def pass_through(self, *given: Any) -> Path:
        self.reached.set()
        assert self.opens.wait(WAIT)
        return self.write(*given)


def test_what_is_written_is_the_state_of_the_moment(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, folder = Gate(monkeypatch), tmp_path / "checkpoints"
    folder.mkdir()
    before, random = state_of(trainer), torch.get_rng_state()
    with Saver(folder, trainer) as saver:
        saver.saved_step = None
        saver.save()
        assert gate.reached.wait(WAIT)
        torch.randn(5)
        for _ in trainer.train():  # to the end, while the disk is slow
            pass
        assert not same_bits(state_of(trainer), before)
        assert not list_checkpoints(folder)
        gate.opens.set()
    again = make_trainer("translate", tmp_path, average="exponential")
    restore_from(folder / "step-3", again)
    assert same_bits(state_of(again), before)
    assert torch.equal(torch.get_rng_state(), random)


def test_one_is_on_its_way_at_most(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with Saver(tmp_path, trainer) as saver:
        trainer.step = 4
        saver.save()
        trainer.step = 5
        second = Thread(target=saver.save)
        second.start()
        assert gate.reached.wait(WAIT)
        second.join(0.2)
        assert second.is_alive()
        gate.opens.set()
        second.join(WAIT)
        assert not second.is_alive()
    assert [place.name for place in list_checkpoints(tmp_path)] == ["step-4", "step-5"]


def test_errors_are_heard_in_the_loop(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(background, "save", fail)
    saver = Saver(tmp_path, trainer)
    trainer.step = 4
    saver.save()
    trainer.step = 5
    with pytest.raises(OSError, match="Input/output error"):
        saver.save()
    with pytest.raises(OSError, match="Input/output error"), saver:  # at the end at the latest
        saver.save()


def test_memory_for_the_copy_is_taken_once(trainer: Trainer, tmp_path: Path) -> None:
    places = []
    with Saver(tmp_path, trainer) as saver:
        for step in (4, 5):
            trainer.step = step
            saver.save()
            saver.wait()
            places.append([X.data_ptr() for X in saver.copy.values()])
    assert places[0] == places[1]


def test_a_step_is_kept_once(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    monkeypatch.setattr(background, "save", lambda folder, metadata, *_: written.append(metadata["step"]))
    with Saver(tmp_path, trainer) as saver:
        saver.save()  # it resumed from here, so it exists
        for step in (4, 4, 5):
            trainer.step = step
            saver.save()
    assert written == [4, 5]


def test_who_interrupts_does_not_wait(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, saver = Gate(monkeypatch), Saver(tmp_path, trainer)

    def interrupted() -> None:
        with saver:
            trainer.step = 4
            saver.save()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert saver.writer is not None
    assert saver.writer.is_alive()
    gate.opens.set()
    saver.wait()
