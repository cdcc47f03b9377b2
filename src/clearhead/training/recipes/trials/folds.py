"""Folds: labelled training texts enter; one part to learn from and one to judge by leave, in memory.

What is held out to measure the final model is in neither part. Equal texts fall on the same side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Batches
from clearhead.data.batching.collate import LabelledTexts
from clearhead.data.batching.plans import Bucketed
from clearhead.data.frames import input_frame
from clearhead.data.order import Integers
from clearhead.data.prepare import Prepared
from clearhead.data.shards.columns import TokenColumn
from clearhead.data.tokenizers import Tokenizers
from clearhead.examples import Labelled, Split
from clearhead.text.sources.held_out import split_of
from clearhead.text.sources.read import read_split
from clearhead.text.tokenizers.tokenizer import Tokenizer

JUDGED = 0.2  # of the training examples, in each fold
FIRST_SEED = 7_000  # of the folds: other than those that hold out validation and test data
MOST_EXAMPLES, MOST_CHARACTERS = 20_000, 8_000_000  # that trials use


@dataclass(frozen=True)
class Fold:
    """The examples to learn from, those to judge by, and all labels."""

    number: int
    learned: list[Labelled]
    judged: list[Labelled]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, examples: Sequence[Labelled], number: int) -> "Fold":
        """One division of the examples."""
        sides: dict[Split, list[Labelled]] = {"train": [], "validation": [], "test": []}
        for example in examples:
            sides[split_of(example, {"validation": JUDGED}, FIRST_SEED + number)].append(example)
        return cls(number, sides["train"], sides["validation"], tuple(sorted({e.answer for e in examples})))

    @property
    def is_usable(self) -> bool:
        """Whether both parts have something to say: two labels to learn, and texts to judge by."""
        return len({example.answer for example in self.learned}) > 1 and len(self.judged) > 1


@dataclass(frozen=True)
class FoldData(Prepared):
    """A fold as the trainer reads it: batches from texts in memory."""

    names: tuple[str, ...] = ()
    parts: dict[Split, tuple[TokenColumn, Integers]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pass  # the fold was checked

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of all examples, also of those that only the judged part has."""
        return self.names

    def batches(self, split: Split, batch_tokens: int, seed: int = 1, shuffle: bool = True) -> Batches:
        """The batches of a part."""
        text, numbers = self.parts[split]
        padding = self.tokenizers.target.specials.padding or 0
        collate = LabelledTexts(text, lambda examples: numbers[examples], padding)
        plan = Bucketed(
            lambda examples: text.lengths(examples)[:, None], text.examples, batch_tokens, seed, shuffle
        )
        return Batches(plan, collate)

    def part(self, share: float) -> "FoldData":
        """The same fold with a share of the texts to learn from, spread over all of them; the judged part is whole."""
        text, numbers = self.parts["train"]
        count = max(1, round(share * text.examples))
        if count == text.examples:
            return self
        kept = np.arange(count) * text.examples // count
        (ids,), (borders,) = text.pieces, text.borders
        rows = TokenColumn.of([ids[borders[i] : borders[i + 1]] for i in kept])
        return replace(self, parts=self.parts | {"train": (rows, numbers[kept])})


def prepare_fold(run: RunConfig, fold: Fold) -> FoldData:
    """A fold in the tokens of a recipe, learned from its first part."""
    tokenizer = Tokenizer.train((example.text for example in fold.learned), run.tokenizer)
    frame, context = input_frame(tokenizer.specials), run.model.context
    most = None if context is None else context - len(frame)
    numbers = {label: number for number, label in enumerate(fold.labels)}

    def encode(examples: list[Labelled]) -> tuple[TokenColumn, Integers]:
        rows = tokenizer.encode_batch([example.text for example in examples])
        column = TokenColumn.of([frame.wrap(ids[:most].tolist()) for ids in rows])
        return column, np.array([numbers[example.answer] for example in examples], np.int64)

    parts: dict[Split, tuple[TokenColumn, Integers]] = {
        "train": encode(fold.learned),
        "validation": encode(fold.judged),
    }
    return FoldData(run, Tokenizers(tokenizer, tokenizer), {}, {}, fold.labels, parts)


def training_examples(
    run: RunConfig, most_characters: float = MOST_CHARACTERS, longest: int | None = None
) -> list[Labelled]:
    """The training examples of a run, or a part of very many, spread over the data; of long texts the beginnings."""
    reader = read_split(run.data, run.kind, "train") or ()
    examples: list[Labelled] = []
    characters, every, seen = 0, 1, 0
    for example in islice(reader, 10 * MOST_EXAMPLES):
        seen += 1
        if seen % every or not isinstance(example, Labelled):
            continue
        examples.append(replace(example, text=example.text[:longest]))
        characters += len(examples[-1].text)
        if len(examples) > MOST_EXAMPLES or characters > most_characters:
            examples, every = examples[::2], 2 * every
            characters = sum(len(kept.text) for kept in examples)
    return examples
