"""A run that is taken up again ends with the bits of one that was never stopped."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from clearhead.data.cache import checksum
from clearhead.data.prepare import prepare
from clearhead.errors import CheckpointError
from clearhead.models.build import build
from clearhead.training import snapshots
from clearhead.training.facts import FORMAT, compare, facts_of, identity, surroundings
from clearhead.training.plan import model_config
from clearhead.training.saver import copied
from clearhead.training.trainer import EvaluationRecord, Record, StepRecord, Trainer
from tests.training.trainers import TASKS, configured, make_trainer, same_bits, state_of

DROPOUT = {"dropout": 0.2}
TENSORS = "state-1-of-1.safetensors"


def save(folder: Path, trainer: Trainer, keep: int = 2) -> Path:
    """Writes the snapshot of this moment."""
    facts = facts_of(trainer, identity(trainer))
    return snapshots.write(folder, facts, copied(snapshots.tensors_of(trainer), {}), keep)


def restore(place: Path, trainer: Trainer) -> None:
    """Goes on from this one."""
    snapshots.restore(place, *snapshots.read(place), trainer)


def train_until(trainer: Trainer, step: int, folder: Path) -> tuple[Path, list[Record]]:
    """Trains up to the end of a step and keeps it there, as a run that is killed afterwards."""
    records = []
    for record in trainer.train():
        records.append(record)
        if record.step == step and trainer.is_last_of_step(record):
            break
    return save(folder, trainer), records


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
    restore(place, again)
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
    place = save(tmp_path / "checkpoints", trainer, keep=1)
    expected = list(map(facts, trainer.train()))
    again = fresh()
    restore(place, again)
    assert again.best_loss == math.inf
    assert list(map(facts, again.train())) == expected
    assert same_bits(state_of(again), state_of(trainer))


def test_a_snapshot_is_safetensors_and_json_and_nothing_else(tmp_path: Path) -> None:
    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    for average in ("none", "last", "exponential"):
        trainer = make_trainer("translate", tmp_path, average=average, average_last=2)
        at_once = save(tmp_path / average, trainer, keep=2)
        later, _ = train_until(trainer, 3, tmp_path / average)
        for place in (at_once, later):
            assert {path.name for path in place.iterdir()} == {
                "state.json",
                TENSORS,
                "checksums.json",
            }
            read = json.loads((place / "state.json").read_text(), parse_constant=refuse)
            assert read["step"] == int(place.name.removeprefix("step-"))
            assert {name.split(".")[0] for name in snapshots.read(place)[1]} >= {"weights", "random"}


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_who_may_read_a_snapshot_is_what_the_user_has_said(mask: int, tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path)
    before = os.umask(mask)
    try:
        place = save(tmp_path / "checkpoints", trainer)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o666 & ~mask}


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    for step in (2, 9, 10, 11, 100):
        trainer.step = step
        assert save(folder, trainer, keep=2).name == f"step-{step}"
    (folder / ".step-200.x.writing").mkdir()  # of a run that was killed
    (folder / "step-300").write_text("a file")
    (folder / "step-last").mkdir()
    assert [path.name for path in snapshots.snapshots(folder)] == ["step-11", "step-100"]
    assert snapshots.snapshots(tmp_path / "nothing") == []


def test_a_snapshot_of_the_same_step_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    save(folder, trainer, keep=2)
    trainer.skipped = 4
    place = save(folder, trainer, keep=2)
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
        ({"model": {"d": 12}}, "is of a run with model.d = "),
        ({"model": {"positions": "alibi"}}, "with model.positions = rotary, while this one has alibi"),
        ({"model": {"decoder_blocks": 2}}, "with model.decoder_blocks = 1, while this one has 2"),
        ({"task": "classify"}, "The training data is not what "),
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
        restore(place, other)
    assert message in str(caught.value)
    assert same_bits(state_of(other), before)


def test_settings_that_change_no_state_may_change(tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    other = make_trainer("translate", tmp_path, {"dropout": 0.1}, learning_rate=1e-4, clip=None, log_every=2)
    restore(place, other)
    assert [record.step for record in other.train() if isinstance(record, StepRecord)] == [4, 6]


# Damage: the one before is used, and the damaged one is named.


def flip(path: Path, place: int) -> None:
    """Changes one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Leaves half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(place: Path) -> None:
    for path in place.iterdir():
        path.unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a flipped bit of a tensor": lambda place: flip(place / TENSORS, -1),
    "a flipped bit of the header": lambda place: flip(place / TENSORS, 20),
    "a flipped bit of the facts": lambda place: flip(place / "state.json", 30),
    "a flipped bit of the checksums": lambda place: flip(place / "checksums.json", 30),
    "half the tensors": lambda place: cut(place / TENSORS),
    "half the facts": lambda place: cut(place / "state.json"),
    "half the checksums": lambda place: cut(place / "checksums.json"),
    "no tensors": lambda place: (place / TENSORS).unlink(),
    "no facts": lambda place: (place / "state.json").unlink(),
    "no checksums": lambda place: (place / "checksums.json").unlink(),
    "an empty folder": emptied,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_is_named_and_the_one_before_is_used(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "checkpoints"
    good, _ = train_until(make_trainer("translate", tmp_path), 2, folder)
    bad, _ = train_until(make_trainer("translate", tmp_path), 4, folder)
    DAMAGES[damage](bad)
    trainer = make_trainer("translate", tmp_path)
    assert snapshots.restore_newest(folder, trainer)
    assert trainer.step == 2
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{bad} is damaged: ")
    assert record.getMessage().endswith(" Going on from the one before.")
    assert "None" not in record.getMessage()
    save(folder, trainer)  # the next good one clears the damaged one away
    assert snapshots.snapshots(folder) == [good]


def test_a_single_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("classify", tmp_path), 2, tmp_path / "checkpoints")
    for path in sorted(place.iterdir()):
        for share in range(20):
            where = share * path.stat().st_size // 20
            flip(path, where)
            with pytest.raises(CheckpointError, match="is damaged"):
                snapshots.check(place)
            flip(path, where)
    snapshots.check(place)


