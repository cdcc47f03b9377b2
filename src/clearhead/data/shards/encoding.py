"""Examples become framed token ids, chunk by chunk, while the next chunk is read.

A stream of examples enters; a stream of `EncodedExamples` leaves, and an `Account` of what was truncated and dropped.
Memory holds a few chunks, whatever the size of the corpus. Reading and counting run in this thread while
others encode, a chunk each.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import cast

import numpy as np

from clearhead.config.data import TooLong
from clearhead.data.chats import TURNS, encode_turns, template_of
from clearhead.data.frames import Frame
from clearhead.data.order import Words
from clearhead.data.shards.manifest import Account
from clearhead.data.shards.ragged import EncodedExamples, Joined, divide, select, truncate, wrap
from clearhead.errors import DataError
from clearhead.examples import ANSWER, Conversation, Example, Labelled, Pair, Text
from clearhead.text.tokenizers import conversations
from clearhead.text.tokenizers.fast import cores
from clearhead.text.tokenizers.tokenizer import Tokenizer

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
    def ids(self) -> int:
        """How many different ids it stores: answers by a chat template have ids of their own."""
        return self.tokenizer.size * (2 if self.name == TURNS else 1)


@dataclass(frozen=True)
class Rules:
    """What an example may be: the longest length with its frame, and what happens to a longer one.

    `packed` is for a language model, whose documents are one stream: the frame goes around documents, which
    may come in several pieces, and no length is too long. `talks` is for conversations: one of which no answer
    is left teaches nothing.
    """

    limit: int | None = None
    too_long: TooLong = "truncate"
    packed: bool = False
    has_conversations: bool = False


@dataclass
class Chunk:
    """Some examples on their way: their texts by column, whether each begins a document, labels, hashes."""

    texts: tuple[list[str], ...]
    starts: list[bool]
    labels: list[str] = field(default_factory=list)
    ends: bool = True  # whether what follows begins a document
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
        size += len(example.source) + len(example.target) if isinstance(example, Pair) else len(example.text)
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
        return Chunk(
            ([example.text for example in labelled],), starts, [example.label for example in labelled]
        )
    if any(isinstance(example, Conversation) for example in examples):
        talks = cast(list[Conversation], examples)
        return Chunk(([talk.text for talk in talks],), starts, conversations=talks)
    texts = cast(list[Text], examples)
    return Chunk(([piece.text for piece in texts],), [piece.starts for piece in texts], ends=ends)


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
        for side, texts, amount in zip(self.sides, chunk.texts, counts, strict=True):
            self.account.add(self.account.characters, side.name, sum(map(len, texts)))
            self.account.add(self.account.encoded, side.name, int(amount.sum()))
        self.account.documents += sum(chunk.starts)
        numbers = [self.labels.setdefault(label, len(self.labels)) for label in chunk.labels]
        raw = EncodedExamples(ids, counts, hashed, np.array(numbers, np.int64) if numbers else None)
        kept = raw if self.rules.packed else self._fit(raw)
        framed = self._framed(kept, chunk)
        notify(chunk)
        return framed

    def _fit(self, raw: EncodedExamples) -> EncodedExamples:
        """Without the examples that are empty or too long, or these truncated or divided, as the rules say."""
        keep = np.min(raw.counts, axis=0) > 0
        self.account.add(self.account.dropped, "empty", int((~keep).sum()))
        limits = self._limits()
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
            return divide(select(raw, keep), limits[0])
        self.account.truncated += int(long.sum())
        cut = truncate(select(raw, keep), limits)
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

    def _limits(self) -> list[int] | None:
        if self.rules.limit is None:
            return None
        return [self.rules.limit - len(side.frame) for side in self.sides]

    def _framed(self, kept: EncodedExamples, chunk: Chunk) -> EncodedExamples:
        ids, counts = [], []
        for side, flat, amount in zip(self.sides, kept.ids, kept.counts, strict=True):
            self.account.add(self.account.tokens, side.name, len(flat))
            unknown = side.tokenizer.specials.unknown
            if unknown is not None:
                self.account.add(self.account.unknown, side.name, int((flat == unknown).sum()))
            begins = np.array(chunk.starts) if self.rules.packed else np.ones(len(amount), bool)
            ends = np.append(begins[1:], chunk.ends) if self.rules.packed else begins
            wrapped, longer = wrap(flat, amount, side.frame, begins, ends)
            ids.append(wrapped)
            counts.append(longer)
        return EncodedExamples(tuple(ids), tuple(counts), kept.hashes, kept.labels)


def hashes(chunk: Chunk) -> Words:
    """8 bytes for each example: of its input, and, where there is more, of all of it."""
    inputs = [text.encode() for text in chunk.texts[0]]
    columns = [inputs]
    others = chunk.texts[1] if len(chunk.texts) > 1 else chunk.labels
    if others:
        columns.append(
            [b"%b\0%b" % (text, other.encode()) for text, other in zip(inputs, others, strict=True)]
        )
    digests = [b"".join([_digest(text) for text in texts]) for texts in columns]
    return np.stack([np.frombuffer(digest, "<u8") for digest in digests], axis=1).astype(np.uint64)


def _digest(text: bytes) -> bytes:
    digest = EMPTY.copy()  # half the time of setting one up anew
    digest.update(text)
    return digest.digest()
