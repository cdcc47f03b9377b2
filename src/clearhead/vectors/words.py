"""What can be asked of word vectors: the nearest words, similarity, and arithmetic on words (N3 to N5).

A vectors folder enters; words with numbers leave. An analogy is a sum of vectors of length 1, and its answer the
nearest word that is not part of it: king − man + woman ≈ queen (Mikolov et al., 2013).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead import vector_folder
from clearhead.errors import InputError
from clearhead.vector_folder import VectorTable

Measure = Literal["cosine", "dot"]
Term = tuple[float, str]  # a sign and a word

SIGNS = {"+": 1.0, "-": -1.0, "−": -1.0, "–": -1.0}
AROUND_SIGNS = re.compile(r"([+\-−–])")
COMPARED = 20_000  # words at most that an unknown one is compared with, most frequent first


@dataclass(frozen=True)
class NearWord:
    """A word, and how near it is."""

    word: str
    value: float


@dataclass(frozen=True)
class Similarity:
    """How alike two vectors are: a·b / |a||b|, and a·b."""

    cosine: float
    dot: float


class WordVectors:
    """One vector for each word, whatever its neighbours."""

    def __init__(self, table: VectorTable) -> None:
        self.table, self.words, self.E = table, table.words, table.E
        self.rows = {word: row for row, word in enumerate(table.words)}

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Reads a vectors folder."""
        return cls(vector_folder.load(folder))

    def save(self, folder: str | Path) -> Self:
        """Writes a vectors folder."""
        vector_folder.save(folder, self.table)
        return self

    @cached_property
    def unit(self) -> Tensor:
        """The vectors with length 1: (words, width)."""
        return F.normalize(self.E, dim=-1)

    def row(self, word: str) -> int:
        """The place of a word; an unknown one is an error with words that are spelled alike."""
        if word not in self.rows:
            near = self.spelled_like(word)
            guess = f"Spelled alike: {', '.join(near)}." if near else "No word is spelled alike."
            raise InputError(
                f"{word!r} has no vector: it is not among the {len(self.words):,} words of these vectors.\n{guess}"
            )
        return self.rows[word]

    def spelled_like(self, word: str, count: int = 5) -> list[str]:
        """Known words that are spelled alike, those that differ in case first."""
        variants = dict.fromkeys(form for form in (word.lower(), word.capitalize(), word.upper()))
        known = [form for form in variants if form in self.rows]
        like = (other for other in self.words if abs(len(other) - len(word)) <= 2)
        others = get_close_matches(word, list(islice(like, COMPARED)), n=count, cutoff=0.6)
        return list(dict.fromkeys([*known, *others]))[:count]

    def vector(self, word: str) -> Tensor:
        """The vector of a word: (width,)."""
        return self.E[self.row(word)]

    def similarity(self, a: str, b: str) -> Similarity:
        """How alike two words are."""
        return similarity_of(self.vector(a), self.vector(b))

    def nearest(self, word: str, count: int = 10, by: Measure = "cosine") -> list[NearWord]:
        """The words nearest to one, without itself."""
        row = self.row(word)
        values = self.unit @ self.unit[row] if by == "cosine" else self.E @ self.E[row]
        return self.best(values, [row], count)

    def analogy(self, expression: str | Sequence[str], count: int = 10) -> list[NearWord]:
        """The words nearest to a sum such as "king - man + woman", without those of the sum."""
        terms = self.parse(expression)
        rows = [self.row(word) for _, word in terms]
        signs = torch.tensor([sign for sign, _ in terms])
        total = F.normalize(signs @ self.unit[rows], dim=-1)  # (width,)
        return self.best(self.unit @ total, rows, count)

    def best(self, values: Tensor, without: list[int], count: int) -> list[NearWord]:
        """The words with the largest values, but for some."""
        values[without] = -torch.inf
        found = values.topk(min(count, max(0, len(values) - len(set(without)))))
        pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [NearWord(self.words[row], value) for row, value in pairs]

    def parse(self, expression: str | Sequence[str]) -> list[Term]:
        """The signs and words of a sum, in one text or in several: king - man + woman."""
        written = expression if isinstance(expression, str) else " ".join(expression)
        terms: list[Term] = []
        sign = "+"  # before the next word; empty if there is none yet
        for part in (piece for word in written.split() for piece in self.split_signs(word)):
            if part in SIGNS:
                if sign and terms:
                    break
                sign = part
            elif not sign:
                raise InputError(
                    f"There is no + or - before {part!r}.\n"
                    "Write the sum with its signs: king - man + woman. A phrase has an underscore: New_York."
                )
            else:
                terms.append((SIGNS[sign], part))
                sign = ""
        if sign or len(terms) < 2:
            raise InputError(f"{written!r} is not a sum of words.\nWrite one such as: king - man + woman")
        return terms

    def split_signs(self, part: str) -> list[str]:
        """A word, or a sum without spaces; a word that contains a sign, such as T-shirt, stays one if it is known."""
        if part in self.rows or len(part) == 1:
            return [part]
        if part[0] in SIGNS:
            return [part[0], *self.split_signs(part[1:])]
        pieces = [piece for piece in AROUND_SIGNS.split(part) if piece]
        return pieces if all(piece in SIGNS or piece in self.rows for piece in pieces) else [part]


def similarity_of(a: Tensor, b: Tensor) -> Similarity:
    """How alike two vectors are."""
    return Similarity(float(F.cosine_similarity(a, b, dim=-1)), float(a @ b))
