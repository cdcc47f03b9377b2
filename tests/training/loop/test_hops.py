"""Two steps of look-up need two layers: the experiment of `benchmarks/hops_layers.py`, cut short."""

import importlib
from pathlib import Path

import pytest

import clearhead
from clearhead.config.run import RunConfig

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
STEPS = 1500  # half of what the recipes take: two layers know most answers by then


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.notes("N31")
def test_two_layers_answer_what_one_layer_can_only_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    experiment = importlib.import_module("hops_layers")

    def accuracy(recipe: str) -> float:
        config = RunConfig.read(recipe)
        training = config.training.replace(steps=STEPS, samples=0)
        model = clearhead.train(config.replace(training=training), tmp_path / recipe)
        right: float = experiment.accuracy(model)
        return right

    assert accuracy("hops-two-layers") > 0.6
    assert accuracy("hops-one-layer") < 0.45  # 1 of 3 objects
