"""`training.watch_heads`: the scores of heads at every evaluation, in the log and in the report."""

from pathlib import Path

import clearhead
from clearhead.config.run import RunConfig
from clearhead.training.reporting.history import HeadScores, line_of, read_log, record_of
from clearhead.training.reporting.sections import heads_section


def test_scores_are_logged_and_drawn(tmp_path: Path) -> None:
    lines = [f"the cat number {one} sat on the green table\n" for one in range(60)]
    (tmp_path / "text.txt").write_text("".join(lines), encoding="utf-8")
    table = {
        "task": "language-model",
        "data": {"train": str(tmp_path / "text.txt"), "validation": 0.2},
        "tokenizer": {"kind": "word"},
        "model": {"d": 16, "h": 2, "decoder_blocks": 1, "context": 16},
        "training": {"steps": 2, "evaluate_every": 1, "batch_tokens": 64, "watch_heads": True, "samples": 0},
    }
    config = RunConfig.model_validate(table)
    clearhead.train(config, tmp_path / "run")
    found = read_log(tmp_path / "run/log.jsonl").heads
    assert [record.step for record in found] == [1, 2]
    assert set(found[0].scores["induction"]) == {"decoder.0.self.0", "decoder.0.self.1"}
    assert 0 <= found[0].scores["previous"]["decoder.0.self.1"] <= 1
    assert "<h2>Heads</h2>" in (tmp_path / "run/report.html").read_text(encoding="utf-8")


def test_a_record_survives_the_log_and_low_scores_are_not_drawn() -> None:
    record = HeadScores(3, {"induction": {"decoder.1.self.0": 0.75}, "first": {"decoder.1.self.0": 0.1}})
    assert record_of(line_of(record)) == record
    drawn = str(heads_section([record], 10.0))
    assert "induction: decoder.1.self.0 0.75" in drawn
    assert "first:" not in drawn
    assert heads_section([], 10.0) is None
