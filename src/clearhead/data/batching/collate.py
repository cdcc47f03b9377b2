"""Examples become tensors: packed, padded, hidden, with targets shifted by one. One class for each task.

The numbers of the examples of one batch enter; the `Batch` leaves.

    Windows    language model: n tokens of the packed documents, and the same one token later
    Answers    language model: conversations, one a row, of which only the answers are to be predicted
    Turns      the same by the chat template of a model
    Masked     masked language model: 15 % of the tokens are to be guessed; of these 80 % are hidden, 10 %
               replaced by another and 10 % kept (Devlin et al., BERT, 2019)
    Pairs      encoder-decoder: the source; the target without its last token, and without its first (N34)
    LabelledTexts   classifier: the text, or two, and the number of its label, or for each label whether it fits
    TaggedTexts     tagger: the text, and at the first token of each word the number of its label
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.data.batching.batches import IGNORE, Batch, unless_full
from clearhead.data.order import Integers, draws
from clearhead.data.shards.columns import Claims, TokenColumn, pad


@dataclass(frozen=True)
class Windows:
    """Language model: window i of the packed documents is given n tokens from i n on, and predicts the next.

    Windows overlap by the one token that is the last target here and the first input there, so every token
    but the first of all is a target exactly once. The last window is as short as it comes. The beginning
    token is no target (N35) unless it is also what ends a document.
    """

    stream: TokenColumn
    n: int
    begin: int
    predicts_begin: bool
    padding: int
    with_documents: bool = False

    @property
    def size(self) -> int:
        """How many windows there are."""
        return -(-(self.stream.tokens - 1) // self.n)

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The windows with these numbers."""
        starts = examples * self.n
        counts = np.minimum(self.n, self.stream.tokens - 1 - starts)
        tokens = pad(self.stream.take(starts, counts + 1), counts + 1, IGNORE)  # (b, n + 1)
        inputs, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()  # (b, n)
        documents = np.cumsum(inputs == self.begin, axis=1) if self.with_documents else None
        inputs[np.arange(inputs.shape[1]) >= counts[:, None]] = self.padding
        if not self.predicts_begin:
            targets[targets == self.begin] = IGNORE
        return Batch(
            inputs=torch.from_numpy(inputs),
            counts=unless_full(torch.from_numpy(counts), inputs.shape[1]),
            targets=torch.from_numpy(targets),
            documents=None if documents is None else torch.from_numpy(documents),
            total=int((targets != IGNORE).sum()),
        )


@dataclass(frozen=True)
class Answers:
    """Conversations: after the marker `answer` each token is predicted, up to the first of `borders` and with it.

    What others say is read, and never predicted.
    """

    talks: TokenColumn
    answer: int
    borders: tuple[int, ...]
    padding: int

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The conversations with these numbers."""
        ids, counts = self.talks.gather(examples)
        table = pad(ids, counts, IGNORE)  # (b, n + 1)
        inputs, targets = table[:, :-1].copy(), table[:, 1:].copy()  # (b, n)
        targets[~self.inside(inputs)] = IGNORE
        return conversation_batch(inputs, targets, counts - 1, self.padding)

    def inside(self, tokens: Integers) -> Claims:
        """Whether the last marker or border up to each token is that of an answer: (b, n)."""
        events = np.isin(tokens, (self.answer, *self.borders))
        last = np.maximum.accumulate(np.where(events, np.arange(tokens.shape[1]), 0), axis=1)
        found: Claims = np.take_along_axis(tokens, last, axis=1) == self.answer
        return found


def conversation_batch(inputs: Integers, targets: Integers, counts: Integers, padding: int) -> Batch:
    """The batch of rows with so many real tokens each."""
    inputs[np.arange(inputs.shape[1]) >= counts[:, None]] = padding
    return Batch(
        inputs=torch.from_numpy(inputs),
        counts=unless_full(torch.from_numpy(counts), inputs.shape[1]),
        targets=torch.from_numpy(targets),
        total=int((targets != IGNORE).sum()),
    )


@dataclass(frozen=True)
class Turns:
    """Conversations by a chat template: an id that is to be predicted is stored higher by `size`."""

    talks: TokenColumn
    size: int
    padding: int

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The conversations with these numbers."""
        ids, counts = self.talks.gather(examples)
        table = pad(ids, counts, 0)  # (b, n + 1)
        inputs, targets = table[:, :-1] % self.size, table[:, 1:] - self.size  # (b, n)
        targets[targets < 0] = IGNORE
        return conversation_batch(inputs, targets, counts - 1, self.padding)


