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
from clearhead.training import snapshots
from clearhead.training.facts import FORMAT
from clearhead.training.parts import part_names, read_parts, write_part
from clearhead.training.teams import DONE, Team
from tests.training.test_snapshots import cut, flip

WAIT = 600.0  # seconds, for a machine that is busy
FACTS = {"format": FORMAT, "run": {}}


class Threads(Team):
    """A team of threads in the place of ranks."""

    def __init__(self, number: int, texts: list[str], barrier: Barrier) -> None:
        super().__init__()
        self.size, self.number, self.token, self.group = len(texts), number, "0", object()
        self.texts, self.barrier = texts, barrier

    def told(self, text: str) -> list[str]:
        self.texts[self.number] = text
        self.barrier.wait(WAIT)
        told = list(self.texts)
        self.barrier.wait(WAIT)  # nobody tells the next before all have heard this
        return told


def all_do(count: int, do: Callable[[Team], Any]) -> list[Any]:
    """What each of so many threads makes of its place in a team, or its error."""
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
    for number, name in enumerate(part_names(count)):
        alone = {"whole": X[0].clone(), "number": torch.tensor(7)} if number == 0 else {}
        write_part(folder / name, {"X": rows(X, number, count), **alone})
    kept = read_parts(folder, count)
    assert torch.equal(kept["X"][first:last], X[first:last])
    assert torch.equal(kept["X"][...], X)
    assert torch.equal(kept["whole"][...], X[0])
    assert torch.equal(kept["number"][...], torch.tensor(7))
    shapes = {name: tensor.shape for name, tensor in kept.items()}
    assert shapes == {"X": (length, 3), "whole": (3,), "number": ()}


X = torch.arange(15.0).reshape(5, 3)


def save(folder: Path, step: int, count: int) -> list[Any]:
    """What becomes of a save by so many, of which each has some rows of X."""
    facts = FACTS | {"step": step}
    return all_do(
        count,
        lambda team: snapshots.write(folder, facts, {"X": rows(X, team.number, count)}, 2, team),
    )


def test_a_part_holds_the_rows_of_its_rank_and_no_others(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        assert save(tmp_path, step, 2) == [tmp_path / f"step-{step}"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-2", "step-3"]
    place = tmp_path / "step-3"
    parts = ["state-1-of-2.safetensors", "state-2-of-2.safetensors"]
    assert sorted(path.name for path in place.iterdir()) == ["checksums.json", *parts, "state.json"]
    (first, second) = snapshots.read(place)[1]["X"].pieces
    assert torch.equal(first[:], X[:3])
    assert torch.equal(second[:], X[3:])
    snapshots.check(place)


def test_parts_on_disks_that_are_not_shared_make_no_checkpoint(tmp_path: Path) -> None:
    def elsewhere(team: Team) -> Path:
        folder = tmp_path / f"machine {team.number}"
        return snapshots.write(folder, FACTS | {"step": 1}, {"X": rows(X, team.number, 2)}, 2, team)

    error, _ = all_do(2, elsewhere)
    assert isinstance(error, TrainingError)
    assert "state-2-of-2.safetensors" in str(error)
    assert "on a disk that they share" in str(error)
    assert not snapshots.snapshots(tmp_path / "machine 0")


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "cut": cut,
    "flipped": lambda path: flip(path, -1),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("readers", [1, 2, 4])
def test_a_damaged_part_is_named_by_whoever_looks_at_it(
    readers: int, part: int, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2):
        save(tmp_path, step, 3)
    name = f"state-{part}-of-3.safetensors"
    DAMAGES[damage](tmp_path / "step-2" / name)
    found = all_do(readers, lambda team: snapshots.newest_good(tmp_path, team))
    assert found == [tmp_path / "step-1"] * readers
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{tmp_path / 'step-2'} is damaged: ")
    assert record.getMessage().endswith(" Going on from the one before.")
    assert name in record.getMessage()


def test_where_one_part_cannot_be_written_there_is_no_checkpoint_and_all_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, 3)

    def write(path: Path, tensors: dict[str, Tensor]) -> str:
        if "-3-of-" in path.name:
            raise OSError(5, "Input/output error")
        return write_part(path, tensors)

    monkeypatch.setattr(snapshots, "write_part", write)
    first, second, third = save(tmp_path, 2, 3)
    assert isinstance(third, OSError)
    for error in (first, second):
        assert isinstance(error, TrainingError)
        assert str(error) == (
            "Rank 2 could not write its part of a checkpoint: [Errno 5] Input/output error.\n"
            "What was kept before is whole. When the cause is gone, go on with --resume."
        )
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]


def test_a_team_of_one_waits_for_nobody() -> None:
    team = Team()
    assert (team.size, team.number) == (1, 0)
    assert team.told("x") == ["x"]
    assert team.each(lambda: DONE) == [DONE]
    assert team.token != Team().token
