"""Texts in, labels or vectors out: what a model reads rather than writes, in batches of similar length.

An empty text is rejected: it says nothing about its class. What does not fit the context is rejected, or truncated
where asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.data.frames import input_frame, pair_frames, prompt_frame
from clearhead.data.shards.ragged import shares_of_room
from clearhead.decoding.engine import pad
from clearhead.decoding.generate import tokenizer_of
from clearhead.decoding.lengths import LengthLimit
from clearhead.decoding.spans import OUTSIDE, Span, marks_spans, spans_of
from clearhead.decoding.threads import free_cores
from clearhead.errors import InputError, ModelFolderError
from clearhead.model_folder import Bundle
from clearhead.models.heads import pool
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.token_bytes import has_long_tokens, is_part_of_character
from clearhead.text.tokenizers.words import encode_words

BATCH_TOKENS = 4096  # padding included
THRESHOLD = 0.5  # of several labels, those at least as likely fit
MOSTLY_UNKNOWN = 0.5  # of the tokens: from here on a class rests on the smaller part of its text


@dataclass(frozen=True)
class Classification:
    """The class of one text, and the probability of every class by its label."""

    label: str
    probabilities: dict[str, float]  # calibrated, if the model folder has a temperature
    unknown: float | None = None  # share of the text that the tokenizer has not learned, if that can be said

    @property
    def is_mostly_unknown(self) -> bool:
        """Whether at least half of the text is unknown to the tokenizer."""
        return self.unknown is not None and self.unknown >= MOSTLY_UNKNOWN


@dataclass(frozen=True)
class SeveralLabels(Classification):
    """The labels that fit a text; each has a probability of its own, and `label` is the likeliest."""

    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Tagging:
    """A label for each word of a text, its probability, and the spans that the labels mark, if they do."""

    words: list[str]
    labels: list[str | None]  # None for words that were truncated
    probabilities: list[float | None]
    spans: list[Span]
    unknown: float | None = None  # as of a `Classification`

    @property
    def is_mostly_unknown(self) -> bool:
        """Whether at least half of the text is unknown to the tokenizer."""
        return self.unknown is not None and self.unknown >= MOSTLY_UNKNOWN


Answer = Classification | Tagging


@dataclass(frozen=True)
class LabelItem:
    """A text, or two, as a classifier reads it: its framed ids, where its second text is, and where its words are."""

    ids: list[int]
    types: list[int] | None = None  # 1 for the tokens of the second text
    words: list[str] = field(default_factory=list)
    places: list[int | None] = field(
        default_factory=list
    )  # the token at which the label of each word is read
    is_truncated: bool = False


class Reader:
    """Reads with the model of a bundle."""

    def __init__(self, bundle: Bundle) -> None:
        self.config, self.module = bundle.config, bundle.module
        self.tokenizer = tokenizer_of(bundle.source_tokenizer or bundle.tokenizer)
        self.lengths = LengthLimit(self.config)
        specials = self.tokenizer.specials
        is_prompt = self.config.shape == "decoder" and self.config.head != "classifier"
        if specials.framing is not None and self.config.head == "none":
            is_prompt = False  # a model of vectors, whose tokenizer may have an end at which they are read
        self.frame = (prompt_frame if is_prompt else input_frame)(specials)
        self.is_part = cache(partial(is_part_of_character, self.tokenizer))  # looked up once for each token
        self.temperature = 1.0 if bundle.calibration is None else bundle.calibration.temperature
        self.labels = bundle.labels or [str(label) for label in range(self.config.classes or 0)]

    def ids(self, text: str, truncate: bool = False) -> list[int]:
        """The framed ids of a text; rejected if they do not fit the context, or truncated as in training."""
        return self.framed(self.tokens(text), truncate)

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text to read; one without any is rejected."""
        tokens = self.tokenizer.encode(text)
        if not tokens or not text.strip():
            raise InputError("The text is empty: there is nothing to read.\nGive a text.")
        return tokens

    def unknown_share(self, ids: Sequence[int]) -> float | None:
        """The share of a text, from its framed ids, that the tokenizer has not learned; None if that cannot be said.

        Those are the unknown tokens or, in a tokenizer that falls back to bytes, the parts of characters that have no
        token. Of single bytes alone nothing can be said.
        """
        count = max(1, len(ids) - len(self.frame))
        if self.tokenizer.specials.unknown is not None:
            return self.tokenizer.counts_unknown(ids) / count
        if not self.is_learned:
            return None
        return sum(map(self.is_part, ids)) / count

    @cached_property
    def is_learned(self) -> bool:
        """Whether the tokenizer has learned from texts, and not only bytes."""
        return has_long_tokens(self.tokenizer)

    def framed(self, tokens: list[int], truncate: bool = False) -> list[int]:
        """The same, from the tokens of a text."""
        count = len(tokens) + len(self.frame)
        if not truncate and not self.lengths.allows(count, "text"):
            raise self.too_long(count)
        ids = self.frame.wrap(tokens[: self.room] if truncate else tokens)
        if not ids:
            raise InputError("The text is empty, and the tokenizer has no beginning token.\nGive a text.")
        return ids

    def too_long(self, count: int) -> InputError:
        """The error of a text that does not fit the context."""
        return InputError(
            f"The text has {count} tokens, but this model can read {self.lengths.longest} "
            f"(context {self.config.context}).\nShorten it or split it, or read only its beginning: --truncate "
            "(in Python truncate=True). Nothing is truncated silently."
        )

    @property
    def room(self) -> int | None:
        """How many tokens of a text the context has room for; None if there is no context."""
        return None if self.config.context is None else self.config.context - len(self.frame)

    def is_too_long(self, tokens: Sequence[int]) -> bool:
        """Whether the context has no room for the tokens of a text."""
        return self.room is not None and len(tokens) > self.room

    def item(self, text: str, second: str | None = None, truncate: bool = False) -> LabelItem:
        """A text, or a pair of texts, as a classifier reads it; rejected if empty, or too long unless truncated."""
        if self.config.texts == 2 and second is None:
            raise InputError(
                "This model reads two texts at once, but one was given.\n"
                "Give both with a tab between them; in Python a pair (text, second)."
            )
        if second is not None:
            return self.pair_item(text, second, truncate)
        if self.config.labels == "each-word":
            return self.word_item(text, truncate)
        tokens = self.tokens(text)
        return LabelItem(self.framed(tokens, truncate), is_truncated=self.is_too_long(tokens))

    def line_item(self, line: str, truncate: bool = False, is_pair: bool = False) -> LabelItem:
        """A line as a classifier reads it: one text, or two with a tab between them."""
        if not is_pair and self.config.texts == 1:
            return self.item(line, truncate=truncate)
        texts = line.split("\t")
        if len(texts) != 2:
            found = "no tab" if len(texts) == 1 else f"{len(texts) - 1} tabs"
            raise InputError(
                f"Two texts are read at once, but the line has {found} between them.\n"
                "Write the first text, one tab, and the second."
            )
        return self.item(texts[0], texts[1], truncate)

    def pair_item(self, text: str, second: str, truncate: bool) -> LabelItem:
        """Two texts with what belongs between them; if they do not fit, the longer one is truncated first."""
        if self.config.labels == "each-word":
            raise InputError("This model labels the words of one text, but two were given.\nGive one.")
        frames = pair_frames(self.tokenizer.specials)
        tokens = [self.tokens(text), self.tokens(second)]
        count = sum(map(len, tokens)) + sum(map(len, frames))
        is_too_long = self.config.context is not None and count > self.config.context
        if is_too_long and truncate:
            room = (self.config.context or 0) - sum(map(len, frames))
            first, other = (np.array([len(part)]) for part in tokens)
            kept = shares_of_room(first, other, room)
            tokens = [part[: int(most[0])] for part, most in zip(tokens, kept, strict=True)]
        elif not self.lengths.allows(count, "text"):
            raise self.too_long(count)
        parts = [frame.wrap(part) for frame, part in zip(frames, tokens, strict=True)]
        types = [side for side, part in enumerate(parts) for _ in part] if self.config.reads_types else None
        return LabelItem(parts[0] + parts[1], types, is_truncated=is_too_long)

    def word_item(self, text: str, truncate: bool) -> LabelItem:
        """The words of a text, which are between white space."""
        words = text.split()
        if not words:
            raise InputError("The text is empty: there is nothing to read.\nGive a text.")
        ids, _, starts = encode_words(self.tokenizer, [words])
        tokens = ids.tolist()
        framed, before = self.framed(tokens, truncate), len(self.frame.before)
        most = len(framed) - len(self.frame)
        places = [before + place if 0 <= place < most else None for place in starts.tolist()]
        return LabelItem(framed, None, words, places, self.is_too_long(tokens))

    def classify(self, rows: Sequence[LabelItem | list[int]], threshold: float = THRESHOLD) -> list[Any]:
        """An `Answer` for every text, or for its ids; if several may fit, those at least as likely as the threshold."""
        self.check_classes()
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold = {threshold} is not a probability.\nUse a number from 0 to 1.")
        items = [row if isinstance(row, LabelItem) else LabelItem(row) for row in rows]
        answers: dict[int, Answer] = {}
        for places, inputs in self.label_batches(items):
            with free_cores(), torch.inference_mode():
                P = finite(self.probabilities(self.module(inputs).float())).cpu()
            for row, place in enumerate(places):
                answers[place] = self.answer(P[row], items[place], threshold)
        return [answers[place] for place in range(len(items))]

    def probabilities(self, logits: Tensor) -> Tensor:
        """The calibrated probabilities of logits (…, classes): of one class, or of each label by itself."""
        Z = logits / self.temperature
        return torch.sigmoid(Z) if self.config.labels == "several" else torch.softmax(Z, -1)

    def answer(self, P: Tensor, item: LabelItem, threshold: float = THRESHOLD) -> Answer:
        """The labels of one text, from the probabilities (classes,), or (n, classes) of its tokens."""
        unknown = self.unknown_share(item.ids)
        if self.config.labels == "each-word":
            return self.tagging(P, item, unknown)
        shares = dict(zip(self.labels, P.tolist(), strict=True))
        label = self.labels[int(P.argmax())]
        if self.config.labels == "one":
            return Classification(label, shares, unknown)
        return SeveralLabels(
            label, shares, unknown, [name for name, share in shares.items() if share >= threshold]
        )

    def tagging(self, P: Tensor, item: LabelItem, unknown: float | None) -> Tagging:
        """The label of each word, from the probabilities (n, classes) of the tokens."""
        best = P.max(-1)
        numbers, shares = best.indices.tolist(), best.values.tolist()
        labels = [None if place is None else self.labels[numbers[place]] for place in item.places]
        sure = [None if place is None else shares[place] for place in item.places]
        spans = spans_of([label or OUTSIDE for label in labels]) if marks_spans(self.labels) else []
        return Tagging(item.words, labels, sure, spans, unknown)

    def check_classes(self) -> None:
        """Rejects a model that has no classes."""
        if self.config.head != "classifier":
            raise InputError(
                f"This model has the head '{self.config.head}', so it has no classes.\n"
                "Train one with task = 'classify'."
            )

    def embed(self, rows: Sequence[list[int]]) -> Tensor:
        """One vector for every text, from its ids, pooled as the config says: (texts, d)."""
        E = torch.zeros(
            len(rows), self.config.width_encoder if self.module.translates else self.config.width_top
        )
        for places, tokens, counts in self.batches(rows):
            with free_cores(), torch.inference_mode():
                pooled = pool(self.module.encode(tokens, counts), counts, self.config.pool)
                pooled = F.normalize(pooled, dim=-1) if self.config.unit_length else pooled
                E[places] = finite(pooled.float()).cpu()
        return E

    def batches(
        self, rows: Sequence[list[int]], batch_tokens: int | None = None
    ) -> Iterator[tuple[list[int], Tensor, Tensor | None]]:
        """Rows of like length together: which they are, their ids (b, n), and how many are real."""
        for places in by_length(rows, batch_tokens or BATCH_TOKENS):
            tokens, counts = pad([rows[place] for place in places])
            yield places, tokens.to(self.device), None if counts is None else counts.to(self.device)

    def label_batches(
        self, items: Sequence[LabelItem], batch_tokens: int | None = None
    ) -> Iterator[tuple[list[int], Inputs]]:
        """Items of like length together: which they are, and what the model reads."""
        for places, tokens, counts in self.batches([item.ids for item in items], batch_tokens):
            types = [items[place].types or [] for place in places]
            segments = pad(types)[0].to(self.device) if any(types) else None
            yield places, Inputs(tokens, counts, types=segments)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.module.parameters()).device


def by_length(rows: Sequence[list[int]], batch_tokens: int) -> Iterator[list[int]]:
    """The numbers of rows of like length, the longest first, as many as fit into a batch."""
    order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
    while order:
        size = max(1, batch_tokens // len(rows[order[0]]))
        yield order[:size]
        order = order[size:]


def finite(X: Tensor) -> Tensor:
    """A model's output, unless some of it is not finite."""
    if not bool(X.isfinite().all()):
        raise ModelFolderError(
            "The model's output contains NaN or infinity.\n"
            "Its weights are damaged, or too large for the data type it is loaded in."
        )
    return X
