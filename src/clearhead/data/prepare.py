"""From a recipe to data that is ready: tokenizers, shards of each split, and the account of what was read.

A `RunConfig` enters; a `Prepared` leaves, from which batches are made. What is costly (a trained tokenizer,
the shards of a split) is kept in the cache under a key made of the contents of the sources, the settings and
the code that reads them, so it is made once and never stale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clearhead.config.data import TooLong
from clearhead.config.run import RunConfig, Task
from clearhead.data.audit import Audit, audit
from clearhead.data.batches import Batches, Collate
from clearhead.data.cache import key_of
from clearhead.data.collate import Answers, Labelled, Masked, Pairs, Windows
from clearhead.data.encoding import Rules, Side
from clearhead.data.frames import Frame, document_frame, input_frame, target_frame
from clearhead.data.order import Integers
from clearhead.data.plans import Bucketed, Even, Lengths, Plan
from clearhead.data.progress import Listener, unheard
from clearhead.data.shards import Shards
from clearhead.data.splits import prepare_split
from clearhead.data.tokenizers import Tokenizers, train_tokenizers
from clearhead.errors import ConfigError, DataError, TokenizerError
from clearhead.text.conversations import borders_of
from clearhead.text.examples import ANSWER, Conversation, Split
from clearhead.text.sources import Reader, read_split
from clearhead.text.tokenizer import Tokenizer

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
TOO_LONG: dict[Task, TooLong] = {
    "masked-language-model": "split",
    "translate": "drop",
    "classify": "truncate",
}
LEAST_CONTEXT = 3  # a beginning, a token, an end
CONVERSATION = "conversation"  # the column of conversations
WINDOW = 1024  # tokens of a language model's window where the model has no longest length


def prepare(run: RunConfig, progress: Listener = unheard, tokenizers: Tokenizers | None = None) -> "Prepared":
    """Read, tokenise and check all data of a run; `tokenizers` are those of a model to be trained further."""
    readers = {split: reader for split in SPLITS if (reader := read_split(run.data, run.kind, split))}
    talks = holds_conversations(run, readers["train"])
    rules = rules_of(run, talks)
    tokenizers = tokenizers or train_tokenizers(run, readers["train"], progress)
    tokenizers = tokenizers.grown(run.tokenizer, talks)
    sides = conversation_side(tokenizers.target) if talks else sides_of(run.task, tokenizers)
    splits = {
        split: prepare_split(reader, split, sides, rules, progress) for split, reader in readers.items()
    }
    return Prepared(run, tokenizers, splits)


def holds_conversations(run: RunConfig, reader: Reader) -> bool:
    """Whether the data are conversations, by the first example."""
    talks = run.kind == "text" and isinstance(next(iter(reader), None), Conversation)
    if talks and run.task != "language-model":
        raise DataError(
            f"{reader.names[0]} holds conversations, which task = {run.task!r} cannot learn.\n"
            "Use task = 'language-model', or texts."
        )
    return talks


def conversation_side(tokenizer: Tokenizer) -> tuple[Side, ...]:
    """The one column of conversations, whose answers bring their own ends."""
    return (Side(CONVERSATION, tokenizer, Frame(document_frame(tokenizer.specials).before)),)


def sides_of(task: Task, tokenizers: Tokenizers) -> tuple[Side, ...]:
    """The columns of a task, and how each is made."""
    source, target = tokenizers.source, tokenizers.target
    if task == "translate":
        left = Side("source", source, input_frame(source.specials))
        return left, Side("target", target, target_frame(target.specials))
    if task == "masked-language-model" and target.specials.mask is None:
        raise TokenizerError("The tokenizer has no mask token, which task = 'masked-language-model' needs.")
    frame = document_frame if task == "language-model" else input_frame
    return (Side("text", target, frame(target.specials)),)


def rules_of(run: RunConfig, talks: bool = False) -> Rules:
    """What becomes of examples that are longer than the model takes; what has no meaning is refused."""
    stated, context = run.data.too_long, run.model.context
    if talks:
        if stated == "split":
            raise ConfigError(
                "data.too_long = 'split' has no meaning for conversations: an answer needs what is before it.\n"
                "Use 'truncate' or 'drop'."
            )
        return Rules(context, stated or "truncate", talks=True)
    if run.task == "language-model":
        if stated is not None:
            raise ConfigError(
                f"data.too_long = {stated!r} has no meaning for task = 'language-model', whose documents are "
                "one stream of any length.\nLeave it out."
            )
        return Rules(packed=True)
    if stated == "split" and run.task != "masked-language-model":
        raise ConfigError(
            f"data.too_long = 'split' has no meaning for task = {run.task!r}: half a text has no "
            "translation and no label of its own.\nUse 'drop' or 'truncate'."
        )
    if context is not None and context < LEAST_CONTEXT:
        raise ConfigError(
            f"model.context = {context} leaves no room between a beginning and an end token.\n"
            f"Use {LEAST_CONTEXT} or more."
        )
    return Rules(context, stated or TOO_LONG[run.task])


@dataclass(frozen=True)
class Prepared:
    """The data of a run, ready: tokenizers and the shards of each split that there is."""

    run: RunConfig
    tokenizers: Tokenizers
    splits: dict[Split, Shards]

    def __post_init__(self) -> None:
        train = self.splits["train"]
        if not train.examples:
            account = train.manifest.account
            reasons = ", ".join(f"{count} {reason}" for reason, count in account.dropped.items())
            raise DataError(
                f"Of {account.read} training examples none is left: {reasons or 'all are held out'}.\n"
                f"The longest is model.context = {self.run.model.context} tokens; see data.too_long."
            )
        if self.run.task == "classify":
            self._check_labels()

    def _check_labels(self) -> None:
        if len(self.labels) < 2:
            raise DataError(
                f"All training examples have the label {self.labels[0]!r}; a classifier needs two."
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
        return audit(self.splits)

    @cached_property
    def fingerprint(self) -> str:
        """A name for the training examples and their order on disk: a saved position holds for this data only."""
        files = self.splits["train"].files
        return key_of({name: facts.sha256 for name, facts in files.items()})

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of a classifier in the order of their numbers: sorted by name."""
        return tuple(sorted(self.splits["train"].manifest.labels or ()))

    def batches(self, split: Split, batch_tokens: int, seed: int = 1, shuffle: bool = True) -> Batches:
        """The batches of a split; `batch_tokens` is how many tokens, padding included, the model is given."""
        shards = self.splits.get(split)
        if shards is None or not shards.examples:
            share = self.run.data.shares.get(split)
            cause = "" if share is None else f": the share {share:g} of so little data holds none"
            advice = "Name a source" if share is None else "Name a larger share"
            raise DataError(
                f"There are no examples for {split}{cause}.\n{advice} in data.{split}, or 0 for none."
            )
        collate = self._collate(shards, seed)
        return Batches(self._plan(shards, collate, batch_tokens, seed, shuffle), collate)

    def _collate(self, shards: Shards, seed: int) -> Collate:
        tokenizer = self.tokenizers.target
        padding = tokenizer.specials.padding or 0
        match self.run.task:
            case "translate":
                other = self.tokenizers.source.specials.padding or 0
                return Pairs(shards.column("source"), shards.column("target"), other, padding)
            case "classify":
                return Labelled(shards.column("text"), self._numbers(shards), padding)
            case "masked-language-model":
                mask = tokenizer.specials.mask
                assert mask is not None
                specials = tuple(sorted(tokenizer.specials.ids))
                return Masked(shards.column("text"), seed, tokenizer.size, mask, padding, specials)
        if shards.manifest.columns == (CONVERSATION,):
            answer, borders = tokenizer.markers[ANSWER], borders_of(tokenizer)
            return Answers(shards.column(CONVERSATION), answer, borders, padding)
        frame = document_frame(tokenizer.specials)
        n = self.run.model.context or WINDOW
        column, masks = shards.column("text"), self.run.data.document_masks
        return Windows(column, n, frame.before[0], not frame.after, padding, masks)

    def _plan(self, shards: Shards, collate: Collate, batch_tokens: int, seed: int, shuffle: bool) -> Plan:
        if isinstance(collate, Windows):
            return Even(collate.size, max(1, batch_tokens // collate.n), seed, shuffle)
        columns = [shards.column(name) for name in shards.manifest.columns]
        spare = np.array([int(name in ("target", CONVERSATION)) for name in shards.manifest.columns])

        def lengths(examples: Integers) -> Lengths:
            table: Lengths = np.stack([column.lengths(examples) for column in columns], axis=1) - spare
            return table

        return Bucketed(lengths, shards.examples, batch_tokens, seed, shuffle)

    def _numbers(self, shards: Shards) -> Callable[[Integers], Integers]:
        names = shards.manifest.labels or ()
        order = np.array([self.labels.index(name) for name in names], np.int64)
        return lambda examples: order[shards.labels(examples)]
