"""How good word vectors are: analogy questions and similarity judgements enter, scores with their counts leave.

A question "a b c d" is right if d is the word nearest to b − a + c, of all words but a, b and c. Like the usual tools
this ignores case, looks only at the most frequent words (the vocabulary restriction), and skips questions with other
words; the counts say how many. gensim's `evaluate_word_analogies` gives the same numbers, question by question; here
many questions are one matrix product.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from clearhead.corpora.words import ANALOGIES, COUNTRIES
from clearhead.errors import ConfigError, DataError, InputError
from clearhead.vectors.files import lines_of
from clearhead.vectors.words import WordVectors

RESTRICTION = 300_000  # words, as in the usual tools
AT_ONCE = 1 << 24  # similarities that are computed together
LOOKED_AT = 5  # nearest words of which the first that is not in the question is the answer
SYNTACTIC = "gram"  # how the names of sections about grammar begin, in the usual file
BUILTIN = "builtin:words"


@dataclass(frozen=True)
class Question:
    """a is to b as c is to d."""

    section: str
    a: str
    b: str
    c: str
    d: str


@dataclass
class Score:
    """How many questions were asked, how many had all words in the vocabulary, and how many were right."""

    questions: int = 0
    in_vocabulary: int = 0
    right: int = 0

    @property
    def accuracy(self) -> float | None:
        """The share of right answers among the questions whose words are all known."""
        return self.right / self.in_vocabulary if self.in_vocabulary else None

    def add(self, other: "Score") -> None:
        """Adds the counts of another score."""
        self.questions += other.questions
        self.in_vocabulary += other.in_vocabulary
        self.right += other.right


@dataclass(frozen=True)
class AnalogyScores:
    """The scores of all sections, by name, and how many words were looked at."""

    sections: dict[str, Score]
    restriction: int

    def total(self, kind: str | None = None) -> Score:
        """The sections together: all, the semantic or the syntactic ones."""
        total = Score()
        for name, score in self.sections.items():
            if kind is None or (kind == "syntactic") == name.startswith(SYNTACTIC):
                total.add(score)
        return total


@dataclass(frozen=True)
class PairScores:
    """Rank correlation of cosines with the judgements of people, and the counts."""

    spearman: float
    pairs: int
    in_vocabulary: int
    restriction: int


def read_questions(source: str | Path) -> Iterator[Question]:
    """The questions of a file in the usual format (": section", then "a b c d" per line), or of `builtin:words`."""
    if str(source) == BUILTIN:
        places = {name for country, city, *_ in COUNTRIES for name in (country, city)}
        for a, b, c, d in ANALOGIES:
            yield Question("capitals" if a in places else "gender", b, a, c, d)
        return
    section = ""
    for number, line in lines_of(source):
        words = line.split()
        if words and words[0].startswith(":"):
            section = line.strip().lstrip(": ")
        elif len(words) == 4:
            yield Question(section, *words)
        elif words:
            raise DataError(
                f"{source}, line {number}: {len(words)} words, but an analogy question has four: a b c d.\n"
                "A line that starts with a colon names a section."
            )


def evaluate_analogies(
    vectors: WordVectors, questions: Iterable[Question], restriction: int = RESTRICTION
) -> AnalogyScores:
    """The share of right answers in each section."""
    rows = known_rows(vectors, restriction)
    names = [word.upper() for word in vectors.words[:restriction]]
    sections: dict[str, Score] = {}
    asked: list[tuple[Question, list[int]]] = []
    for question in questions:
        score = sections.setdefault(question.section, Score())
        score.questions += 1
        words = [word.upper() for word in (question.a, question.b, question.c, question.d)]
        if all(word in rows for word in words):
            score.in_vocabulary += 1
            asked.append((question, [rows[word] for word in words]))
    if not sections:
        raise DataError("There is no analogy question.\nGive a file with lines of four words: a b c d.")
    unit = vectors.unit[:restriction]
    size = max(1, AT_ONCE // len(unit))
    for first in range(0, len(asked), size):
        part = asked[first : first + size]
        abc = torch.tensor([places[:3] for _, places in part])
        A, B, C = (unit[abc[:, place]] for place in range(3))
        values = F.normalize(B - A + C, dim=-1) @ unit.T  # (questions, words)
        values.scatter_(1, abc, -torch.inf)
        best = values.topk(min(LOOKED_AT, len(unit)), dim=-1).indices.tolist()
        for (question, _), near in zip(part, best, strict=True):
            own = {word.upper() for word in (question.a, question.b, question.c)}
            answer = next((names[row] for row in near if names[row] not in own), None)
            sections[question.section].right += answer == question.d.upper()
    return AnalogyScores(sections, min(restriction, len(vectors.words)))


def known_rows(vectors: WordVectors, restriction: int) -> dict[str, int]:
    """The place of each word in capitals; of several that differ in case only, that of the most frequent."""
    words = vectors.words[:restriction]
    return {word.upper(): row for row, word in reversed(list(enumerate(words)))}


def read_pairs(path: str | Path) -> Iterator[tuple[str, str, float]]:
    """Pairs of words with the judgement of people: two words and a number per line, after commas, tabs or spaces."""
    for number, line in lines_of(path):
        if not line.strip() or line.startswith("#"):
            continue
        values = (
            line.split("\t") if "\t" in line else next(csv.reader([line])) if "," in line else line.split()
        )
        try:
            a, b, score = values[0].strip(), values[1].strip(), float(values[2])
        except (IndexError, ValueError):
            if number == 1:
                continue  # names of columns
            raise DataError(
                f"{path}, line {number}: {line.strip()[:80]!r} is not two words and a number.\n"
                "Write a line such as: tiger,cat,7.35"
            ) from None
        yield a, b, score


def evaluate_pairs(
    vectors: WordVectors, pairs: Iterable[tuple[str, str, float]], restriction: int = RESTRICTION
) -> PairScores:
    """Spearman's rank correlation of the cosines with the judgements."""
    try:
        from scipy.stats import spearmanr
    except ImportError:
        raise ConfigError(
            "Rank correlation needs the package scipy, which is not installed.\n"
            "Install it: pip install 'clearhead[vectors]'"
        ) from None
    rows = known_rows(vectors, restriction)
    count, judged, measured = 0, [], []
    for a, b, score in pairs:
        count += 1
        if a.upper() in rows and b.upper() in rows:
            judged.append(score)
            measured.append(float(vectors.unit[rows[a.upper()]] @ vectors.unit[rows[b.upper()]]))
    if len(judged) < 3:
        raise InputError(
            f"Of {count} pairs, {len(judged)} have both words in the vocabulary, too few for a correlation.\n"
            "Train on more text, or lower --minimum-frequency."
        )
    correlation = float(spearmanr(judged, measured).statistic)
    return PairScores(correlation, count, len(judged), min(restriction, len(vectors.words)))
