"""TensorBoard events: the numbers of the records where it is installed, and silence where it is not."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.reporting import events
from clearhead.training.reporting.events import Events
from clearhead.training.reporting.history import Sample


def step(number: int, loss: float) -> StepRecord:
    return StepRecord(number, 0.5, loss, 1e-3, 1.0, 5000.0, 1.0, 0.0, 0)


def numbers(folder: Path, name: str) -> list[tuple[int, float]]:
    read = EventAccumulator(str(folder))
    read.Reload()
    return [(event.step, event.value) for event in read.Scalars(name)]


def test_records_become_events_and_a_run_that_goes_on_replaces_what_came_after(tmp_path: Path) -> None:
    with Events(tmp_path) as first:
        for number in (1, 2, 3, 4):
            first.add(step(number, float(number)))
        first.add(EvaluationRecord(4, 0.5, 10, 0.25, True))
        first.add(Sample(4, "uno", "one", "one"))
    with Events(tmp_path, 2) as second:
        second.add(step(3, 30.0))
    assert numbers(tmp_path, "loss/training") == [(1, 1.0), (2, 2.0), (3, 30.0)]


def test_where_it_is_not_installed_nothing_is_written_or_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(events, "find_spec", lambda name: None)
    with Events(tmp_path / "tensorboard") as silent:
        silent.add(step(1, 1.0))
    assert not (tmp_path / "tensorboard").exists()
    assert capfd.readouterr() == ("", "")
