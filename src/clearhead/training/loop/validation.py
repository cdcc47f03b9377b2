"""The loss on held-out batches during training."""

import math
from collections.abc import Iterable
from functools import partial

import torch

from clearhead.data.batching.batches import Batch, Batches, Position
from clearhead.models.model import Model
from clearhead.training.distributed.collectives import sum_over_ranks
from clearhead.training.distributed.ranks import rank, ranks
from clearhead.training.loop.losses import Loss, inputs_of, loss_of
from clearhead.training.loop.threads import own_threads, spread


@torch.no_grad()  # weights that FSDP gathers in inference mode could not be trained any more
def validate(
    model: Model, batches: Batches, device: torch.device, steps: Iterable[int] | None = None
) -> tuple[float, int, int]:
    """Mean −log P over batches, the number of predictions and of correct ones; one batch at a time is in memory.

    Each rank reads its rows of every batch, and each thread some of them.
    """
    was_training = model.training
    model.eval()
    nats, predictions, right = 0.0, 0, 0
    for step in range(batches.count()) if steps is None else steps:
        batch = batches.at(Position(0, step), rank(), ranks()).to(device)
        threads = min(own_threads(), batch.rows)
        parts = [batch] if threads == 1 else [batch.share(thread, threads) for thread in range(threads)]
        for loss in spread(partial(measure, model), parts):
            nats, predictions, right = nats + float(loss.total), predictions + loss.count, right + loss.right
    model.train(was_training)
    nats, *counts = sum_over_ranks(device, nats, predictions, right)
    predictions, right = map(int, counts)
    return nats / predictions if predictions else math.nan, predictions, right


@torch.no_grad()
def measure(model: Model, batch: Batch) -> Loss:
    """The loss of a batch."""
    return loss_of(model(inputs_of(batch)), batch)


def pick_steps(batches: Batches, batch_tokens: int, most_tokens: int) -> list[int]:
    """The batches of every evaluation: all, or as many as `most_tokens` allows.

    They are the same each time, so that losses can be compared, and from all over the data, since batches are
    sorted by length.
    """
    count = batches.count()
    sizes = (batches.at(Position(0, step)).tokens for step in {0, count // 2, count - 1})
    most = max(1, most_tokens // max(batch_tokens, *sizes))
    return list(range(count)) if most >= count else [(2 * i + 1) * count // (2 * most) for i in range(most)]
