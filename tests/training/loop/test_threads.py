"""Threads of our own: the same gradients as the whole batch, and the same bits whichever thread is slower."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.data.batching.batches import Position
from clearhead.training.loop import threads, trainer
from clearhead.training.loop.threads import one_core_each, own_threads, share_out, spread
from tests.training.trainers import TASKS, make_trainer, weights_of


@pytest.fixture(autouse=True)
def _threads_restored() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def learned(task: str, folder: Path, count: int, steps: int = 3, **settings: Any) -> dict[str, torch.Tensor]:
    """The weights after some steps on so many threads."""
    model = settings.pop("model", None)
    made = make_trainer(task, folder, model, batch_tokens=512, **settings)
    torch.set_num_threads(count)
    for step in range(steps):
        made.update(made.batches.at(Position(0, step % made.batches.count(0))))
        made.step += 1
    assert torch.get_num_threads() == count
    return weights_of(made)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_threads_learn_what_one_learns(task: str, optimizer: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"optimizer": optimizer, "epsilon": 1e-2, "label_smoothing": 0.1}
    one, three = (learned(task, tmp_path, count, **settings) for count in (1, 3))
    assert max(float((three[name] - one[name]).abs().max()) for name in one) < 2e-5


def test_micro_batches_are_split_too(tmp_path: Path) -> None:
    one, two = (learned("translate", tmp_path, count, accumulate=3, epsilon=1e-2) for count in (1, 2))
    assert max(float((two[name] - one[name]).abs().max()) for name in one) < 2e-5


def test_bits_do_not_depend_on_which_thread_is_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, so that a generator shared by the threads would be noticed."""
    model = {"dropout": 0.3}
    expected = learned("translate", tmp_path, 3, model=model)
    numbers = random.Random(1)

    def delayed(task: Any, items: Any) -> Any:
        def run(item: Any) -> Any:
            time.sleep(numbers.random() * 0.02)
            return task(item)

        return spread(run, items)

    monkeypatch.setattr(trainer, "spread", delayed)
    for _ in range(3):
        found = learned("translate", tmp_path, 3, model=model)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("model", "settings"),
    [({"attention_dropout": 0.1}, {}), ({}, {"recompute": True})],
    ids=["attention dropout", "recomputation"],
)
def test_what_threads_cannot_repeat_is_left_to_pytorch(
    model: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    assert not make_trainer("language-model", tmp_path, model, **settings).splits_batches
    assert make_trainer("language-model", tmp_path).splits_batches


def test_an_evaluation_is_the_same_on_threads(tmp_path: Path) -> None:
    made = make_trainer("translate", tmp_path)
    torch.set_num_threads(1)
    one = made.evaluate()
    torch.set_num_threads(3)
    three = made.evaluate()
    assert three.validation_loss == pytest.approx(one.validation_loss, rel=1e-5)
    assert (three.predictions, three.accuracy) == (one.predictions, one.accuracy)


def test_each_thread_has_one_core_and_all_are_given_back() -> None:
    torch.set_num_threads(2)
    with one_core_each():
        assert (own_threads(), torch.get_num_threads()) == (2, 1)
        assert spread(lambda item: (item, torch.get_num_threads(), own_threads()), "ab") == [
            ("a", 1, 1),
            ("b", 1, 1),
        ]
    assert (own_threads(), torch.get_num_threads()) == (1, 2)
    with one_core_each(is_wanted=False):
        assert (own_threads(), torch.get_num_threads()) == (1, 2)


def test_an_error_in_a_thread_arrives_when_the_others_are_done() -> None:
    done = []

    def task(item: int) -> None:
        if item == 0:
            raise ValueError("the first")
        time.sleep(0.05)
        done.append(item)

    with pytest.raises(ValueError, match="the first"):
        spread(task, [0, 1])
    assert done == [1]


def test_items_are_shared_out_alike_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "own_threads", lambda: 3)
    assert share_out(list(range(7))) == [[0, 3, 6], [1, 4], [2, 5]]
    assert share_out([1]) == [[1]]


@pytest.mark.parametrize("task", TASKS)
def test_products_in_bfloat16_learn_nearly_the_same(task: str, tmp_path: Path) -> None:
    """And without a warning, of which PyTorch gives one where norms of queries and keys mix formats."""
    settings: dict[str, Any] = {"model": {"query_key_norm": True}, "epsilon": 1e-2}
    exact, rounded = (
        learned(task, tmp_path, 2, precision=precision, **settings) for precision in ("float32", "bfloat16")
    )
    assert 0 < max(float((rounded[name] - exact[name]).abs().max()) for name in exact) < 0.1
