"""Examples become framed token ids, chunk by chunk, while the next chunk is read.

A stream of examples enters; a stream of `EncodedExamples` leaves, and an `Account` of what was truncated and dropped.
Memory holds a few chunks, whatever the size of the corpus. Reading and counting run in this thread while
others encode, a chunk each.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import cast

import numpy as np

from clearhead.config.data import TooLong
from clearhead.config.labels import LabelKind
from clearhead.data.chats import TURNS, encode_turns, template_of
from clearhead.data.frames import Frame
from clearhead.data.order import Integers, Words
from clearhead.data.shards.manifest import TAGS, Account
from clearhead.data.shards.ragged import (
    EncodedExamples,
    Joined,
    divide,
    select,
    shares_of_room,
    truncate,
    wrap,
)
from clearhead.errors import DataError
from clearhead.examples import ANSWER, Conversation, Example, Labelled, Pair, Text
from clearhead.text.tokenizers import conversations
from clearhead.text.tokenizers.fast import cores
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.text.tokenizers.words import NOWHERE, encode_words

CHUNK_CHARACTERS = 1 << 18
CHUNK_EXAMPLES = 1 << 14
EMPTY = blake2b(digest_size=8)
AHEAD = 2  # chunks on their way for each core


@dataclass(frozen=True)
class Side:
    """How one column is made: its name, its tokenizer, its frame."""

    name: str
    tokenizer: Tokenizer
    frame: Frame

    @property
    def is_tags(self) -> bool:
        """Whether it has no tokens, but for each token of the text the label of its word."""
        return self.name == TAGS

    @property
    def ids(self) -> int:
        """How many different ids it stores: answers by a chat template have ids of their own."""
        return self.tokenizer.size * (2 if self.name == TURNS else 1)


@dataclass(frozen=True)
class Rules:
    """What an example may be: the longest length with its frame, and what happens to a longer one.

    `packed` is for a language model, whose documents are one stream: the frame goes around documents, which
    may come in several pieces, and no length is too long. `has_conversations` is for conversations: one of which no
    answer is left teaches nothing. `joined` is for two texts that a model reads as one, whose lengths add up.
    """

    limit: int | None = None
    too_long: TooLong = "truncate"
    packed: bool = False
    has_conversations: bool = False
    joined: bool = False
    labels: LabelKind = "one"


@dataclass
class Chunk:
    """Some examples on their way: their texts by column, whether each begins a document, labels, hashes."""

    texts: tuple[list[str], ...]
    starts: list[bool]
    labels: list[tuple[str, ...]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)  # the labels of each as one text
    ends: bool = True  # whether what follows begins a document
    inputs: int = 1  # how many columns are input, as opposed to the expected answer
    conversations: list[Conversation] = field(default_factory=list)

    @property
    def characters(self) -> int:
        """The characters of all its texts."""
        return sum(len(text) for texts in self.texts for text in texts)


def chunks(examples: Iterable[Example]) -> Iterator[Chunk]:
    """Examples in chunks; each knows whether what comes after it begins a document."""
    held: list[Example] = []
    size = 0
    for example in examples:
        if size >= CHUNK_CHARACTERS or len(held) == CHUNK_EXAMPLES:
            yield _chunk(held, ends=not isinstance(example, Text) or example.starts)
            held, size = [], 0
        held.append(example)
        size += sum(map(len, texts_of(example)))
    if held:
        yield _chunk(held, ends=True)


def _chunk(examples: list[Example], ends: bool) -> Chunk:
    """The fields of some examples, which are all of one kind."""
    starts = [True] * len(examples)
    if isinstance(examples[0], Pair):
        pairs = cast(list[Pair], examples)
        return Chunk(([pair.source for pair in pairs], [pair.target for pair in pairs]), starts)
    if isinstance(examples[0], Labelled):
        labelled = cast(list[Labelled], examples)
        texts = tuple(map(list, zip(*(example.texts for example in labelled), strict=True)))
        labels, answers = ([example.labels for example in labelled], [example.answer for example in labelled])
        return Chunk(texts, starts, labels, answers, inputs=len(texts))
    if any(isinstance(example, Conversation) for example in examples):
        talks = cast(list[Conversation], examples)
        return Chunk(([talk.text for talk in talks],), starts, conversations=talks)
    pieces = cast(list[Text], examples)
    return Chunk(([piece.text for piece in pieces],), [piece.starts for piece in pieces], ends=ends)


def texts_of(example: Example) -> tuple[str, ...]:
    """The texts of an example."""
    if isinstance(example, Pair):
        return example.source, example.target
    return example.texts if isinstance(example, Labelled) else (example.text,)


@dataclass
class ExampleEncoder:
    """One pass over a stream of examples; `account` and `labels` are complete when it ends."""

    sides: tuple[Side, ...]
    rules: Rules
    account: Account = field(default_factory=Account)
    labels: dict[str, int] = field(default_factory=dict)

    def encode(
        self, examples: Iterable[Example], notify: Callable[[Chunk], None]
    ) -> Iterator[EncodedExamples]:
        """The examples as framed ids; `notify` is called with each chunk when it is done."""
        with ThreadPoolExecutor(cores(), thread_name_prefix="clearhead-encode") as threads:
            on_the_way: deque[tuple[Chunk, Words, Future[tuple[Joined, ...]]]] = deque()
            for chunk in chunks(examples):
                on_the_way.append((chunk, hashes(chunk), threads.submit(self._encode, chunk)))
                if len(on_the_way) > AHEAD * cores():
                    yield self._finish(*on_the_way.popleft(), notify)
            while on_the_way:
                yield self._finish(*on_the_way.popleft(), notify)

    def _encode(self, chunk: Chunk) -> tuple[Joined, ...]:
        are_talks = [isinstance(talk, Conversation) for talk in chunk.conversations] or [False]
        if not all(is_talk == self.rules.has_conversations for is_talk in are_talks):
            raise DataError(
                "The data contain conversations and plain texts, which are learned in different ways.\n"
                "Train on one of the two first, then on the other with training.init_from."
            )
        if self.rules.has_conversations:
            side = self.sides[0]
            encode = encode_turns if template_of(side.tokenizer) else conversations.encode
            return (encode(side.tokenizer, chunk.conversations),)
        if self.rules.labels == "each-word":
            words = encode_words(self.sides[0].tokenizer, [text.split(" ") for text in chunk.texts[0]])
            tags = np.zeros(len(words.ids), np.int64)
            places = words.places[words.places != NOWHERE]
            tags[places] = 1  # in place of their numbers, which are counted in the order of the examples
            chunk.labels = [kept_labels(chunk.labels, words.places)]
            return (words.ids, words.counts), (tags, words.counts)
        sides = zip(self.sides, chunk.texts, strict=True)
        return tuple(side.tokenizer.encode_joined(texts) for side, texts in sides)

    def _finish(
        self,
        chunk: Chunk,
        hashed: Words,
        encoded: Future[tuple[Joined, ...]],
        notify: Callable[[Chunk], None],
    ) -> EncodedExamples:
        ids, counts = zip(*encoded.result(), strict=True)
        for side, texts, amount in zip(self.sides, chunk.texts, counts, strict=False):
            self.account.add(self.account.characters, side.name, sum(map(len, texts)))
            self.account.add(self.account.encoded, side.name, int(amount.sum()))
        self.account.documents += sum(chunk.starts)
        raw = self._labelled(EncodedExamples(ids, counts, hashed), chunk)
        kept = raw if self.rules.packed else self._fit(raw)
        framed = self._framed(kept, chunk)
        notify(chunk)
        return framed

    def _labelled(self, raw: EncodedExamples, chunk: Chunk) -> EncodedExamples:
        """The examples with the numbers of their labels, which are given in the order in which labels come."""
        if not chunk.labels:
            return raw
        names = (name for labels in chunk.labels for name in labels)
        numbers = np.array([self.labels.setdefault(name, len(self.labels)) for name in names], np.int64)
        match self.rules.labels:
            case "each-word":
                ids, tags = raw.ids
                tags = tags.copy()
                tags[tags > 0] = numbers + 1
                return replace(raw, ids=(ids, tags))
            case "several":
                amounts = np.array([len(labels) for labels in chunk.labels], np.int64)
                return replace(raw, labels=numbers, label_counts=amounts)
        return replace(raw, labels=numbers)

    def _fit(self, raw: EncodedExamples) -> EncodedExamples:
        """Without the examples that are empty or too long, or these truncated or divided, as the rules say."""
        keep = np.min(raw.counts, axis=0) > 0
        self.account.add(self.account.dropped, "empty", int((~keep).sum()))
        limits = self._limits(raw)
        if limits is None:
            return select(raw, keep)
        long = (
            np.any([counts > limit for counts, limit in zip(raw.counts, limits, strict=True)], axis=0) & keep
        )
        if self.rules.too_long == "drop":
            self.account.add(self.account.dropped, "too long", int(long.sum()))
            return select(raw, keep & ~long)
        if self.rules.too_long == "split":
            self.account.divided += int(long.sum())
            return divide(select(raw, keep), int(limits[0][0]))
        self.account.truncated += int(long.sum())
        cut = truncate(select(raw, keep), [limit[keep] for limit in limits])
        return self._answering(cut) if self.rules.has_conversations else cut

    def _answering(self, cut: EncodedExamples) -> EncodedExamples:
        """The conversations that still contain part of an answer."""
        (flat,), (counts,) = cut.ids, cut.counts
        is_last = np.zeros(len(flat), bool)
        is_last[np.cumsum(counts) - 1] = True
        tokenizer = self.sides[0].tokenizer
        begins = flat >= tokenizer.size
        if not template_of(tokenizer):
            begins = (flat == tokenizer.markers[ANSWER]) & ~is_last
        rows = np.repeat(np.arange(len(counts)), counts)
        keep = np.isin(np.arange(len(counts)), rows[begins])
        self.account.truncated -= int((~keep).sum())
        self.account.add(self.account.dropped, "no answer within the context", int((~keep).sum()))
        return select(cut, keep)

    def _limits(self, raw: EncodedExamples) -> list[Integers] | None:
        """How many tokens each example may have in each column; of two texts, the longer one is truncated first."""
        if self.rules.limit is None:
            return None
        if self.rules.joined:
            return list(
                shares_of_room(
                    raw.counts[0],
                    raw.counts[1],
                    self.rules.limit - sum(len(side.frame) for side in self.sides),
                )
            )
        return [np.full(len(raw.hashes), self.rules.limit - len(side.frame)) for side in self.sides]

    def _framed(self, kept: EncodedExamples, chunk: Chunk) -> EncodedExamples:
        ids, counts = [], []
        for side, flat, amount in zip(self.sides, kept.ids, kept.counts, strict=True):
            self.account.add(self.account.tokens, side.name, 0 if side.is_tags else len(flat))
            unknown = side.tokenizer.specials.unknown
            if unknown is not None and not side.is_tags:
                self.account.add(self.account.unknown, side.name, int((flat == unknown).sum()))
            begins = np.array(chunk.starts) if self.rules.packed else np.ones(len(amount), bool)
            ends = np.append(begins[1:], chunk.ends) if self.rules.packed else begins
            wrapped, longer = wrap(flat, amount, side.frame, begins, ends)
            ids.append(wrapped)
            counts.append(longer)
        return replace(kept, ids=tuple(ids), counts=tuple(counts))


def kept_labels(labels: list[tuple[str, ...]], places: Integers) -> tuple[str, ...]:
    """The labels of all words that have a token."""
    names = (name for words in labels for name in words)
    return tuple(name for name, place in zip(names, places.tolist(), strict=True) if place != NOWHERE)


def hashes(chunk: Chunk) -> Words:
    """8 bytes for each example: of its input, and, where there is more, of all of it."""
    parts = [[text.encode() for text in texts] for texts in (*chunk.texts, chunk.answers) if texts]
    columns = [[b"\0".join(row) for row in zip(*parts[: chunk.inputs], strict=True)]]
    if len(parts) > chunk.inputs:
        columns.append([b"\0".join(row) for row in zip(*parts, strict=True)])
    digests = [b"".join([_digest(text) for text in texts]) for texts in columns]
    return np.stack([np.frombuffer(digest, "<u8") for digest in digests], axis=1).astype(np.uint64)


def _digest(text: bytes) -> bytes:
    digest = EMPTY.copy()  # half the time of setting one up anew
    digest.update(text)
    return digest.digest()
