"""What makes a transformer hard to train: the experiment of `benchmarks/norm_warmup.py`, cut short."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
STEPS = 80


@pytest.mark.prove
@pytest.mark.notes("N37")
def test_post_norm_without_warmup_stalls_where_pre_norm_or_warmup_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    experiment = importlib.import_module("norm_warmup")

    def last(placement: str, warmup: int) -> float:
        curve: dict[int, float] = experiment.losses(placement, warmup, STEPS, seed=1)
        return curve[STEPS]

    stalled, warmed_up, norm_first = last("post", 0), last("post", experiment.WARMUP), last("pre", 0)
    assert stalled > 4.3  # that words are unequally frequent is all it has learned
    assert max(warmed_up, norm_first) < 3.6
