"""Folds: training examples enter; one part to learn from and one to judge by leave, in memory.

What is held out to measure the final model is in neither part. Equal texts fall on the same side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Batches, Collate
from clearhead.data.batching.collate import LabelledTexts, Pairs, Windows
from clearhead.data.batching.plans import Bucketed, Even, Lengths
from clearhead.data.frames import Frame, document_frame, input_frame, target_frame
from clearhead.data.order import Integers
from clearhead.data.prepare import WINDOW, Prepared
from clearhead.data.progress import ignore_progress
from clearhead.data.shards.columns import TokenColumn
from clearhead.data.tokenizers import Tokenizers, train_tokenizers
from clearhead.examples import Example, Labelled, Split
from clearhead.text.sources.held_out import split_of
from clearhead.text.sources.read import read_split
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.training.recipes.data_sample import texts_of

JUDGED = 0.2  # of the training examples, in each fold
# Of texts and pairs each says much: so many are enough, if they are not more than that share, nor less than the other.
ENOUGH_JUDGED, LEAST_JUDGED = 30, 0.05
FIRST_SEED = 7_000  # of the folds: other than those that hold out validation and test data
MOST_EXAMPLES, MOST_CHARACTERS = (
    20_000,
    8_000_000,
)  # that trials use; of texts and pairs only the characters count


@dataclass(frozen=True)
class Fold:
    """The examples to learn from, those to judge by, and all labels."""

    number: int
    learned: Sequence[Any]
    judged: Sequence[Any]
    labels: tuple[str, ...] = ()
    unlabelled: Sequence[str] = ()  # texts from which tokens may be learned

    @classmethod
    def of(cls, examples: Sequence[Example], number: int, unlabelled: Sequence[str] = ()) -> "Fold":
        """One division of the examples."""
        sides: dict[Split, list[Example]] = {"train": [], "validation": [], "test": []}
        share = JUDGED
        if examples and not isinstance(examples[0], Labelled):
            share = min(JUDGED, max(LEAST_JUDGED, ENOUGH_JUDGED / len(examples)))
        for example in examples:
            sides[split_of(example, {"validation": share}, FIRST_SEED + number)].append(example)
        labels = {example.answer for example in examples if isinstance(example, Labelled)}
        return cls(number, sides["train"], sides["validation"], tuple(sorted(labels)), unlabelled)

    @property
    def is_usable(self) -> bool:
        """Whether both parts have something to say: examples to learn and to judge by, and two labels if any."""
        has_choice = not self.labels or len({example.answer for example in self.learned}) > 1
        return has_choice and bool(self.learned) and len(self.judged) > 1


@dataclass(frozen=True)
class Part:
    """One side of a fold: its columns of tokens, the numbers of its labels if any, and the bytes to predict."""

    columns: dict[str, TokenColumn]
    numbers: Integers
    bytes: Integers

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return len(self.bytes)

    def share(self, share: float) -> "Part":
        """A share of the examples, spread over all of them."""
        count = max(1, round(share * self.examples))
        if count == self.examples:
            return self
        kept = np.arange(count) * self.examples // count
        columns = {}
        for name, column in self.columns.items():
            (ids,), (borders,) = column.pieces, column.borders
            columns[name] = TokenColumn.of([ids[borders[i] : borders[i + 1]] for i in kept])
        return Part(columns, self.numbers[kept] if len(self.numbers) else self.numbers, self.bytes[kept])


@dataclass(frozen=True)
class FoldData(Prepared):
    """A fold as the trainer reads it: batches from examples in memory."""

    names: tuple[str, ...] = ()
    parts: dict[Split, Part] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pass  # the fold was checked

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of all examples, also of those that only the judged part has."""
        return self.names

    def batches(self, split: Split, batch_tokens: int, seed: int = 1, shuffle: bool = True) -> Batches:
        """The batches of a part."""
        part = self.parts[split]
        source, target = (
            one.specials.padding or 0 for one in (self.tokenizers.source, self.tokenizers.target)
        )
        columns = list(part.columns.values())
        collate: Collate
        match self.run.kind:
            case "labelled":
                collate = LabelledTexts(columns[0], lambda examples: part.numbers[examples], target)
            case "pair":
                collate = Pairs(columns[0], columns[1], source, target)
            case "text":
                frame, n = document_frame(self.tokenizers.target.specials), self.run.model.context or WINDOW
                masks = self.run.data.document_masks
                collate = Windows(columns[0], n, frame.before[0], not frame.after, target, masks)
                return Batches(Even(collate.size, max(1, batch_tokens // n), seed, shuffle), collate)

        def lengths(examples: Integers) -> Lengths:
            table: Lengths = np.stack([column.lengths(examples) for column in columns], axis=1)
            return table

        return Batches(Bucketed(lengths, part.examples, batch_tokens, seed, shuffle), collate)

    def share(self, share: float) -> "FoldData":
        """The same fold with a share of the examples to learn from; the judged part is whole."""
        part = self.parts["train"].share(share)
        return self if part is self.parts["train"] else replace(self, parts=self.parts | {"train": part})


def prepare_fold(run: RunConfig, fold: Fold) -> FoldData:
    """A fold in the tokens of a recipe.

    Those of labelled texts are learned from the first part; others from all training examples, as in the run.
    """
    if run.kind == "labelled":
        more = () if run.data.unlabelled is None else fold.unlabelled
        tokenizer = Tokenizer.train(chain((example.text for example in fold.learned), more), run.tokenizer)
        tokenizers = Tokenizers(tokenizer, tokenizer)
    else:
        reader = read_split(run.data, run.kind, "train")
        assert reader is not None
        tokenizers = train_tokenizers(run, reader, ignore_progress)
    made = {side: encode_part(run, tokenizers, fold, part)
            for side, part in (("train", fold.learned), ("validation", fold.judged))}  # fmt: skip
    parts: dict[Split, Part] = {"train": made["train"], "validation": made["validation"]}
    return FoldData(run, tokenizers, {}, {}, fold.labels, parts)


def encode_part(run: RunConfig, tokenizers: Tokenizers, fold: Fold, examples: Sequence[Any]) -> Part:
    """One side of a fold in tokens, with those that start and end each text; longer ones are truncated."""
    numbers: dict[str, int] = {label: number for number, label in enumerate(fold.labels)}
    target, source = tokenizers.target, tokenizers.source

    def column(tokenizer: Tokenizer, texts: Sequence[str], frames: Sequence[Frame]) -> TokenColumn:
        context = None if run.kind == "text" else run.model.context
        rows = tokenizer.encode_batch(texts)
        return TokenColumn.of([
            frame.wrap(ids[: None if context is None else context - len(frame)].tolist())
            for ids, frame in zip(rows, frames, strict=True)
        ])  # fmt: skip

    if run.kind == "pair":
        pairs = [(example.source, example.target) for example in examples]
        sides = zip(("source", "target"), (source, target), (input_frame, target_frame), strict=True)
        columns = {
            name: column(one, [pair[k] for pair in pairs], [frame(one.specials)] * len(pairs))
            for k, (name, one, frame) in enumerate(sides)
        }
        answers = [pair[1] for pair in pairs]
    else:
        texts = [example.text for example in examples]
        frame = (input_frame if run.kind == "labelled" else document_frame)(target.specials)
        # A long text comes in pieces, of which the first has what is between texts.
        between = Frame((*frame.after, *frame.before))
        frames = [
            frame if isinstance(example, Labelled) else between if example.starts else Frame()
            for example in examples
        ]
        columns = {"text": column(target, texts, frames)}
        answers = texts
    labels = np.array([numbers[example.answer] for example in examples] if fold.labels else [], np.int64)
    return Part(columns, labels, np.array([len(answer.encode()) for answer in answers], np.int64))


def training_examples(
    run: RunConfig, most_characters: float = MOST_CHARACTERS, longest: int | None = None
) -> list[Example]:
    """The training examples of a run, or a part of very many, spread over the data; of long texts the beginnings."""
    reader = read_split(run.data, run.kind, "train") or ()
    is_labelled = run.kind == "labelled"
    most = MOST_EXAMPLES if is_labelled else 100 * MOST_EXAMPLES
    examples: list[Example] = []
    characters, every, seen = 0, 1, 0
    for example in islice(reader, 10 * most):
        seen += 1
        if seen % every:
            continue
        examples.append(
            replace(example, text=example.text[:longest]) if isinstance(example, Labelled) else example
        )
        characters += sum(map(len, texts_of(examples[-1])))
        if len(examples) > most or characters > most_characters:
            examples, every = examples[::2], 2 * every
            characters = sum(len(text) for kept in examples for text in texts_of(kept))
    return examples
