"""`training.keep_models`: the weights after some steps, which the explorer scrubs through."""

from pathlib import Path

import pytest

import clearhead
from clearhead.errors import ModelFolderError
from clearhead.inspection.kept_models import keep_model, kept_models, kept_steps, load_kept
from clearhead.model_folder import Bundle, weights_of
from clearhead.training.reporting.history import read_log
from tests.training.small import small_config, small_run
from tests.training.trainers import same_bits


def test_more_models_are_kept_from_the_start_of_a_run() -> None:
    assert sorted(kept_steps(5, 400)) == [0, 25, 100, 225, 400]
    assert kept_steps(0, 400) == set()
    assert kept_steps(1, 400) == {0}
    assert kept_steps(50, 3) == {0, 1, 2, 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps that has kept three models."""
    folder = tmp_path_factory.mktemp("kept")
    clearhead.train(small_config("translate", folder, keep_models=3), folder / "run")
    return folder / "run"


def test_a_run_keeps_its_models_with_the_loss_before_them(run: Path) -> None:
    kept = kept_models(run)
    assert [one.step for one in kept] == [0, 2, 6]
    losses = {record.step: record.loss for record in read_log(run / "log.jsonl").steps}
    assert [one.loss for one in kept] == [None, losses[2], losses[6]]
    assert kept_models(run / "best") == kept
    assert kept_models(run / "checkpoints") == []


def test_the_last_one_is_the_last_model_and_the_first_is_untrained(run: Path) -> None:
    last = clearhead.load(run / "last")
    first, _, end = (weights_of(load_kept(last.bundle, one).module) for one in kept_models(run))
    assert same_bits(end, weights_of(last.module))
    assert not same_bits(first, weights_of(last.module))


def test_a_killed_run_keeps_the_same_models(run: Path, tmp_path: Path) -> None:
    stopped = small_run("translate", tmp_path, keep_models=3)
    for record in stopped.train():
        if record.step == 4:
            stopped.stop()
    resumed = small_run("translate", tmp_path, keep_models=3)
    list(resumed.train(resume=True))
    bundle = clearhead.load(run / "last").bundle
    for ours, theirs in zip(kept_models(tmp_path / "run"), kept_models(run), strict=True):
        assert (ours.step, ours.loss) == (theirs.step, theirs.loss)
        weights = (weights_of(load_kept(bundle, one).module) for one in (ours, theirs))
        assert same_bits(*weights)


def test_int8_models_are_kept_in_int8(run: Path, tmp_path: Path) -> None:
    model = clearhead.load(run / "last", int8=True)
    place = keep_model(tmp_path, model.bundle, 6, 1.5)
    assert place.stat().st_size < kept_models(run)[-1].path.stat().st_size
    (kept,) = kept_models(tmp_path)
    found = load_kept(Bundle(model.module, model.tokenizer), kept)
    assert found.is_int8
    assert same_bits(weights_of(found.module), weights_of(model.module))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/step-3.safetensors").write_bytes(b"PK no")
    with pytest.raises(ModelFolderError, match=r"step-3\.safetensors is a pickle"):
        kept_models(tmp_path)
