"""The log of a run: what is written is read, and a run that goes on cuts it where it goes on."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.reporting.history import (
    History,
    LogEntry,
    Sample,
    line_of,
    read_log,
    records_of,
    truncate_log,
)

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
counts = st.integers(0, 10_000)
records = st.one_of(
    st.builds(StepRecord, counts, numbers, numbers, numbers, numbers, numbers, numbers, numbers, counts),
    st.builds(EvaluationRecord, counts, numbers, counts, numbers, st.booleans()),
    st.builds(Sample, counts, st.text(), st.text(), st.none() | st.text()),
)


def write(path: Path, kept: list[LogEntry]) -> Path:
    path.write_text("".join(map(line_of, kept)), encoding="utf-8", newline="\n")
    return path


@given(st.lists(records, max_size=8))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, kept: list[LogEntry]) -> None:
    path = write(tmp_path_factory.mktemp("log") / "log.jsonl", kept)
    assert records_of(path) == (kept, "")


@given(st.lists(records, max_size=8), counts)
def test_a_cut_log_holds_what_came_up_to_the_step(
    tmp_path_factory: pytest.TempPathFactory, kept: list[LogEntry], step: int
) -> None:
    path = write(tmp_path_factory.mktemp("log") / "log.jsonl", kept)
    history = truncate_log(path, step)
    left = [record for record in kept if record.step <= step]
    assert records_of(path) == (left, "")
    assert history == read_log(path)
    assert [path.name for path in path.parent.iterdir()] == ["log.jsonl"]


def test_half_a_line_at_the_end_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [Sample(1, "a", "b")])
    path.write_text(path.read_text() + '{"kind": "sam')
    assert read_log(path).samples == [Sample(1, "a", "b")]


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert truncate_log(tmp_path / "log.jsonl", 5) == History()


BROKEN = [
    "nonsense",
    "[]",
    "[" * 100_000,
    '{"kind": "dream"}',
    '{"kind": "sample", "step": 1}',
    '{"kind": "sample", "step": "1", "given": "a", "made": "b", "wanted": null}',
    '{"kind": "sample", "step": 1, "given": "a", "made": "b", "wanted": null, "more": 1}',
    '{"kind": "evaluation", "step": 1, "validation_loss": [], "predictions": 1, "accuracy": 0.5, "is_best": true}',
]


@pytest.mark.parametrize("line", BROKEN, ids=[line[:60] for line in BROKEN])
def test_a_log_is_read_up_to_a_line_that_is_no_record(
    tmp_path: Path, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(line_of(Sample(1, "a", "b")) + line + "\n" + line_of(Sample(2, "c", "d")))
    assert read_log(path).samples == [Sample(1, "a", "b")]
    assert not caplog.records
    assert truncate_log(path, 5) == read_log(path)
    assert path.read_text() == line_of(Sample(1, "a", "b"))
    assert (
        caplog.records[0].getMessage().startswith(f"{path} has a damaged line and was truncated before it: ")
    )


def test_a_byte_that_is_no_text_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = line_of(Sample(1, "a", "X")) + line_of(Sample(2, "c", "d"))
    path.write_bytes(lines.encode().replace(b"X", b"\xff"))
    assert truncate_log(path, 5).samples == [Sample(1, "a", "\N{REPLACEMENT CHARACTER}"), Sample(2, "c", "d")]


def test_the_best_and_the_last() -> None:
    history = History()
    assert (history.step, history.best, history.last_samples()) == (0, None, [])
    for step, loss in ((5, 2.0), (10, 1.0), (15, 3.0)):
        history.add(EvaluationRecord(step, loss, 7, 0.5, step < 15))
        history.add(Sample(step, "a", str(step)))
        history.add(Sample(step, "b", str(step)))
    assert history.best is not None
    assert (history.step, history.best.step) == (15, 10)
    assert [sample.given for sample in history.last_samples()] == ["a", "b"]


def test_where_the_best_model_is_gone_the_last_one_stands_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    found = [EvaluationRecord(5, 1.0, 7, 0.5, True), EvaluationRecord(10, 2.0, 7, 0.5, False)]
    write(path, [*found])
    assert truncate_log(path, 20).best == found[0]
    assert truncate_log(path, 20, has_best=False).best == found[1]
    assert read_log(path).best == found[1]
    new = EvaluationRecord(15, 1.5, 7, 0.5, True)  # better than any since
    write(path, [*read_log(path).evaluations, new, EvaluationRecord(20, 1.7, 7, 0.5, False)])
    assert read_log(path).best == new


def test_a_loss_that_is_no_number_is_null_in_the_log_and_comes_back(tmp_path: Path) -> None:
    record = StepRecord(1, 0.0, math.nan, 1e-3, math.nan, 10.0, 1.0, 0.0, 1)
    assert json.loads(line_of(record))["loss"] is None
    (tmp_path / "log.jsonl").write_text(line_of(record), encoding="utf-8")
    ((read,), _) = records_of(tmp_path / "log.jsonl")
    assert repr(read) == repr(record)


def test_a_log_that_lost_its_power_is_cut_before_the_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "log.jsonl", [Sample(1, "a", "b")])
    path.write_text(path.read_text() + "\0\0\0\n" + line_of(Sample(2, "c", "d")))
    assert truncate_log(path, 5).samples == [Sample(1, "a", "b")]
    assert read_log(path).samples == [Sample(1, "a", "b")]
    assert (
        caplog.records[0].getMessage().startswith(f"{path} has a damaged line and was truncated before it: ")
    )
