"""Losses: a batch and the logits of a model become one number.

    language model, masked     −log P(true token), mean over the tokens to be predicted (N33)
    encoder-decoder            −log P(y_i given y_<i, x), from i = 2: the start token is not predicted (N35)
    classifier                 −log P(true class), mean over the texts, or over the words that have a label
    several labels             −log P(whether a label fits), mean over texts and labels: a choice of two for each, by
                               the logits 0 and z, so that P(it fits) = 1 / (1 + e^−z)

Sums and counts are kept apart, so that a mean over many batches is exact whatever the split.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.data.batching.batches import IGNORE, Batch
from clearhead.models.heads import choices
from clearhead.models.inputs import Inputs


@dataclass(frozen=True)
class Loss:
    """What a batch adds to a mean: the sum of −log P in nats, of how many predictions, and the right ones."""

    total: Tensor
    count: int
    right: int


def inputs_of(batch: Batch) -> Inputs:
    """What a model reads of a batch."""
    return Inputs(batch.inputs, batch.counts, batch.source, batch.source_counts, batch.documents, batch.types)


def side_by_side(logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The logits in float32 (N, vocabulary or classes), and what a batch says is right (N,)."""
    targets = batch.targets if batch.labels is None else batch.labels
    assert targets is not None
    return choices(logits, targets).flatten(0, -2).float(), targets.flatten()


def loss_of(logits: Tensor, batch: Batch) -> Loss:
    """−log P of what a batch says is right, summed in float32."""
    Z, wanted = side_by_side(logits, batch)
    total = F.cross_entropy(Z, wanted, ignore_index=IGNORE, reduction="sum")
    real = wanted != IGNORE
    right = (Z.detach().argmax(-1) == wanted) & real
    return Loss(total, int(real.sum()), int(right.sum()))


def training_loss(logits: Tensor, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """What training minimises, and the plain sum of −log P that is reported, both summed over the predictions.

    With smoothing s the truth is 1 − s for the right token and s spread evenly over all of them.
    """
    Z, wanted = side_by_side(logits, batch)
    total, nats = CrossEntropy.apply(Z, wanted, smoothing)  # type: ignore[no-untyped-call]
    return total, nats


class CrossEntropy(torch.autograd.Function):
    """−Σ t log P with its gradient P − t written out: it takes the place of log P, where PyTorch makes two more copies.

    t is the truth, (1 − s) [right] + s / vocabulary, and P = softmax(Z).
    """

    @staticmethod
    def forward(ctx: Any, Z: Tensor, wanted: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """(N, vocabulary), (N,) -> the loss, and −Σ log P(right)."""
        real = (wanted != IGNORE)[:, None]
        right = wanted[:, None].clamp(min=0)
        log_P = torch.log_softmax(Z, -1)
        nats = -log_P.gather(1, right).masked_fill(~real, 0.0).sum()
        loss = nats.clone()
        if smoothing:
            means = log_P.mean(-1, keepdim=True).masked_fill(~real, 0.0)
            loss = (1 - smoothing) * nats - smoothing * means.sum()
        ctx.save_for_backward(log_P, right, real)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(nats)
        return loss, nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of Z."""
        log_P, right, real = ctx.saved_tensors
        G = log_P.exp_().sub_(ctx.smoothing / log_P.shape[1]) if ctx.smoothing else log_P.exp_()
        G.scatter_add_(1, right, torch.full_like(right, ctx.smoothing - 1, dtype=G.dtype))
        return G.mul_(real * g), None, None
