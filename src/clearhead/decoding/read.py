"""Texts in, classes or vectors out: what a model reads rather than writes, in batches of similar length.

An empty text is rejected: it says nothing about its class. What does not fit the context is rejected, or truncated
where asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.data.frames import input_frame, prompt_frame
from clearhead.decoding.engine import pad
from clearhead.decoding.generate import tokenizer_of
from clearhead.decoding.lengths import LengthLimit
from clearhead.decoding.threads import free_cores
from clearhead.errors import InputError, ModelFolderError
from clearhead.model_folder import Bundle
from clearhead.models.heads import pool
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.token_bytes import has_long_tokens, is_part_of_character

BATCH_TOKENS = 4096  # padding included
MOSTLY_UNKNOWN = 0.5  # of the tokens: from here on a class rests on the smaller part of its text


@dataclass(frozen=True)
class Classification:
    """The class of one text, and the probability of every class by its label."""

    label: str
    probabilities: dict[str, float]  # calibrated, if the model folder has a temperature
    unknown: float | None = None  # share of the text that the tokenizer has not learned, if that can be said

    @property
    def is_mostly_unknown(self) -> bool:
        """Whether the model has read less of the text than it has not."""
        return self.unknown is not None and self.unknown >= MOSTLY_UNKNOWN


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
            raise InputError(
                f"The text has {count} tokens, but this model can read {self.lengths.longest} "
                f"(context {self.config.context}).\nShorten it or split it, or read only its beginning: --truncate "
                "(in Python truncate=True). Nothing is truncated silently."
            )
        ids = self.frame.wrap(tokens[: self.room] if truncate else tokens)
        if not ids:
            raise InputError("The text is empty, and the tokenizer has no beginning token.\nGive a text.")
        return ids

    @property
    def room(self) -> int | None:
        """How many tokens of a text the context has room for; None if there is no context."""
        return None if self.config.context is None else self.config.context - len(self.frame)

    def is_too_long(self, tokens: Sequence[int]) -> bool:
        """Whether the context has no room for the tokens of a text."""
        return self.room is not None and len(tokens) > self.room

    def classify(self, rows: Sequence[list[int]]) -> list[Classification]:
        """The class of every text, from its ids."""
        self.check_classes()
        P = torch.zeros(len(rows), len(self.labels))
        for places, tokens, counts in self.batches(rows):
            with free_cores(), torch.inference_mode():
                logits = self.module(Inputs(tokens, counts)).float()
                P[places] = finite(torch.softmax(logits / self.temperature, -1)).cpu()
        best = P.argmax(-1).tolist()
        return [
            Classification(
                self.labels[label], dict(zip(self.labels, shares, strict=True)), self.unknown_share(ids)
            )
            for label, shares, ids in zip(best, P.tolist(), rows, strict=True)
        ]

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

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor, Tensor | None]]:
        """Rows of like length together: which they are, their ids (b, n), and how many are real."""
        device = next(self.module.parameters()).device
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
        while order:
            size = max(1, BATCH_TOKENS // len(rows[order[0]]))
            places, order = order[:size], order[size:]
            tokens, counts = pad([rows[place] for place in places])
            yield places, tokens.to(device), None if counts is None else counts.to(device)


def finite(X: Tensor) -> Tensor:
    """A model's output, unless some of it is not finite."""
    if not bool(X.isfinite().all()):
        raise ModelFolderError(
            "The model's output contains NaN or infinity.\n"
            "Its weights are damaged, or too large for the data type it is loaded in."
        )
    return X
