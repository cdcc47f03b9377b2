"""Texts in, classes or vectors out: what a model reads rather than writes, in batches of like length.

An empty text is a text: its beginning and end are read. What does not fit the context is refused, or cut where asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.frames import Frame, document_frame, input_frame
from clearhead.decoding.engine import pad
from clearhead.decoding.generate import tokenizer_of
from clearhead.errors import CheckpointError, InputError
from clearhead.models.heads import pool
from clearhead.models.translator import Translator

BATCH_TOKENS = 4096  # padding included


@dataclass(frozen=True)
class Classification:
    """The class of one text, and the probability of every class by its label."""

    label: str
    probabilities: dict[str, float]


class Reader:
    """Reads with a checkpoint's model."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.config, self.module = checkpoint.config, checkpoint.module
        self.tokenizer = tokenizer_of(checkpoint.source_tokenizer or checkpoint.tokenizer)
        specials = self.tokenizer.specials
        self.frame = input_frame(specials)
        if self.config.shape == "decoder" and self.config.head != "classifier":
            self.frame = Frame(
                document_frame(specials).before
            )  # it learned nothing about what follows an end
        self.labels = checkpoint.labels or [str(label) for label in range(self.config.classes or 0)]

    def ids(self, text: str, cut: bool = False) -> list[int]:
        """The framed ids of a text; refused where they do not fit the context, or cut as in training."""
        tokens = self.tokenizer.encode(text)
        if self.is_too_long(tokens) and not cut:
            raise InputError(
                f"The text has {len(tokens) + len(self.frame)} tokens, but the model's context is "
                f"{self.config.context}.\nShorten it or split it, or ask for its beginning alone: --cut "
                "(in Python cut=True). Nothing is cut off silently."
            )
        ids = self.frame.wrap(tokens[: self.room])
        if not ids:
            raise InputError("The text is empty, and the tokenizer has no token to begin with.\nGive a text.")
        return ids

    @property
    def room(self) -> int | None:
        """How many tokens of a text the context has room for; None when any number."""
        return None if self.config.context is None else self.config.context - len(self.frame)

    def is_too_long(self, tokens: Sequence[int]) -> bool:
        """Whether the context has no room for the tokens of a text."""
        return self.room is not None and len(tokens) > self.room

    def classify(self, rows: Sequence[list[int]]) -> list[Classification]:
        """The class of every text, from its ids."""
        self.check_classes()
        P = torch.zeros(len(rows), len(self.labels))
        for places, tokens, counts in self.batches(rows):
            with torch.inference_mode():
                P[places] = finite(torch.softmax(self.module(tokens, counts).float(), -1)).cpu()
        best = P.argmax(-1).tolist()
        return [
            Classification(self.labels[label], dict(zip(self.labels, shares, strict=True)))
            for label, shares in zip(best, P.tolist(), strict=True)
        ]

    def check_classes(self) -> None:
        """Refuses a model that knows no classes."""
        if self.config.head != "classifier":
            raise InputError(
                f"This model has the head '{self.config.head}', so it knows no classes.\n"
                "Train one with task = 'classify'."
            )

    def embed(self, rows: Sequence[list[int]]) -> Tensor:
        """One vector for every text, from its ids, pooled as the config says: (texts, d)."""
        translates = isinstance(self.module, Translator)
        E = torch.zeros(len(rows), self.config.width_encoder if translates else self.config.width_top)
        for places, tokens, counts in self.batches(rows):
            with torch.inference_mode():
                pooled = pool(self.vectors(tokens, counts), counts, self.config.pool)
                pooled = F.normalize(pooled, dim=-1) if self.config.unit_length else pooled
                E[places] = finite(pooled.float()).cpu()
        return E

    def vectors(self, tokens: Tensor, counts: Tensor | None) -> Tensor:
        """One vector for each token; of a translator those of its encoder."""
        if isinstance(self.module, Translator):
            return self.module.encode(tokens, counts)
        return self.module.vectors(tokens, counts)

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
    """What a model gives, unless some of it is no number."""
    if not bool(X.isfinite().all()):
        raise CheckpointError(
            "What the model gives is not all numbers.\n"
            "Its weights are damaged, or too large for the type of number it is loaded in."
        )
    return X