@dataclass(frozen=True)
class Pairs:
    """Encoder-decoder: the decoder is given begin y1 … yk and predicts y1 … yk end."""

    source: TokenColumn
    target: TokenColumn
    source_padding: int
    target_padding: int

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The pairs with these numbers."""
        source, source_counts = self.source.gather(examples)
        target, counts = self.target.gather(examples)
        table = pad(target, counts, IGNORE)  # (b, n + 1)
        inputs, targets = table[:, :-1].copy(), table[:, 1:].copy()
        inputs[np.arange(inputs.shape[1]) >= counts[:, None] - 1] = self.target_padding
        table = pad(source, source_counts, self.source_padding)
        return Batch(
            inputs=torch.from_numpy(inputs),
            counts=unless_full(torch.from_numpy(counts - 1), inputs.shape[1]),
            targets=torch.from_numpy(targets),
            source=torch.from_numpy(table),
            source_counts=unless_full(torch.from_numpy(source_counts), table.shape[1]),
            total=int((counts - 1).sum()),
        )


@dataclass(frozen=True)
class LabelledTexts:
    """Classifier: texts and the numbers of their labels; with a second text each, and its token types if asked for."""

    text: TokenColumn
    labels: Callable[[Integers], Integers]  # (b,), or (b, classes) of 0 and 1
    padding: int
    second: TokenColumn | None = None
    has_types: bool = False

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The texts with these numbers."""
        labels = torch.from_numpy(self.labels(examples))
        if self.second is None:
            inputs, counts = padded(self.text, examples, self.padding)
            return Batch(inputs=inputs, counts=counts, labels=labels, total=labels.numel())
        inputs, counts, types = joined(self.text, self.second, examples, self.padding)
        kept = types if self.has_types else None
        return Batch(inputs=inputs, counts=counts, types=kept, labels=labels, total=labels.numel())


@dataclass(frozen=True)
class TaggedTexts:
    """Tagger: texts, and at the first token of each word the number of its label; elsewhere nothing is predicted."""

    text: TokenColumn
    tags: TokenColumn  # as long as the texts: 0, or a number of the shards + 1
    order: Integers  # the number of each label, by its number in the shards
    padding: int

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The texts with these numbers."""
        inputs, counts = padded(self.text, examples, self.padding)
        tags = pad(*self.tags.gather(examples), 0)  # (b, n)
        targets = np.append(IGNORE, self.order)[tags]
        return Batch(inputs, counts, torch.from_numpy(targets), total=int((tags > 0).sum()))


@dataclass(frozen=True)
class Masked:
    """Masked language model; what is hidden is a function of (seed, epoch, example, place).

    Special tokens are neither hidden nor put in another's place. An example of which no token was drawn
    hides the one that came nearest, so that none is read in vain.
    """

    text: TokenColumn
    seed: int
    vocabulary: int
    mask: int
    padding: int
    specials: tuple[int, ...]
    share: float = 0.15

    def __call__(self, examples: Integers, epoch: int) -> Batch:
        """The texts with these numbers, partly hidden."""
        ids, counts = self.text.gather(examples)
        tokens = pad(ids, counts, self.padding)  # (b, n)
        real = np.arange(tokens.shape[1]) < counts[:, None]
        chosen = self._chosen(examples, epoch, real & ~np.isin(tokens, self.specials))
        rows, places = np.nonzero(chosen)
        targets = np.full_like(tokens, IGNORE)
        targets[chosen] = tokens[chosen]
        tokens[chosen] = self._hide(tokens[chosen], examples[rows], places, epoch)
        return Batch(
            inputs=torch.from_numpy(tokens),
            counts=unless_full(torch.from_numpy(counts), tokens.shape[1]),
            targets=torch.from_numpy(targets),
            total=int(chosen.sum()),
        )

    def _chosen(self, examples: Integers, epoch: int, ordinary: Claims) -> Claims:
        places = np.arange(ordinary.shape[1])
        numbers = draws(self.seed, epoch, "which tokens", examples[:, None], places[None, :])
        numbers = np.where(ordinary, numbers, 1.0)
        least = numbers.min(axis=1, keepdims=True)
        chosen: Claims = ordinary & ((numbers < self.share) | (numbers == least))
        return chosen

    def _hide(self, tokens: Integers, examples: Integers, places: Integers, epoch: int) -> Integers:
        fate = draws(self.seed, epoch, "hide, replace or keep", examples, places)
        other = draws(self.seed, epoch, "by which token", examples, places)
        ordinary = self.vocabulary - len(self.specials)
        others = (other * ordinary).astype(np.int64)
        for special in sorted(self.specials):
            others += others >= special
        return np.where(fate < 0.8, self.mask, np.where(fate < 0.9, others, tokens))


def joined(
    first: TokenColumn, second: TokenColumn, examples: Integers, padding: int
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Two columns one after the other, (b, n), their counts, and 1 for the tokens of the second."""
    ids, counts = first.gather(examples)
    more, others = second.gather(examples)
    table = np.full((len(examples), int((counts + others).max(initial=0))), padding, np.int64)
    places = np.arange(table.shape[1])
    is_first, is_real = places < counts[:, None], places < (counts + others)[:, None]
    table[is_first], table[is_real & ~is_first] = ids, more
    whole = unless_full(torch.from_numpy(counts + others), table.shape[1])
    return torch.from_numpy(table), whole, torch.from_numpy((is_real & ~is_first).astype(np.int64))


def padded(column: TokenColumn, examples: Integers, padding: int) -> tuple[Tensor, Tensor | None]:
    """The ids of some examples, (b, n), and their counts."""
    ids, counts = column.gather(examples)
    table = pad(ids, counts, padding)
    return torch.from_numpy(table), unless_full(torch.from_numpy(counts), table.shape[1])
