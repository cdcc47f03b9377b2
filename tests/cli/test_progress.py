"""The display of training: lines where there is no terminal, a picture where there is one."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from clearhead.cli import progress
from clearhead.cli.progress import SECONDS_BETWEEN_LINES, Display, sparkline
from clearhead.machine import load
from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.reporting.history import LogEntry, Sample


def step(number: int, loss: float = 2.0, seconds: float | None = None, skipped: int = 0) -> StepRecord:
    return StepRecord(
        number, 0.5, loss, 1e-3, 1.0, 5000.0, float(number if seconds is None else seconds), 0.0, skipped
    )


def shown(terminal: bool, *records: LogEntry) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=120, color_system=None, legacy_windows=False)
    with Display(100, console) as display:
        for record in records:
            display.show(record)
    return file.getvalue()


def test_lines_come_once_in_a_while_and_at_the_end() -> None:
    steps = [step(k, loss=3 - k / 50) for k in range(1, 101)]
    lines = shown(False, *steps).splitlines()
    assert lines[0].startswith("step 1/100  loss 2.9800  smoothed 2.9800  rate 1.00e-03  5,000 tokens/s")
    assert lines[-1].startswith("step 100/100  loss 1.0000")
    assert len(lines) == 2 + 99 // SECONDS_BETWEEN_LINES


def test_a_run_that_goes_on_tells_the_time_left_from_there() -> None:
    told = shown(False, step(60, seconds=120.0)).splitlines()
    assert told[0].endswith("tokens/s  1 min 20 s left")  # 40 steps of two seconds, not of none


def test_evaluations_and_samples_are_lines_of_their_own() -> None:
    told = shown(
        False,
        EvaluationRecord(5, 1.5, 10, 0.5, True),
        Sample(5, "uno", "one", "one"),
        Sample(5, "dos", "one", "two"),
        Sample(5, "", "a\nb\x1b[31m"),
    )
    assert told.splitlines() == [
        "step 5  validation loss 1.5000  best so far",
        "step 5  uno → one",
        "step 5  dos → one  (expected: two)",
        "step 5  writes: a b [31m",
    ]


def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "usable_cores", lambda: {0, 1})
    monkeypatch.setattr(load, "usable_cores", lambda: {0, 1})
    busy, idle = (replace(step(1), busy_cores=cores) for cores in (1.62, 0.1))
    assert "busy machine: other programs use 1.6 of 2 cores" in shown(False, busy)
    assert "other programs" in shown(True, busy)
    assert "other programs" not in shown(False, idle) + shown(True, idle) + shown(False, step(1))


def test_the_time_left_follows_the_pace_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    display = Display(1000, Console(file=io.StringIO()))
    for number in range(1, 201):  # one step per second, then other programs slow it down
        clock[0] += 1.0 if number <= 100 else 3.0
        display.take_step(step(number))
    assert display.seconds_left == pytest.approx(800 * 3.0, rel=0.05)


def test_skipped_steps_are_told() -> None:
    assert "2 skipped" in shown(False, step(1, skipped=2))
    assert "nan" in shown(False, step(1, loss=float("nan")))


def test_a_terminal_shows_everything_at_once() -> None:
    records: list[LogEntry] = [
        step(10),
        step(20, 1.0),
        EvaluationRecord(20, 1.25, 10, 0.5, True),
        Sample(20, "uno", "won", "one"),
    ]
    picture = shown(True, *records)
    for part in (
        "step 20 of 100",
        "loss",
        "1.0000",
        "smoothed",
        "5,000",
        "1.2500",
        "uno",
        "→ won",
        "one",
        "left",
    ):
        assert part in picture


def test_markup_of_a_text_is_not_obeyed() -> None:
    assert "[bold red]" in shown(True, step(10), Sample(10, "[bold red]x", "[/] y", "z"))
    assert "[bold red]" in shown(False, Sample(10, "[bold red]x", "[/] y", "z"))


def test_a_curve_in_one_line() -> None:
    assert sparkline([1.0, 2.0, 3.0, 8.0], 10) == "▁▂▃█"
    assert sparkline([5.0, 5.0], 10) == "▁▁"
    assert len(sparkline([float(k) for k in range(1000)], 48)) <= 48
