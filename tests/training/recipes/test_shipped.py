"""The shipped recipes: every one is read, prepared and trained for two steps, and says why it differs."""

import tomllib
from pathlib import Path

import pytest

import clearhead
from clearhead.config.run import RunConfig, shipped
from clearhead.training.loop.records import StepRecord
from clearhead.training.run.run import make_run

NAMES = {
    "spanish-translator", "python-lm", "reviews-classifier", "dna-classifier", "hops-two-layers",
    "hops-one-layer", "shakespeare-reference", "shakespeare-char-quick",
    "spanish-recurrent", "python-lstm", "reviews-cnn", "reviews-lstm",
}  # fmt: skip


def test_the_promised_recipes_are_there() -> None:
    assert shipped().keys() >= NAMES


@pytest.mark.prove
@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_shipped_recipe_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for part in ("train", "validation"):
        play = "".join(f"KING {part}:\nSpeak {k}, and be brief.\n\n" for k in range(120))
        Path(f"shakespeare-{part}.txt").write_text(play, encoding="utf-8")
    little = {"training.steps": "2", "training.minutes": "none", "training.epochs": "none"}
    little |= {"training.evaluate_every": "none", "training.samples": "1", "training.batch_tokens": "1024"}
    if RunConfig.read(name).data.is_builtin:
        little |= {"data.count": "100", "data.validation": "0.1", "data.test": "0.1"}
    if name.startswith("python-"):
        little |= {"tokenizer.vocabulary": "300"}
    run = make_run(RunConfig.read(name, little), tmp_path / "run")
    assert [record.step for record in run.train() if isinstance(record, StepRecord)][-1] == 2
    assert (tmp_path / "run" / "report.html").exists()
    assert clearhead.load(tmp_path / "run" / "best").config.d == RunConfig.read(name).model.d


@pytest.mark.parametrize("name", sorted(shipped().keys() - {"shakespeare-reference"}))
def test_no_recipe_states_a_default(name: str) -> None:
    """A recipe says little: a setting that changes nothing is noise, but in the one to compare with."""
    stated = tomllib.loads(shipped()[name].read_text(encoding="utf-8"))
    run = RunConfig.read(name)
    for section in ("tokenizer", "model", "training", "decoding"):
        settings = getattr(run, section)
        for key in stated.get(section, {}).keys() - {"family"}:  # of which each has its own defaults
            assert getattr(settings, key) != type(settings).model_fields[key].default, f"{section}.{key}"