def test_nothing_whole_is_an_error_and_nothing_at_all_a_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, folder = make_trainer("translate", tmp_path), tmp_path / "checkpoints"
    assert not snapshots.restore_newest(folder, trainer)
    folder.mkdir()
    (folder / ".step-3.abc.writing").mkdir()  # half renamed
    assert not snapshots.restore_newest(folder, trainer)
    for step in (3, 6):
        (folder / f"step-{step}").mkdir()
    with pytest.raises(CheckpointError) as caught:
        snapshots.restore_newest(folder, trainer)
    assert str(caught.value) == (
        f"None of the 2 checkpoints in {folder} is whole: there is nothing to go on from.\n"
        "Begin a new run, or start one from the model that is there: --training.init_from "
        f"{tmp_path / 'best'}."
    )
    goes_on = [record.getMessage().endswith(" Going on from the one before.") for record in caplog.records]
    assert goes_on == [True, False]  # there is none before the oldest


def test_another_format_is_refused(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path)
    facts = facts_of(trainer, identity(trainer)) | {"format": 99}
    place = snapshots.write(tmp_path / "checkpoints", facts, copied(snapshots.tensors_of(trainer), {}), 1)
    message = f"has format 99, but this version reads format {FORMAT}"
    with pytest.raises(CheckpointError, match=message):
        restore(place, trainer)
    (place / TENSORS).rename(place / "state.safetensors")  # other formats may call it so, which is no damage
    with pytest.raises(CheckpointError, match=message):
        snapshots.restore_newest(place.parent, trainer)


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
    facts, tensors = snapshots.read(place)
    whole = {key: kept[...] for key, kept in tensors.items()}
    name = next(key for key, tensor in whole.items() if key.startswith(kind) and tensor.ndim == 2)
    if value is None:
        del whole[name]
    else:
        whole[name] = value
    place = snapshots.write(tmp_path / "wrong", facts, whole, 1)
    snapshots.check(place)
    with pytest.raises(CheckpointError, match="is not a checkpoint as clearhead writes them"):
        restore(place, trainer)


GONE = object()
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


def rewrite(place: Path, name: str, value: object) -> None:
    """Changes a fact of a snapshot, and its checksum."""
    facts = json.loads((place / "state.json").read_text())
    if value is GONE:
        del facts[name]
    else:
        facts[name] = value
    (place / "state.json").write_text(json.dumps(facts))
    sums = json.loads((place / "checksums.json").read_text())
    (place / "checksums.json").write_text(json.dumps(sums | {"state.json": checksum(place / "state.json")}))


