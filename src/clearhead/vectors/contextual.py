"""Vectors of words in their sentences, from any trained model (N6): "the *bank* of the river" -> a vector.

A static vector is one for each word; a model's depends on the neighbours, so that a bank of a river and one of money
get two. The word is marked by asterisks. Its vector is that of its tokens in the model's last block: their mean, or,
in a decoder, that of the last, which alone has read the whole word. A decoder reads only what comes before.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.decoding.read import Reader, finite
from clearhead.errors import InputError
from clearhead.examples import Example
from clearhead.model_folder import Bundle, load
from clearhead.vectors.sentences import WORDS, sentences_of
from clearhead.vectors.words import Similarity, similarity_of

MARKED = re.compile(r"\*([^*\s](?:[^*]*[^*\s])?)\*")
MOST_SENTENCES = 1000  # that neighbours are looked for in, if omitted

Span = tuple[int, int]


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence."""

    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.text[self.start : self.end]

    @property
    def marked(self) -> str:
        """The sentence, with asterisks around the word."""
        return f"{self.text[: self.start]}*{self.word}*{self.text[self.end :]}"


@dataclass(frozen=True)
class NearOccurrence:
    """A word in a sentence, and the cosine of its vector with another."""

    occurrence: Occurrence
    cosine: float


def read_marked(sentence: str) -> Occurrence:
    """The word that asterisks mark in a sentence."""
    marks = list(MARKED.finditer(sentence))
    if len(marks) != 1 or sentence.count("*") != 2:
        raise InputError(
            f"{sentence[:80]!r} does not mark one word.\n"
            "A model's vectors depend on the sentence: put asterisks around the word in it, as in \"the *bank* of the "
            'river".'
        )
    (mark,) = marks
    text = sentence[: mark.start()] + mark[1] + sentence[mark.end() :]
    return Occurrence(text, mark.start(), mark.start() + len(mark[1]))


class ContextualVectors:
    """One vector for each word in each sentence, by a trained model."""

    def __init__(self, bundle: Bundle) -> None:
        self.reader, self.module = Reader(bundle), bundle.module
        self.is_causal = bundle.config.shape == "decoder"

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Reads a model folder, or the best one of a run."""
        return cls(load(folder))

    def vector(self, sentence: str) -> Tensor:
        """The vector of the marked word: (d,)."""
        occurrence = read_marked(sentence)
        found = list(self.vectors([occurrence.text], [(occurrence.start, occurrence.end)]))
        if not found:
            raise InputError(
                f"The tokenizer makes no token of {occurrence.word!r}, or the text is too long.\n"
                "Mark another word, or shorten the text."
            )
        return found[0][1]

    def similarity(self, a: str, b: str) -> Similarity:
        """How alike the marked words of two sentences are."""
        return similarity_of(self.vector(a), self.vector(b))

    def nearest(
        self, sentence: str, among: Iterable[Example], count: int = 10, most: int = MOST_SENTENCES
    ) -> list[NearOccurrence]:
        """The nearest words of other sentences, each word once, where it is nearest."""
        own, vector = read_marked(sentence), F.normalize(self.vector(sentence), dim=-1)
        texts = list(islice(sentences_of(among, with_targets=False), most))
        found = [each for each in self.vectors(texts) if each[0] != own]
        if not found:
            raise InputError("There is no other word to compare with.\nGive more sentences with --among.")
        cosines = F.normalize(torch.stack([each for _, each in found]), dim=-1) @ vector
        nearest: dict[str, NearOccurrence] = {}
        for place in cosines.argsort(descending=True).tolist():
            occurrence = found[place][0]
            nearest.setdefault(occurrence.word, NearOccurrence(occurrence, float(cosines[place])))
            if len(nearest) == count:
                break
        return list(nearest.values())

    def vectors(
        self, texts: list[str], spans: list[Span] | None = None
    ) -> Iterator[tuple[Occurrence, Tensor]]:
        """The words of some texts, or the given part of each, with their vectors, in any order."""
        encoded = [self.reader.tokenizer.offsets(text) for text in texts]
        kept = [place for place, each in enumerate(encoded) if each.ids]
        rows = [self.reader.framed(encoded[place].ids, truncate=spans is None) for place in kept]
        skipped = len(self.reader.frame.before)
        for places, tokens, counts in self.reader.batches(rows):
            with torch.inference_mode():
                X = finite(self.module.encode(tokens, counts).float()).cpu()  # (b, n, d)
            for row, place in enumerate(places):
                text, count = texts[kept[place]], len(rows[place]) - len(self.reader.frame)
                offsets = encoded[kept[place]].offsets[:count]
                wanted = [spans[kept[place]]] if spans is not None else words_in(text)
                for start, end in wanted:
                    own = [
                        skipped + at
                        for at, (first, last) in enumerate(offsets)
                        if first < end and last > start
                    ]
                    if own:
                        yield (
                            Occurrence(text, start, end),
                            X[row, own[-1]] if self.is_causal else X[row, own].mean(0),
                        )


def words_in(text: str) -> list[Span]:
    """Where the words of a text are."""
    return [span for _, span in WORDS.pre_tokenize_str(text)]
