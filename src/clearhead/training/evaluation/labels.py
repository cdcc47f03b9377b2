"""How good a classifier is: labelled texts enter, as batches with what is right; scores leave.

Texts are truncated as in training, and counted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor

from clearhead.config.labels import LabelKind
from clearhead.data.batching.batches import IGNORE, Batch
from clearhead.decoding.read import LabelItem, Reader
from clearhead.errors import DataError, InputError
from clearhead.examples import Example, Labelled
from clearhead.models.inputs import Inputs

GROUP = 512  # examples in memory at once

Item = TypeVar("Item")
Progress = Callable[[int], None]


@dataclass(frozen=True)
class LabelBatch:
    """A batch of labelled texts: which they are in the data, how they are read, and the tensors."""

    places: list[int]
    examples: list[Labelled]
    items: list[LabelItem]
    batch: Batch


class LabelledReader:
    """Turns labelled examples into batches for one model; counts them, and those that were truncated or are empty."""

    def __init__(self, reader: Reader, batch_tokens: int) -> None:
        self.reader, self.labels, self.batch_tokens = reader, reader.labels, batch_tokens
        self.examples = self.truncated = self.empty = 0

    def batches(
        self, examples: Iterable[Example], progress: Progress = lambda done: None
    ) -> Iterator[LabelBatch]:
        """Batches of texts of like length."""
        for group in in_groups(examples):
            texts = [example for example in group if isinstance(example, Labelled)]
            self.check_known(texts)
            read = [(example, item) for example in texts if (item := self.item(example))]
            for chosen, inputs in self.reader.label_batches([item for _, item in read], self.batch_tokens):
                places = [self.examples + row for row in chosen]
                some, items = [read[row][0] for row in chosen], [read[row][1] for row in chosen]
                batch = batch_of(self.reader.config.labels, inputs, some, items, self.labels)
                yield LabelBatch(places, some, items, batch)
            self.examples += len(read)
            self.truncated += sum(item.is_truncated for _, item in read)
            progress(len(group))

    def item(self, example: Labelled) -> LabelItem | None:
        """What the model reads of an example; None if nothing of it is a token."""
        try:
            return self.reader.item(example.text, example.second, truncate=True)
        except InputError:
            if self.reader.config.texts != len(example.texts) and self.reader.config.texts == 2:
                raise
            self.empty += 1
            return None

    def check_known(self, examples: Iterable[Labelled]) -> None:
        """Rejects labels that the model does not know."""
        if unknown := {label for example in examples for label in example.labels} - set(self.labels):
            raise DataError(
                f"The label {min(unknown)!r} is unknown to the model, which has {', '.join(self.labels)}.\n"
                "Evaluate on data with the same labels."
            )


def batch_of(
    kind: LabelKind,
    inputs: Inputs,
    examples: Sequence[Labelled],
    items: Sequence[LabelItem],
    labels: Sequence[str],
) -> Batch:
    """The batch of some examples, with the numbers of their labels."""
    number = {label: at for at, label in enumerate(labels)}
    targets, classes = None, None
    match kind:
        case "one":
            classes = torch.tensor([number[example.labels[0]] for example in examples])
        case "several":
            rows = [[int(label in example.labels) for label in labels] for example in examples]
            classes = torch.tensor(rows)
        case "each-word":
            targets = torch.full(inputs.tokens.shape, IGNORE)
            for row, (example, item) in enumerate(zip(examples, items, strict=True)):
                for place, label in zip(item.places, example.labels, strict=True):
                    if place is not None:
                        targets[row, place] = number[label]
    device = inputs.tokens.device
    batch = Batch(inputs.tokens, inputs.counts, targets, types=inputs.types, labels=classes)
    return batch.to(device)


def in_groups(items: Iterable[Item], size: int = GROUP) -> Iterator[list[Item]]:
    """Some items at a time."""
    stream = iter(items)
    while group := list(islice(stream, size)):
        yield group


def decided(Z: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of what is to be predicted, and what is right."""
    real = right != IGNORE
    return Z[real], right[real]
