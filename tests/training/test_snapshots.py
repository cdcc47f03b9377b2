"""A run that is taken up again ends with the bits of one that was never stopped."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors import safe_open

from clearhead.errors import CheckpointError
from clearhead.training import snapshots
from clearhead.training.trainer import EvaluationRecord, Record, StepRecord, Trainer
from tests.training.trainers import TASKS, make_trainer, same_bits, state_of

DROPOUT = {"dropout": 0.2}


def train_until(trainer: Trainer, step: int, folder: Path) -> tuple[Path, list[Record]]:
    """Trains up to the end of a step and keeps it there, as a run that is killed afterwards."""
    records = []
    for record in trainer.train():
        records.append(record)
        if record.step == step and trainer.is_last_of_step(record):
            break
    return snapshots.save(folder, trainer, keep=2), records


def facts(record: Record) -> tuple[Any, ...]:
    """What of a record does not depend on the clock."""
    if isinstance(record, EvaluationRecord):
        return (record.step, record.validation_loss, record.predictions, record.accuracy, record.is_best)
    return (
        record.step,
        record.epoch,
        record.loss,
        record.learning_rate,
        record.gradient_norm,
        record.skipped,
    )


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("average", ["none", "last", "exponential"])
def test_three_steps_and_three_more_are_six(task: str, optimizer: str, average: str, tmp_path: Path) -> None:
    def fresh() -> Trainer:
        return make_trainer(
            task, tmp_path, DROPOUT, optimizer=optimizer, average=average, average_last=2, evaluate_every=1,
            accumulate=2, label_smoothing=0.1,
        )  # fmt: skip

    whole = fresh()
    expected = list(map(facts, whole.train()))
    random = torch.get_rng_state()
    place, first = train_until(fresh(), 3, tmp_path / "checkpoints")
    again = fresh()
    torch.manual_seed(99)  # whatever else has drawn numbers in between
    torch.randn(7)
    snapshots.restore(place, again)
    found = [*map(facts, first), *map(facts, again.train())]
    assert found == expected
    assert same_bits(state_of(again), state_of(whole))
    assert torch.equal(torch.get_rng_state(), random)
    assert (again.position, again.step) == (whole.position, whole.step)
    assert (again.best_loss, again.evaluations_since_best) == (whole.best_loss, whole.evaluations_since_best)


@pytest.mark.parametrize("average", ["none", "last", "exponential"])
def test_a_snapshot_before_any_evaluation_or_step_is_one_too(average: str, tmp_path: Path) -> None:
    def fresh() -> Trainer:
        return make_trainer("translate", tmp_path, DROPOUT, average=average, average_last=2)

    trainer = fresh()
    place = snapshots.save(tmp_path / "checkpoints", trainer, keep=1)
    expected = list(map(facts, trainer.train()))
    again = fresh()
    snapshots.restore(place, again)
    assert again.best_loss == math.inf
    assert list(map(facts, again.train())) == expected
    assert same_bits(state_of(again), state_of(trainer))


def test_a_snapshot_is_safetensors_and_json_and_nothing_else(tmp_path: Path) -> None:
    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    for average in ("none", "last", "exponential"):
        trainer = make_trainer("translate", tmp_path, average=average, average_last=2)
        at_once = snapshots.save(tmp_path / average, trainer, keep=2)
        later, _ = train_until(trainer, 3, tmp_path / average)
        for place in (at_once, later):
            assert {path.name for path in place.iterdir()} == {"state.json", "state.safetensors"}
            read = json.loads((place / "state.json").read_text(), parse_constant=refuse)
            assert read["step"] == int(place.name.removeprefix("step-"))
            with safe_open(place / "state.safetensors", framework="pt") as file:
                assert {name.split(".")[0] for name in file.keys()} >= {"weights", "random"}  # noqa: SIM118


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    for step in (2, 9, 10, 11, 100):
        trainer.step = step
        assert snapshots.save(folder, trainer, keep=2).name == f"step-{step}"
    (folder / ".step-200.x.writing").mkdir()  # of a run that was killed
    (folder / "step-300").write_text("a file")
    (folder / "step-last").mkdir()
    assert [path.name for path in snapshots.snapshots(folder)] == ["step-11", "step-100"]
    assert snapshots.snapshots(tmp_path / "nothing") == []


def test_a_snapshot_of_the_same_step_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    snapshots.save(folder, trainer, keep=2)
    trainer.skipped = 4
    place = snapshots.save(folder, trainer, keep=2)
    assert json.loads((place / "state.json").read_text())["skipped"] == 4
    assert [path.name for path in folder.iterdir()] == ["step-0"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 8}, "step-3 is of a run with steps = 6, while this one has 8.\nGo on with the recipe and the data"),
        ({"optimizer": "adamw"}, "with training.optimizer = muon, while this one has adamw."),
        ({"average": "exponential"}, "with training.average = none, while this one has exponential."),
        ({"batch_tokens": 128}, "with training.batch_tokens = 256, while this one has 128."),
        ({"seed": 2}, "with training.seed = 1, while this one has 2."),
        ({"model": {"d": 12}}, "with other weights.\n"),
        ({"model": {"decoder_blocks": 2}}, "with other weights.\n"),
        ({"task": "classify"}, "with other data.\n"),
    ],
    ids=str,
)  # fmt: skip
def test_a_snapshot_of_another_run_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    task = changes.get("task", "translate")
    other = make_trainer(
        task, tmp_path / task, **{key: value for key, value in changes.items() if key != "task"}
    )
    before = state_of(other)
    with pytest.raises(CheckpointError) as caught:
        snapshots.restore(place, other)
    assert message in str(caught.value)
    assert same_bits(state_of(other), before)


def test_settings_that_change_no_state_may_change(tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    other = make_trainer("translate", tmp_path, {"dropout": 0.1}, learning_rate=1e-4, clip=None, log_every=2)
    snapshots.restore(place, other)
    assert [record.step for record in other.train() if isinstance(record, StepRecord)] == [4, 6]


def no_json(place: Path) -> None:
    (place / "state.json").unlink()


def bad_json(place: Path) -> None:
    (place / "state.json").write_text("{")


def other_json(place: Path) -> None:
    (place / "state.json").write_text("[]")


def lacking_json(place: Path) -> None:
    values = json.loads((place / "state.json").read_text())
    del values["position"]
    (place / "state.json").write_text(json.dumps(values))


def other_format(place: Path) -> None:
    values = json.loads((place / "state.json").read_text()) | {"format": 1}
    (place / "state.json").write_text(json.dumps(values))


def cut_tensors(place: Path) -> None:
    whole = (place / "state.safetensors").read_bytes()
    (place / "state.safetensors").write_bytes(whole[: len(whole) // 2])


def no_tensors(place: Path) -> None:
    (place / "state.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (no_json, "No such file"), (bad_json, "Expecting property name"), (other_json, "list indices"),
        (lacking_json, "it lacks 'position'"), (other_format, "its format is 1, and this version reads 2"),
        (cut_tensors, ""), (no_tensors, "No such file"),
    ],
)  # fmt: skip
def test_a_damaged_snapshot_is_named(damage: Callable[[Path], None], reason: str, tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    damage(place)
    with pytest.raises(CheckpointError) as caught:
        snapshots.restore(place, make_trainer("translate", tmp_path))
    said = str(caught.value)
    assert said.startswith(f"{place} cannot be read: ")
    assert reason in said
    assert said.endswith("Remove it to go on from the one before.")
