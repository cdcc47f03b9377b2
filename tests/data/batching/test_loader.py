"""The loader gives what the batches give, says exactly where it stands, and hands errors on."""

import statistics
import time
from threading import enumerate as threads

import numpy as np
import pytest
import torch

from clearhead.data.batching.batches import Batch, Batches, Position
from clearhead.data.batching.loader import Loader
from clearhead.data.batching.plans import Even
from clearhead.data.order import Integers
from clearhead.errors import DataError


def collate(examples: Integers, epoch: int) -> Batch:
    return Batch(inputs=torch.from_numpy(examples + 100 * epoch)[:, None], total=len(examples))


def failing(examples: Integers, epoch: int) -> Batch:
    if epoch == 1:
        raise DataError("the disk is gone")
    return collate(examples, epoch)


BATCHES = Batches(Even(size=17, rows=3, seed=2), collate)


def test_the_loader_walks_through_the_epochs() -> None:
    with Loader(BATCHES) as loader:
        seen = [next(loader).inputs.flatten().tolist() for _ in range(2 * BATCHES.count())]
    expected = [batch.inputs.flatten().tolist() for epoch in (0, 1) for batch in BATCHES.epoch(epoch)]
    assert seen == expected


@pytest.mark.parametrize("taken", [0, 1, 5, 6, 13])
def test_the_position_is_that_of_the_next_batch_however_far_the_thread_is(taken: int) -> None:
    with Loader(BATCHES, ahead=8) as loader:
        for _ in range(taken):
            next(loader)
        time.sleep(0.02)
        position, following = loader.position, next(loader)
    assert position == Position(*divmod(taken, BATCHES.count()))
    with Loader(BATCHES, position) as resumed:
        assert torch.equal(next(resumed).inputs, following.inputs)


def test_an_error_of_the_thread_reaches_the_one_who_waits() -> None:
    with Loader(Batches(BATCHES.plan, failing)) as loader:
        for _ in range(BATCHES.count()):
            next(loader)
        with pytest.raises(DataError, match="the disk is gone"):
            next(loader)
        with pytest.raises(StopIteration):
            next(loader)


def test_a_closed_loader_leaves_no_thread() -> None:
    loader = Loader(BATCHES)
    next(loader)
    loader.close()
    loader.close()
    assert not [thread for thread in threads() if thread.name == "clearhead-batches"]
    assert list(loader) == []


def test_batches_are_made_while_the_model_is_busy() -> None:
    """A batch takes 5 ms and a step 10 ms: without a thread the model would wait a third of the time."""

    def slow(examples: Integers, epoch: int) -> Batch:
        time.sleep(0.005)
        return collate(examples, epoch)

    with Loader(Batches(BATCHES.plan, slow)) as loader:
        next(loader)
        waited = [loader.waited_seconds]
        for _ in range(30):
            time.sleep(0.01)
            next(loader)
            waited.append(loader.waited_seconds)
        assert (
            statistics.median(np.diff(waited)) < 0.001
        )  # of most steps: others may be at work on this machine


def test_a_batch_moves_as_a_whole() -> None:
    batch = Batch(inputs=torch.ones(2, 3), counts=torch.tensor([3, 2]), labels=torch.tensor([0, 1]), total=2)
    moved = batch.to("meta")
    assert moved.inputs.device.type == "meta"
    assert moved.labels is not None
    assert moved.labels.device.type == "meta"
    assert moved.total == 2
    assert batch.tokens == 5
    assert np.prod(batch.inputs.shape) == 6
