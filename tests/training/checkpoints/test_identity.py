"""A checkpoint of another run is refused; a changed environment is warned of."""

from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.errors import CheckpointError
from clearhead.training.checkpoints.identity import environment_of, warn_of_changes
from clearhead.training.checkpoints.restore import read, restore
from clearhead.training.loop.records import StepRecord
from tests.training.checkpoints.saved import frozen, restore_from, save_now, train_until
from tests.training.trainers import make_trainer, same_bits, state_of


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 8}, "step-3 belongs to a run of 6 steps, which cannot become 8.\nA run can be extended once"),
        ({"optimizer": "adamw"}, "with training.optimizer = muon, while this one has adamw."),
        ({"average": "exponential"}, "with training.average = none, while this one has exponential."),
        ({"batch_tokens": 128}, "with training.batch_tokens = 256, while this one has 128."),
        ({"seed": 2}, "with training.seed = 1, while this one has 2."),
        ({"model": {"d": 12}}, "belongs to a run with model.d = "),
        ({"model": {"positions": "alibi"}}, "with model.positions = rotary, while this one has alibi"),
        ({"model": {"decoder_blocks": 2}}, "with model.decoder_blocks = 1, while this one has 2"),
        ({"task": "classify"}, "was trained on other training data: "),
    ],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_of_another_run_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    task = changes.get("task", "translate")
    other = make_trainer(
        task, tmp_path / task, **{key: value for key, value in changes.items() if key != "task"}
    )
    before = state_of(other)
    with pytest.raises(CheckpointError) as caught:
        restore_from(place, other)
    assert message in str(caught.value)
    assert same_bits(state_of(other), before)


def test_settings_that_change_no_state_may_change(tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    other = make_trainer("translate", tmp_path, {"dropout": 0.1}, learning_rate=1e-4, clip=None, log_every=2)
    restore_from(place, other)
    assert [record.step for record in other.train() if isinstance(record, StepRecord)] == [4, 6]


def test_other_data_are_noticed(tmp_path: Path) -> None:
    place, _ = train_until(make_trainer("translate", tmp_path), 3, tmp_path / "checkpoints")
    other = make_trainer("translate", tmp_path)
    splits = other.data.splits
    for split in ("train", "validation"):
        kept, splits[split] = splits[split], splits["test"]
        with pytest.raises(CheckpointError) as caught:
            restore_from(place, other)
        splits[split] = kept
        kind = "training" if split == "train" else split
        assert str(caught.value) == (
            f"{place} was trained on other {kind} data: the files, or how they are read, have changed since.\n"
            "Restore them to resume. Or start a new run on the new data from the model of this one: "
            f"--training.init_from {tmp_path / 'best'}"
        )
    restore_from(place, other)


def test_threads_are_restored_unless_they_are_stated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = torch.get_num_threads()
    try:
        trainer = make_trainer("translate", tmp_path)
        torch.set_num_threads(3)
        place = save_now(tmp_path / "checkpoints", trainer)
        stated = make_trainer("translate", tmp_path)  # says threads = 1
        restore_from(place, stated)
        assert torch.get_num_threads() == 1
        assert [record.getMessage() for record in caplog.records] == [
            "The run resumes, but may not end with the same bits as one that never stopped: "
            "threads was 3 and is 1."
        ]
        caplog.clear()
        stated.training = stated.training.replace(threads=None)
        restore_from(place, stated)
        assert torch.get_num_threads() == 3
        assert not caplog.records
        metadata, tensors = read(place)
        metadata["surroundings"] |= {"ranks": 2, "threads": 1}  # as two processes of torchrun have started it
        restore(place, metadata, tensors, stated)
        assert torch.get_num_threads() == 3
        assert caplog.messages[0].endswith("ranks was 2 and is 1, threads was 1 and is 3.")
    finally:
        torch.set_num_threads(before)


def test_other_versions_and_choices_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = make_trainer("translate", tmp_path)
    now = environment_of(trainer)
    warn_of_changes(now, now)
    assert not caplog.records
    warn_of_changes(now | {"torch": "1.0", "compiled": True, "precision": "bfloat16"}, now)
    assert caplog.records[0].getMessage().endswith(
        f"torch was 1.0 and is {torch.__version__}, precision was bfloat16 and is float32, "
        "compiled was True and is False."
    )  # fmt: skip


def test_frozen_weights_that_changed_are_refused(tmp_path: Path) -> None:
    place, _ = train_until(frozen(tmp_path), 3, tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match="other trained weights: they differ in encoder"):
        restore_from(place, make_trainer("translate", tmp_path))
    other = frozen(tmp_path)
    with torch.no_grad():
        next(other.model.get_submodule("encoder").parameters()).view(-1)[5].add_(1e-6)
    with pytest.raises(CheckpointError, match="was trained with other frozen weights"):
        restore_from(place, other)