def test_right_checksums_of_wrong_facts_are_damage_too(
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
        assert snapshots.restore_newest(folder, trainer)
        assert (trainer.step, trainer.position.step, torch.get_num_threads()) == (2, 2, before)
        assert caplog.messages[0].startswith(f"{bad} is "), (name, value)
        assert caplog.messages[0].endswith(". Going on from the one before.")


# What changed around a run is noticed.


def test_other_data_are_noticed(tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    other = make_trainer("translate", tmp_path)
    splits = other.data.splits
    for split in ("train", "validation"):
        kept, splits[split] = splits[split], splits["test"]
        with pytest.raises(CheckpointError) as caught:
            restore(place, other)
        splits[split] = kept
        kind = "training" if split == "train" else split
        assert str(caught.value) == (
            f"The {kind} data is not what {place} was trained on: its files, or how they are read, have changed "
            "since.\nPut them back as they were to go on. Or begin a new run on the new data from the model that "
            f"is there: --training.init_from {tmp_path / 'best'}."
        )
    restore(place, other)


def test_threads_are_taken_up_again_unless_they_are_stated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = torch.get_num_threads()
    try:
        trainer = make_trainer("translate", tmp_path)
        torch.set_num_threads(3)
        place = save(tmp_path / "checkpoints", trainer)
        stated = make_trainer("translate", tmp_path)  # says threads = 1
        restore(place, stated)
        assert torch.get_num_threads() == 1
        assert [record.getMessage() for record in caplog.records] == [
            "The run goes on, but may not end with the same bits as one that never stopped: "
            "threads was 3 and is 1."
        ]
        caplog.clear()
        stated.training = stated.training.replace(threads=None)
        restore(place, stated)
        assert torch.get_num_threads() == 3
        assert not caplog.records
        facts, tensors = snapshots.read(place)
        facts["surroundings"] |= {"ranks": 2, "threads": 1}  # as two processes of torchrun have begun it
        snapshots.restore(place, facts, tensors, stated)
        assert torch.get_num_threads() == 3
        assert caplog.messages[0].endswith("ranks was 2 and is 1, threads was 1 and is 3.")
    finally:
        torch.set_num_threads(before)


def test_other_versions_and_choices_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = make_trainer("translate", tmp_path)
    now = surroundings(trainer)
    compare(now, now)
    assert not caplog.records
    compare(now | {"torch": "1.0", "compiled": True, "precision": "bfloat16"}, now)
    assert caplog.records[0].getMessage().endswith(
        f"torch was 1.0 and is {torch.__version__}, precision was bfloat16 and is float32, "
        "compiled was True and is False."
    )  # fmt: skip


# Weights that do not learn.


def frozen(folder: Path, **training: Any) -> Trainer:
    """A trainer whose encoder stays as it is."""
    config = configured("translate", folder, **training)
    data = prepare(config)
    model = build(model_config(config, data), seed=3)
    model.get_submodule("encoder").requires_grad_(False)
    return Trainer(config, data, model, 6)


@pytest.mark.parametrize("average", ["none", "last", "exponential"])
def test_only_what_learns_is_kept(average: str, tmp_path: Path) -> None:
    settings = {"average": average, "average_last": 2, "evaluate_every": 1}
    whole = frozen(tmp_path, **settings)
    expected = list(map(facts, whole.train()))
    place, first = train_until(frozen(tmp_path, **settings), 3, tmp_path / "checkpoints")
    names = snapshots.read(place)[1]
    assert not [name for name in names if "encoder." in name.replace("decoder.", "")]
    again = frozen(tmp_path, **settings)
    restore(place, again)
    assert [*map(facts, first), *map(facts, again.train())] == expected
    assert same_bits(state_of(again), state_of(whole))


def test_frozen_weights_that_changed_are_refused(tmp_path: Path) -> None:
    place, _ = train_until(frozen(tmp_path), 3, tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match="other weights that learn: they differ in encoder"):
        restore(place, make_trainer("translate", tmp_path))
    other = frozen(tmp_path)
    with torch.no_grad():
        next(other.model.get_submodule("encoder").parameters()).view(-1)[5].add_(1e-6)
    with pytest.raises(CheckpointError, match="goes with other frozen weights"):
        restore(place, other)
