"""From a recipe to prepared data: tokenizers, shards of each split, and the account of what was read.

A `RunConfig` enters; a `Prepared` leaves, from which batches are made. What is costly (a trained tokenizer,
the shards of a split) is kept in the cache under a key made of the contents of the sources, the settings and a
version number, so it is made once and never stale.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from clearhead.config.run import RunConfig
from clearhead.config.tasks import Objective
from clearhead.data.audit import Audit, audit
from clearhead.data.batching.batches import Batches, Collate
from clearhead.data.batching.collate import Answers, LabelledTexts, Masked, Pairs, TaggedTexts, Turns, Windows
from clearhead.data.batching.plans import BatchPlan, Bucketed, Even, Lengths
from clearhead.data.chats import TURNS, template_of
from clearhead.data.frames import Frame, document_frame, input_frame, pair_frames, prompt_frame, target_frame
from clearhead.data.order import Integers
from clearhead.data.progress import ProgressListener, ignore_progress
from clearhead.data.shards.encoding import Rules, Side
from clearhead.data.shards.manifest import LABELS, TAGS
from clearhead.data.shards.reading import Shards
from clearhead.data.shards.splits import prepare_split
from clearhead.data.tokenizers import Tokenizers, train_tokenizers
from clearhead.errors import ConfigError, DataError, TokenizerError
from clearhead.examples import ANSWER, Conversation, Split
from clearhead.text.sources.read import ExampleReader, read_split
from clearhead.text.tokenizers.conversations import borders_of
from clearhead.text.tokenizers.tokenizer import Tokenizer

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
LEAST_CONTEXT = 3  # a beginning, a token, an end
CONVERSATION = "conversation"  # the column of conversations with markers
WINDOW = 1024  # tokens of a language model's window where the model has no longest length


def prepare(
    run: RunConfig, progress: ProgressListener = ignore_progress, tokenizers: Tokenizers | None = None
) -> "Prepared":
    """Read, tokenise and check all data of a run; `tokenizers` are those of a model to be trained further."""
    readers = {split: reader for split in SPLITS if (reader := read_split(run.data, run.kind, split))}
    has_conversations = holds_conversations(run, readers["train"])
    rules = rules_of(run, has_conversations)
    tokenizers = tokenizers or train_tokenizers(run, readers["train"], progress)
    tokenizers = tokenizers.grown(run.tokenizer, has_conversations)
    sides = (
        conversation_side(tokenizers.target)
        if has_conversations
        else sides_of(run.task_row.objective, tokenizers, run.data.texts)
    )
    splits = {
        split: prepare_split(reader, split, sides, rules, progress) for split, reader in readers.items()
    }
    return Prepared(run, tokenizers, splits, {split: list(reader.names) for split, reader in readers.items()})


def holds_conversations(run: RunConfig, reader: ExampleReader) -> bool:
    """Whether the data are conversations, by the first example."""
    has_conversations = run.kind == "text" and isinstance(next(iter(reader), None), Conversation)
    if has_conversations and run.task_row.objective != "next":
        raise DataError(
            f"{reader.names[0]} contains conversations, which task = {run.task!r} cannot learn from.\n"
            "Use task = 'language-model', or give plain texts."
        )
    return has_conversations


def conversation_side(tokenizer: Tokenizer) -> tuple[Side, ...]:
    """The one column of conversations, whose answers have their own end tokens; a template frames them itself."""
    if template_of(tokenizer) is not None:
        return (Side(TURNS, tokenizer, Frame()),)
    return (Side(CONVERSATION, tokenizer, prompt_frame(tokenizer.specials)),)


def sides_of(objective: Objective, tokenizers: Tokenizers, texts: int = 1) -> tuple[Side, ...]:
    """The columns that an objective needs, and how each is made; `texts` is how many a classifier reads at once."""
    source, target = tokenizers.source, tokenizers.target
    if objective == "target":
        left = Side("source", source, input_frame(source.specials))
        return left, Side("target", target, target_frame(target.specials))
    if objective == "masked" and target.specials.mask is None:
        raise TokenizerError(
            "The tokenizer has no mask token, which task = 'masked-language-model' needs.\n"
            "Name one with `tokenizer.with_roles`."
        )
    if texts == 2:
        first, second = pair_frames(target.specials)
        return Side("text", target, first), Side("second", target, second)
    frame = (document_frame if objective == "next" else input_frame)(target.specials)
    sides = (Side("text", target, frame),)
    if objective == "tags":
        return *sides, Side(TAGS, target, Frame((0,) * len(frame.before), (0,) * len(frame.after)))
    return sides


def rules_of(run: RunConfig, has_conversations: bool = False) -> Rules:
    """What happens to examples that are longer than the model takes; a setting without a meaning is rejected."""
    stated, context = run.data.too_long, run.model.context
    if has_conversations:
        if stated == "split":
            raise ConfigError(
                "data.too_long = 'split' has no meaning for conversations: an answer needs what comes before it.\n"
                "Use 'truncate' or 'drop'."
            )
        return Rules(context, stated or "truncate", has_conversations=True)
    if run.task_row.too_long is None:
        if stated is not None:
            raise ConfigError(
                f"data.too_long = {stated!r} has no meaning for task = {run.task!r}, whose documents are "
                "one stream of any length.\nOmit it."
            )
        return Rules(packed=True)
    if stated == "split" and run.kind != "text":
        raise ConfigError(
            f"data.too_long = 'split' has no meaning for task = {run.task!r}: half a text has no "
            "translation and no label of its own.\nUse 'drop' or 'truncate'."
        )
    if context is not None and context < LEAST_CONTEXT:
        raise ConfigError(
            f"model.context = {context} leaves no room between a beginning and an end token.\n"
            f"Use {LEAST_CONTEXT} or more."
        )
    is_labelled = run.kind == "labelled"
    return Rules(
        context,
        stated or run.task_row.too_long,
        joined=is_labelled and run.data.texts == 2,
        labels=run.data.labels if is_labelled else "one",
    )


@dataclass(frozen=True)
class Prepared:
    """The prepared data of a run: tokenizers, and the shards of each split that exists."""

    run: RunConfig
    tokenizers: Tokenizers
    splits: dict[Split, Shards]
    sources: dict[Split, list[str]] = field(default_factory=dict)  # where this run has read them

    def __post_init__(self) -> None:
        train = self.splits["train"]
        if not train.examples:
            account = train.manifest.account
            reasons = ", ".join(f"{count} {reason}" for reason, count in account.dropped.items())
            raise DataError(
                f"None of {account.read} training examples is left: {reasons or 'all are held out'}.\n"
                f"An example may have model.context = {self.run.model.context} tokens: raise it, or see data.too_long."
            )
        if self.run.kind == "labelled":
            self._check_labels()

    def _check_labels(self) -> None:
        if len(self.labels) < 2:
            raise DataError(
                f"All training examples have the label {self.labels[0]!r}; a classifier needs at least two labels."
                if self.labels
                else "No training example has a label; a classifier needs at least two labels."
            )
        for split, shards in self.splits.items():
            for name in shards.manifest.labels or ():
                if name not in self.labels:
                    raise DataError(
                        f"The label {name!r} of {split} does not occur in train, which has "
                        f"{', '.join(map(repr, self.labels[:20]))}."
                    )

    @cached_property
    def audit(self) -> Audit:
        """The report on what was read."""
        return audit(self.splits, self.sources)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of a classifier in the order of their numbers: sorted by name."""
        return tuple(sorted(self.splits["train"].manifest.labels or ()))

    def batches(self, split: Split, batch_tokens: int, seed: int = 1, shuffle: bool = True) -> Batches:
        """The batches of a split; `batch_tokens` is how many tokens, padding included, the model is given."""
        shards = self.splits.get(split)
        if shards is None or not shards.examples:
            share = self.run.data.shares.get(split)
            cause = "" if share is None else f": the share {share:g} of so little data contains none"
            advice = "Name a source" if share is None else "Name a larger share"
            raise DataError(
                f"There are no examples for {split}{cause}.\n{advice} in data.{split}, or 0 for none."
            )
        collate = self._collate(shards, seed)
        return Batches(self._plan(shards, collate, batch_tokens, seed, shuffle), collate)

    def _collate(self, shards: Shards, seed: int) -> Collate:
        tokenizer = self.tokenizers.target
        padding = tokenizer.specials.padding or 0
        match self.run.task_row.objective:
            case "target":
                other = self.tokenizers.source.specials.padding or 0
                return Pairs(shards.column("source"), shards.column("target"), other, padding)
            case "tags":
                return TaggedTexts(shards.column("text"), shards.column(TAGS), self._order(shards), padding)
            case "label" | "labels" as objective:
                second = shards.column("second") if "second" in shards.manifest.columns else None
                numbers = self._numbers(shards) if objective == "label" else self._sets(shards)
                has_types = self.run.model.reads_types
                return LabelledTexts(shards.column("text"), numbers, padding, second, has_types)
            case "masked":
                mask = tokenizer.specials.mask
                assert mask is not None
                specials = tuple(sorted(tokenizer.specials.ids))
                return Masked(shards.column("text"), seed, tokenizer.size, mask, padding, specials)
        if shards.manifest.columns == (CONVERSATION,):
            answer, borders = tokenizer.markers[ANSWER], borders_of(tokenizer)
            return Answers(shards.column(CONVERSATION), answer, borders, padding)
        if shards.manifest.columns == (TURNS,):
            return Turns(shards.column(TURNS), tokenizer.size, padding)
        frame = document_frame(tokenizer.specials)
        n = self.run.model.context or WINDOW
        column, masks = shards.column("text"), self.run.data.document_masks
        return Windows(column, n, frame.before[0], not frame.after, padding, masks)

    def _plan(
        self, shards: Shards, collate: Collate, batch_tokens: int, seed: int, shuffle: bool
    ) -> BatchPlan:
        if isinstance(collate, Windows):
            return Even(collate.size, max(1, batch_tokens // collate.n), seed, shuffle)
        names = [name for name in shards.manifest.columns if name != TAGS]
        columns = [shards.column(name) for name in names]
        spare = np.array([int(name in ("target", CONVERSATION, TURNS)) for name in names])
        is_joined = "second" in names

        def lengths(examples: Integers) -> Lengths:
            table: Lengths = np.stack([column.lengths(examples) for column in columns], axis=1) - spare
            return table.sum(axis=1, keepdims=True) if is_joined else table

        return Bucketed(lengths, shards.examples, batch_tokens, seed, shuffle)

    def _order(self, shards: Shards) -> Integers:
        """The number of each label that the shards count in an order of their own."""
        number = {name: at for at, name in enumerate(self.labels)}
        return np.array([number[name] for name in shards.manifest.labels or ()], np.int64)

    def _numbers(self, shards: Shards) -> Callable[[Integers], Integers]:
        order = self._order(shards)
        return lambda examples: order[shards.labels(examples)]

    def _sets(self, shards: Shards) -> Callable[[Integers], Integers]:
        """For some examples and every label whether it fits: (b, classes)."""
        order, column = self._order(shards), shards.column(LABELS)

        def table(examples: Integers) -> Integers:
            found, counts = column.gather(examples)
            fits = np.zeros((len(examples), len(self.labels)), np.int64)
            fits[np.repeat(np.arange(len(examples)), counts), order[found]] = 1
            return fits

        return table
