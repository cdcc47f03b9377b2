"""A resumed run ends with the bits of one that never stopped; damaged checkpoints are skipped."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.errors import CheckpointError
from clearhead.training.checkpoints.files import FORMAT, list_checkpoints
from clearhead.training.checkpoints.restore import check, read, restore_latest
from clearhead.training.checkpoints.save import save
from clearhead.training.loop.trainer import Trainer
from tests.training.checkpoints.saved import (
    GONE,
    TENSORS,
    flip,
    frozen,
    restore_from,
    rewrite,
    save_now,
    timeless,
    train_until,
    truncate,
)
from tests.training.trainers import TASKS, make_trainer, same_bits, state_of

DROPOUT = {"dropout": 0.2}


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
    expected = list(map(timeless, whole.train()))
    random = torch.get_rng_state()
    place, first = train_until(fresh(), 3, tmp_path / "checkpoints")
    again = fresh()
    torch.manual_seed(99)  # whatever else has drawn numbers in between
    torch.randn(7)
    restore_from(place, again)
    found = [*map(timeless, first), *map(timeless, again.train())]
    assert found == expected
    assert same_bits(state_of(again), state_of(whole))
    assert torch.equal(torch.get_rng_state(), random)
    assert (again.position, again.step) == (whole.position, whole.step)
    assert (again.best_loss, again.evaluations_since_best) == (whole.best_loss, whole.evaluations_since_best)


@pytest.mark.parametrize("average", ["none", "last", "exponential"])
def test_a_checkpoint_before_any_evaluation_or_step_is_one_too(average: str, tmp_path: Path) -> None:
    def fresh() -> Trainer:
        return make_trainer("translate", tmp_path, DROPOUT, average=average, average_last=2)

    trainer = fresh()
    place = save_now(tmp_path / "checkpoints", trainer, keep=1)
    expected = list(map(timeless, trainer.train()))
    again = fresh()
    restore_from(place, again)
    assert again.best_loss == math.inf
    assert list(map(timeless, again.train())) == expected
    assert same_bits(state_of(again), state_of(trainer))


@pytest.mark.parametrize("average", ["none", "last", "exponential"])
def test_only_trained_weights_are_saved(average: str, tmp_path: Path) -> None:
    settings = {"average": average, "average_last": 2, "evaluate_every": 1}
    whole = frozen(tmp_path, **settings)
    expected = list(map(timeless, whole.train()))
    place, first = train_until(frozen(tmp_path, **settings), 3, tmp_path / "checkpoints")
    names = read(place)[1]
    assert not [name for name in names if "encoder." in name.replace("decoder.", "")]
    again = frozen(tmp_path, **settings)
    restore_from(place, again)
    assert [*map(timeless, first), *map(timeless, again.train())] == expected
    assert same_bits(state_of(again), state_of(whole))


def emptied(place: Path) -> None:
    for path in place.iterdir():
        path.unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a flipped bit of a tensor": lambda place: flip(place / TENSORS, -1),
    "a flipped bit of the header": lambda place: flip(place / TENSORS, 20),
    "a flipped bit of the metadata": lambda place: flip(place / "state.json", 30),
    "a flipped bit of the checksums": lambda place: flip(place / "checksums.json", 30),
    "half the tensors": lambda place: truncate(place / TENSORS),
    "half the metadata": lambda place: truncate(place / "state.json"),
    "half the checksums": lambda place: truncate(place / "checksums.json"),
    "no tensors": lambda place: (place / TENSORS).unlink(),
    "no metadata": lambda place: (place / "state.json").unlink(),
    "no checksums": lambda place: (place / "checksums.json").unlink(),
    "an empty folder": emptied,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "checkpoints"
    good, _ = train_until(make_trainer("translate", tmp_path), 2, folder)
    bad, _ = train_until(make_trainer("translate", tmp_path), 4, folder)
    DAMAGES[damage](bad)
    trainer = make_trainer("translate", tmp_path)
    assert restore_latest(folder, trainer)
    assert trainer.step == 2
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{bad} is damaged: ")
    assert record.getMessage().endswith(" Trying the one before.")
    assert "None" not in record.getMessage()
    save_now(folder, trainer)  # the next good one clears the damaged one away
    assert list_checkpoints(folder) == [good]


def test_a_single_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("classify", tmp_path), 2, tmp_path / "checkpoints")
    for path in sorted(place.iterdir()):
        for share in range(20):
            where = share * path.stat().st_size // 20
            flip(path, where)
            with pytest.raises(CheckpointError, match="is damaged"):
                check(place)
            flip(path, where)
    check(place)


def test_only_damaged_checkpoints_are_an_error_and_none_at_all_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    assert not restore_latest(folder, trainer)
    folder.mkdir()
    (folder / ".step-3.abc.writing").mkdir()  # half renamed
    assert not restore_latest(folder, trainer)
    for step in (3, 6):
        (folder / f"step-{step}").mkdir()
    with pytest.raises(CheckpointError) as caught:
        restore_latest(folder, trainer)
    assert str(caught.value) == (
        f"All 2 checkpoints in {folder} are damaged; the run cannot be resumed.\n"
        f"Start a new run, from the model of this one if you like: --training.init_from {tmp_path / 'best'}"
    )
    tries = [record.getMessage().endswith(" Trying the one before.") for record in caplog.records]
    assert tries == [True, False]  # there is none before the oldest


def test_another_format_is_refused(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path)
    place = save_now(tmp_path / "checkpoints", trainer, format=99)
    message = f"has format 99, but this version reads format {FORMAT}"
    with pytest.raises(CheckpointError, match=message):
        restore_from(place, trainer)
    (place / TENSORS).rename(place / "state.safetensors")  # other formats may call it so, which is no damage
    with pytest.raises(CheckpointError, match=message):
        restore_latest(place.parent, trainer)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("weights.", None),
        ("weights.", torch.ones(1, 1)),  # would be broadcast
        ("optimizer.", torch.ones(3)),
        ("random.", torch.ones(1, 3, dtype=torch.uint8)),
    ],
)
def test_right_checksums_of_wrong_contents_are_refused(
    kind: str, value: torch.Tensor | None, tmp_path: Path
) -> None:
    trainer = make_trainer("translate", tmp_path)
    place, _ = train_until(trainer, 2, tmp_path / "checkpoints")
    metadata, tensors = read(place)
    whole = {key: kept[...] for key, kept in tensors.items()}
    name = next(key for key, tensor in whole.items() if key.startswith(kind) and tensor.ndim == 2)
    if value is None:
        del whole[name]
    else:
        whole[name] = value
    place = save(tmp_path / "wrong", metadata, whole, 1)
    check(place)
    with pytest.raises(CheckpointError, match="is not a checkpoint as clearhead writes them"):
        restore_from(place, trainer)


NAN = math.nan
WRONG: dict[str, list[Any]] = {
    "step": [GONE, "4", 4.5, -1, 3, None],
    "seconds": [GONE, "1", NAN, math.inf, None, []],
    "best_loss": [GONE, "1", NAN, math.inf, {}],
    "skipped": [GONE, "0", 0.5, -1, 5, None],
    "skipped_in_a_row": [GONE, "0", 0.5, -1, 5, None],
    "evaluations_since_best": [GONE, "0", 0.5, -1, 5, None],
    "position": [GONE, None, 3, [0], [0, 0, 0], ["a", 0], [0, -1], [0, 4], [5, 0], {}],
    "run": [GONE, None, [], "x"],
    "surroundings": [GONE, None, [], {}, {"ranks": 1, "threads": 0}, {"ranks": 1, "threads": "x"}],
    "parts": [GONE, 0, 2, -1, "x", None],
}


def test_right_checksums_of_wrong_metadata_are_damage_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, trainer = tmp_path / "checkpoints", make_trainer("translate", tmp_path)
    assert trainer.batches.count(0) == 4
    for step in (2, 4):
        bad, _ = train_until(trainer, step, folder)
    trainer.training = trainer.training.replace(threads=None)
    kept, before = {path: path.read_bytes() for path in bad.iterdir()}, torch.get_num_threads()
    for name, value in ((name, value) for name, values in WRONG.items() for value in values):
        for path, content in kept.items():
            path.write_bytes(content)
        rewrite(bad, name, value)
        caplog.clear()
        assert restore_latest(folder, trainer)
        assert (trainer.step, trainer.position.step, torch.get_num_threads()) == (2, 2, before)
        assert caplog.messages[0].startswith(f"{bad} is "), (name, value)
        assert caplog.messages[0].endswith(". Trying the one before.")
