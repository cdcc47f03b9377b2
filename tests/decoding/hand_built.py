"""Models whose answers are known: weights set by hand, and a stepper that asks a function.

The counter writes 4 after 3. The repeater writes the token that stood `period` places before, which it finds in
its cache. The copier translates a text to itself, by looking at the source's next place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.models.build import build
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.translator import Translator

SURE = 12.0  # the logit of the right token, where the others have 0

Scores = Callable[[tuple[int, ...], tuple[int, ...]], Sequence[float]]


@dataclass
class Rows:
    """The state of a scripted model: every text so far, and its source."""

    texts: list[list[int]]
    sources: list[tuple[int, ...]]
    capacity: int

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(text) for text in self.texts])

    @property
    def used_bytes(self) -> int:
        return 8 * sum(map(len, self.texts))

    def select(self, rows: Tensor) -> None:
        self.texts = [list(self.texts[row]) for row in rows.tolist()]
        self.sources = [self.sources[row] for row in rows.tolist()]

    def copy(self, rows: Tensor) -> "Rows":
        other = Rows(self.texts, self.sources, self.capacity)
        other.select(rows)
        return other

    def join(self, other: "Rows") -> None:
        self.texts, self.sources = self.texts + other.texts, self.sources + other.sources
        self.capacity = max(self.capacity, other.capacity)


@dataclass
class Scripted:
    """A model whose logits are a function of the text and the source; it counts what it is asked."""

    scores: Scores
    fed: list[tuple[int, int]] = field(default_factory=list)  # rows and columns of every step

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> Rows:
        sources: list[tuple[int, ...]] = [()] * batch
        if source is not None:
            counts = [source.shape[1]] * batch if source_counts is None else source_counts.tolist()
            sources = [tuple(row[:n]) for row, n in zip(source.tolist(), counts, strict=True)]
        return Rows([[] for _ in range(batch)], sources, capacity)

    def step(self, tokens: Tensor, state: Rows, counts: Tensor | None = None, last: bool = False) -> Tensor:
        assert last
        self.fed.append((tokens.shape[0], tokens.shape[1]))
        numbers = [tokens.shape[1]] * len(tokens) if counts is None else counts.tolist()
        for text, row, n in zip(state.texts, tokens.tolist(), numbers, strict=True):
            text += row[:n]
            assert len(text) <= state.capacity
        both = zip(state.texts, state.sources, strict=True)
        return torch.tensor([[self.scores(tuple(text), source)] for text, source in both])


def scripted(vocabulary: int, *likely: int) -> Scripted:
    """A model that wants to write these ids, one after the other, whatever the prompt."""

    def scores(text: tuple[int, ...], source: tuple[int, ...]) -> list[float]:
        written = len(text) - 1  # after a prompt of one token
        wanted = likely[min(written, len(likely) - 1)]
        return [SURE * (token == wanted) for token in range(vocabulary)]

    return Scripted(scores)


def counter(vocabulary: int, context: int = 64) -> Decoder:
    """Embedding, nothing, head: the likeliest token after t is t + 1."""
    model = build(
        ModelConfig(
            vocabulary=vocabulary, context=context, d=vocabulary, h=1, decoder_blocks=0,
            positions="none", norm="none", tied=False,
        )
    )  # fmt: skip
    assert isinstance(model, Decoder)
    with torch.no_grad():
        model.decoder.tokens.weight.copy_(torch.eye(vocabulary))
        head: Any = model.head
        head.table.weight.copy_(SURE * torch.eye(vocabulary).roll(1, 0))
    return model


def repeater(vocabulary: int, period: int, context: int = 32) -> Decoder:
    """One head that looks `period` − 1 places back, and a head that says what stands there."""
    model = build(ModelConfig(shape="decoder", decoder_blocks=1, **looking(vocabulary, context)))
    assert isinstance(model, Decoder)
    silence(model)
    one_hot(model.decoder, vocabulary, context)
    look(model.decoder.blocks[0].self, model.head, vocabulary, context, offset=1 - period)
    return model


def copier(vocabulary: int, context: int = 32) -> Translator:
    """One head of cross-attention that looks at the source's next place, past its beginning token."""
    settings = looking(vocabulary, context)
    model = build(
        ModelConfig(shape="encoder-decoder", encoder_blocks=0, decoder_blocks=1, shared=False, **settings)
    )
    assert isinstance(model, Translator)
    silence(model)
    for stack in (model.encoder, model.decoder):
        one_hot(stack, vocabulary, context)
    look(model.decoder.blocks[0].cross, model.head, vocabulary, context, offset=1)
    return model


def looking(vocabulary: int, context: int) -> dict[str, Any]:
    """Vectors of three parts: the token, its place, and room for what a head finds."""
    return {
        "vocabulary": vocabulary, "context": context, "d": 2 * vocabulary + context, "h": 1, "d_k": context,
        "d_v": vocabulary, "similarity": "dot", "scale": 50.0, "positions": "learned", "norm": "none",
        "tied": False,
    }  # fmt: skip


def silence(model: Decoder) -> None:
    """Every weight zero."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()


def one_hot(stack: Any, vocabulary: int, context: int) -> None:
    """The first part of a vector says which token, the second which place."""
    with torch.no_grad():
        stack.tokens.weight[:, :vocabulary] = torch.eye(vocabulary)
        stack.positions.weight[:, vocabulary : vocabulary + context] = torch.eye(context)


def look(attention: Any, head: Any, vocabulary: int, context: int, offset: int) -> None:
    """Query i meets key i + offset, and what stands there goes to the third part, which the head reads."""
    place = slice(vocabulary, vocabulary + context)
    found = slice(vocabulary + context, None)
    with torch.no_grad():
        attention.W_q.weight[:, place] = torch.diag(torch.ones(context - abs(offset)), -offset)
        attention.W_k.weight[:, place] = torch.eye(context)
        attention.W_v.weight[:, :vocabulary] = torch.eye(vocabulary)
        attention.W_o.weight[found] = torch.eye(vocabulary)
        head.table.weight[:, found] = SURE * torch.eye(vocabulary)
