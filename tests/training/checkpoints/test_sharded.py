"""Tensors in several files are the tensors, however they were cut and whichever rows are asked for."""

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.errors import TrainingError
from clearhead.training.checkpoints import save as saving
from clearhead.training.checkpoints.files import FORMAT, list_checkpoints, shard_names
from clearhead.training.checkpoints.group import DONE, CheckpointGroup
from clearhead.training.checkpoints.restore import check, latest_undamaged, read
from clearhead.training.checkpoints.save import save
from clearhead.training.checkpoints.sharded import read_shards, write_shard
from tests.training.checkpoints.saved import flip, truncate

WAIT = 600.0  # seconds, for a machine that is busy
METADATA = {"format": FORMAT, "run": {}}


class Threads(CheckpointGroup):
    """A group of threads in the place of ranks."""

    def __init__(self, number: int, texts: list[str], barrier: Barrier) -> None:
        super().__init__()
        self.size, self.rank, self.token, self.process_group = len(texts), number, "0", object()
        self.texts, self.barrier = texts, barrier

    def gather(self, text: str) -> list[str]:
        self.texts[self.rank] = text
        self.barrier.wait(WAIT)
        gathered = list(self.texts)
        self.barrier.wait(WAIT)  # nobody writes the next before all have read this
        return gathered


def all_do(count: int, do: Callable[[CheckpointGroup], Any]) -> list[Any]:
    """What each of so many threads makes of its place in a group, or its error."""
    texts, barrier, made = [""] * count, Barrier(count), [None] * count

    def one(number: int) -> None:
        try:
            made[number] = do(Threads(number, texts, barrier))
        except Exception as error:
            made[number] = error  # type: ignore[call-overload]

    threads = [Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def rows(X: Tensor, number: int, count: int) -> Tensor:
    """What FSDP keeps of a tensor on one of so many ranks."""
    size = -(-len(X) // count)
    return X[number * size :][:size]


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 9), st.integers(0, 9))
def test_any_rows_are_found_again_in_any_number_of_parts(
    tmp_path_factory: pytest.TempPathFactory, length: int, count: int, first: int, last: int
) -> None:
    folder, X = tmp_path_factory.mktemp("parts"), torch.arange(length * 3.0).reshape(length, 3)
    for number, name in enumerate(shard_names(count)):
        alone = {"whole": X[0].clone(), "number": torch.tensor(7)} if number == 0 else {}
        write_shard(folder / name, {"X": rows(X, number, count), **alone})
    kept = read_shards(folder, count)
    assert torch.equal(kept["X"][first:last], X[first:last])
    assert torch.equal(kept["X"][...], X)
    assert torch.equal(kept["whole"][...], X[0])
    assert torch.equal(kept["number"][...], torch.tensor(7))
    shapes = {name: tensor.shape for name, tensor in kept.items()}
    assert shapes == {"X": (length, 3), "whole": (3,), "number": ()}


X = torch.arange(15.0).reshape(5, 3)


def save_together(folder: Path, step: int, count: int) -> list[Any]:
    """What becomes of a save by so many, of which each has some rows of X."""
    metadata = METADATA | {"step": step}
    return all_do(
        count,
        lambda group: save(folder, metadata, {"X": rows(X, group.rank, count)}, 2, group),
    )


def test_a_part_holds_the_rows_of_its_rank_and_no_others(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        assert save_together(tmp_path, step, 2) == [tmp_path / f"step-{step}"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-2", "step-3"]
    place = tmp_path / "step-3"
    parts = ["state-1-of-2.safetensors", "state-2-of-2.safetensors"]
    assert sorted(path.name for path in place.iterdir()) == ["checksums.json", *parts, "state.json"]
    (first, second) = read(place)[1]["X"].slices
    assert torch.equal(first[:], X[:3])
    assert torch.equal(second[:], X[3:])
    check(place)


def test_parts_on_disks_that_are_not_shared_make_no_checkpoint(tmp_path: Path) -> None:
    def elsewhere(group: CheckpointGroup) -> Path:
        folder = tmp_path / f"machine {group.rank}"
        return save(folder, METADATA | {"step": 1}, {"X": rows(X, group.rank, 2)}, 2, group)

    error, _ = all_do(2, elsewhere)
    assert isinstance(error, TrainingError)
    assert "state-2-of-2.safetensors" in str(error)
    assert "on a shared disk" in str(error)
    assert not list_checkpoints(tmp_path / "machine 0")


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "cut": truncate,
    "flipped": lambda path: flip(path, -1),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("readers", [1, 2, 4])
def test_a_damaged_part_is_named_by_whoever_looks_at_it(
    readers: int, part: int, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2):
        save_together(tmp_path, step, 3)
    name = f"state-{part}-of-3.safetensors"
    DAMAGES[damage](tmp_path / "step-2" / name)
    found = all_do(readers, lambda group: latest_undamaged(tmp_path, group))
    assert found == [tmp_path / "step-1"] * readers
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{tmp_path / 'step-2'} is damaged: ")
    assert record.getMessage().endswith(" Trying the one before.")
    assert name in record.getMessage()


def test_where_one_part_cannot_be_written_there_is_no_checkpoint_and_all_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_together(tmp_path, 1, 3)

    def write(path: Path, tensors: dict[str, Tensor]) -> str:
        if "-3-of-" in path.name:
            raise OSError(5, "Input/output error")
        return write_shard(path, tensors)

    monkeypatch.setattr(saving, "write_shard", write)
    first, second, third = save_together(tmp_path, 2, 3)
    assert isinstance(third, OSError)
    for error in (first, second):
        assert isinstance(error, TrainingError)
        assert str(error) == (
            "Rank 2 could not write its part of a checkpoint: [Errno 5] Input/output error.\n"
            "Earlier checkpoints are undamaged. Fix the cause, then resume with --resume."
        )
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]


def test_a_group_of_one_rank_waits_for_nobody() -> None:
    group = CheckpointGroup()
    assert (group.size, group.rank) == (1, 0)
    assert group.gather("x") == ["x"]
    assert group.all_or_none(lambda: DONE) == [DONE]
    assert group.token != CheckpointGroup().token
