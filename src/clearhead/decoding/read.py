"""Texts in, classes or vectors out: what a model reads rather than writes, in batches of like length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.frames import Frame, document_frame, input_frame
from clearhead.decoding.engine import pad
from clearhead.decoding.generate import tokenizer_of
from clearhead.errors import InputError
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
        self.checkpoint, self.config, self.module = checkpoint, checkpoint.config, checkpoint.module
        self.tokenizer = tokenizer_of(checkpoint.source_tokenizer or checkpoint.tokenizer)
        if (
            self.config.shape == "decoder"
        ):  # a document without its end, which the model has not seen from inside
            self.frame = Frame(document_frame(self.tokenizer.specials).before)
        else:
            self.frame = input_frame(self.tokenizer.specials)

    def ids(self, text: str) -> list[int]:
        """The framed ids of a text; refused where they do not fit the context."""
        ids = self.frame.wrap(self.tokenizer.encode(text))
        if self.config.context is not None and len(ids) > self.config.context:
            raise InputError(
                f"A text has {len(ids)} tokens, but the model's context is {self.config.context}.\n"
                "Shorten it or split it; nothing is cut off silently."
            )
        if not ids:
            raise InputError("A text is empty, and the tokenizer has no token to begin with.\nGive a text.")
        return ids

    @property
    def labels(self) -> list[str]:
        """The names of the classes; their numbers where the folder has no labels."""
        return self.checkpoint.labels or [str(label) for label in range(self.config.classes or 0)]

    def classify(self, texts: Sequence[str]) -> list[Classification]:
        """The class of every text."""
        if self.config.head != "classifier":
            raise InputError(
                f"This model has the head '{self.config.head}', so it knows no classes.\nTrain it with task = 'classify'."
            )
        results: list[Classification | None] = [None] * len(texts)
        for rows, tokens, counts in self.batches(texts):
            with torch.inference_mode():
                P = torch.softmax(self.module(tokens, counts).float(), -1)
            for row, shares in zip(rows, P.tolist(), strict=True):
                best = max(range(len(shares)), key=shares.__getitem__)
                results[row] = Classification(self.labels[best], dict(zip(self.labels, shares, strict=True)))
        return [result for result in results if result is not None]

    def embed(self, texts: Sequence[str], normalise: bool = False) -> Tensor:
        """One vector for every text, pooled as the config says: (texts, d)."""
        width = self.config.width_encoder if self.config.shape == "encoder-decoder" else self.config.width_top
        E = torch.zeros(len(texts), width)
        for rows, tokens, counts in self.batches(texts):
            with torch.inference_mode():
                X = self.vectors(tokens, counts)
                E[rows] = pool(X, counts, self.config.pool).float().cpu()
        return F.normalize(E, dim=-1) if normalise else E

    def vectors(self, tokens: Tensor, counts: Tensor | None) -> Tensor:
        """One vector for each token; of a translator those of its encoder."""
        if isinstance(self.module, Translator):
            return self.module.encode(tokens, counts)
        return self.module.vectors(tokens, counts)

    def batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Tensor, Tensor | None]]:
        """Texts of like length together: which they are, their ids (b, n), and how many are real."""
        ids = [self.ids(text) for text in texts]
        order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
        while order:
            size = max(1, BATCH_TOKENS // len(ids[order[0]]))
            rows, order = order[:size], order[size:]
            yield rows, *pad([ids[row] for row in rows])
