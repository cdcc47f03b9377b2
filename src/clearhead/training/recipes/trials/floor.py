"""The floor: a bag of n-grams, weighed by TF-IDF, under logistic regression; what every model should beat.

Words, pairs of words, and runs of two to five letters inside words (of DNA: of up to six letters) are hashed into
columns; weights come from L-BFGS with a penalty on their squares. It is shown beside the candidates and never kept.
"""

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead.training.loop.threads import one_core_each
from clearhead.training.recipes.trials.folds import Fold
from clearhead.training.recipes.trials.trial import Judgement

MOST_COLUMNS, MOST_WEIGHTS = 1 << 18, 1 << 23  # into which n-grams are hashed; times the classes
WORD = re.compile(r"\w+|[^\w\s]")
LETTERS, LETTERS_OF_DNA = range(2, 6), range(1, 7)
MULTIPLIER = np.uint64(6364136223846793005)  # of Knuth's generator; products overflow
LONGEST_TEXT = 4000  # characters that are read
MOST_NUMBERS = 4_000_000  # of all texts together
PENALTY = 0.05  # of a weight's square, for the sum of the losses: scikit-learn's C = 10
ROUNDS, ROUNDS_AT_ONCE = 25, 5  # of L-BFGS; after how many the clock is read


def judge_floor(fold: Fold, is_dna: bool, deadline: float = math.inf) -> Judgement:
    """Trains and judges the floor on a fold; past the deadline of `time.perf_counter` it takes no further rounds."""
    started = time.perf_counter()
    width = min(MOST_COLUMNS, MOST_WEIGHTS // len(fold.labels))
    texts = [example.text[:LONGEST_TEXT].lower() for example in (*fold.learned, *fold.judged)]
    rows = grams_of(texts, is_dna, width)
    learned, judged = rows[: len(fold.learned)], rows[len(fold.learned) :]
    room = max(1, MOST_NUMBERS // max(1, sum(map(len, learned)) // len(learned)))
    kept = range(0, len(learned), -(-len(learned) // room))
    counts = np.bincount(np.concatenate([learned[i] for i in kept]), minlength=width)
    seen = np.flatnonzero(counts)
    rarity = np.log((1 + len(kept)) / (1 + counts[seen])) + 1
    numbers = {label: number for number, label in enumerate(fold.labels)}
    X = SparseRows.of([learned[i] for i in kept], seen, rarity)
    Y = torch.tensor([numbers[fold.learned[i].answer] for i in kept])
    with one_core_each():  # PyTorch's threads would wait for one another on a busy machine
        W, b, rounds = fit(X, Y, len(fold.labels), deadline)
        Z = SparseRows.of(judged, seen, rarity).times(W) + b
    wanted = torch.tensor([numbers[example.answer] for example in fold.judged])
    loss = float(F.cross_entropy(Z, wanted))
    seconds = time.perf_counter() - started
    is_complete = len(kept) == len(learned) and rounds == ROUNDS
    return Judgement((Z.argmax(1) == wanted).numpy(), loss, rounds, seconds, is_complete)


def grams_of(texts: Sequence[str], is_dna: bool, width: int) -> list[NDArray[np.int64]]:
    """The hashed n-grams of each text, each once; how often one occurs says little in short texts.

    All texts are hashed side by side, as one row of letters in which no run crosses from a word to the next.
    """
    words = [[text] if is_dna else WORD.findall(text) for text in texts]
    parts = [part if is_dna else [f" {word} " for word in part] for part in words]
    letters = np.frombuffer("".join(map("".join, parts)).encode("utf-32-le"), np.uint32).astype(np.uint64)
    sizes = np.array([len(part) for row in parts for part in row], np.int64)
    places = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(letters))  # letters to the end of the word
    owners = np.repeat(
        np.arange(len(texts)), [sum(map(len, part)) for part in parts]
    )  # the text of each letter
    found, hashes = [], np.zeros(len(letters), np.uint64)
    for n in range(1, 1 + max(LETTERS_OF_DNA if is_dna else LETTERS)):
        hashes = hashes * MULTIPLIER + np.append(
            letters[n - 1 :], np.zeros(min(n - 1, len(letters)), np.uint64)
        )
        if n in (LETTERS_OF_DNA if is_dna else LETTERS):
            fits = places >= n
            found.append((owners[fits], columns_of(hashes[fits] + np.uint64(n), width)))
    if not is_dna:
        numbers: dict[str, int] = {}
        ids = np.array([numbers.setdefault(word, len(numbers)) for part in words for word in part], np.uint64)
        text = np.repeat(np.arange(len(texts)), list(map(len, words)))
        found.append((text, columns_of(ids * MULTIPLIER, width)))
        together = text[1:] == text[:-1]
        pairs = (ids[:-1] + np.uint64(1)) * MULTIPLIER * MULTIPLIER + ids[1:]
        found.append((text[1:][together], columns_of(pairs[together], width)))
    keys = np.unique(np.concatenate([text * width + columns for text, columns in found]))
    borders = np.searchsorted(keys, np.arange(1, len(texts)) * width)
    return np.split(keys % width, borders)


def columns_of(hashes: NDArray[np.uint64], width: int) -> NDArray[np.int64]:
    """The column of each hash, by its upper bits, which depend on all of it."""
    mixed = hashes * MULTIPLIER
    return ((mixed ^ (mixed >> np.uint64(32))) % np.uint64(width)).astype(np.int64)


@dataclass(frozen=True)
class SparseRows:
    """A matrix that is mostly zero: the columns and values of each row, one after the other, and where rows start."""

    columns: Tensor
    values: Tensor
    starts: Tensor
    width: int

    @classmethod
    def of(
        cls, rows: Sequence[NDArray[np.int64]], seen: NDArray[np.int64], rarity: NDArray[np.float64]
    ) -> "SparseRows":
        """TF-IDF rows of length 1, with a column for each n-gram that was seen in training."""
        place = np.full(MOST_COLUMNS, -1)
        place[seen] = np.arange(len(seen))
        columns = place[np.concatenate([np.empty(0, np.int64), *rows])]
        texts = np.repeat(np.arange(len(rows)), list(map(len, rows)))[columns >= 0]
        columns = columns[columns >= 0]
        counts = np.bincount(texts, minlength=len(rows))
        weights = rarity[columns]
        lengths = np.sqrt(np.bincount(texts, weights**2, minlength=len(rows)))
        weights /= np.maximum(lengths, 1e-9)[texts]
        starts = np.cumsum(counts) - counts
        made = torch.from_numpy(columns), torch.from_numpy(weights).float(), torch.from_numpy(starts)
        return cls(*made, len(rarity))

    def times(self, W: Tensor) -> Tensor:
        """The product with a matrix (width, k): (rows, k)."""
        return F.embedding_bag(self.columns, W, self.starts, per_sample_weights=self.values, mode="sum")

    def turned(self) -> "SparseRows":
        """The transposed matrix."""
        counts = torch.diff(self.starts, append=torch.tensor([len(self.columns)]))
        rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
        order = torch.argsort(self.columns, stable=True)
        sizes = torch.bincount(self.columns, minlength=self.width)
        return SparseRows(rows[order], self.values[order], sizes.cumsum(0) - sizes, len(counts))


def fit(X: SparseRows, Y: Tensor, classes: int, deadline: float = math.inf) -> tuple[Tensor, Tensor, int]:
    """W (n-grams, classes) and b (classes,) that minimise −Σ log P + penalty · Σ W², and after how many rounds."""
    W, b = torch.zeros(X.width, classes), torch.zeros(classes)
    X_T, truth = X.turned(), F.one_hot(Y, classes).float()
    optimizer = torch.optim.LBFGS(
        [W, b], max_iter=ROUNDS_AT_ONCE, history_size=5, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        log_P = torch.log_softmax(X.times(W) + b, 1)
        G = log_P.exp() - truth
        W.grad, b.grad = (X_T.times(G) + 2 * PENALTY * W) / len(Y), G.sum(0) / len(Y)
        return float((PENALTY * (W * W).sum() - (truth * log_P).sum()) / len(Y))

    rounds = 0
    with torch.no_grad():
        while rounds < ROUNDS and (rounds == 0 or time.perf_counter() < deadline):
            optimizer.step(closure)
            rounds += ROUNDS_AT_ONCE
    return W, b, rounds
