"""The floor: a bag of n-grams, weighed by TF-IDF, under logistic regression; what every model should beat.

Words, pairs of words, and runs of two to five letters inside words (of DNA: of up to six letters) are hashed into
columns; weights come from L-BFGS with a penalty on their squares. It is shown beside the candidates and never kept.
"""

import math
import re
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
LONGEST_TEXT = 4000  # characters that are read
MOST_NUMBERS = 4_000_000  # of all texts together
PENALTY = 0.05  # of a weight's square, for the sum of the losses: scikit-learn's C = 10
ROUNDS, ROUNDS_AT_ONCE = 25, 5  # of L-BFGS; after how many the clock is read


def judge_floor(fold: Fold, is_dna: bool, deadline: float = math.inf) -> Judgement:
    """Trains and judges the floor on a fold; past the deadline of `time.perf_counter` it takes no further rounds."""
    started = time.perf_counter()
    width = min(MOST_COLUMNS, MOST_WEIGHTS // len(fold.labels))
    learned, judged = (
        [grams_of(example.text, is_dna, width) for example in part] for part in (fold.learned, fold.judged)
    )
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


def grams_of(text: str, is_dna: bool, width: int) -> NDArray[np.int64]:
    """The hashed n-grams of a text, each once; how often one occurs says little in short texts."""
    text = text[:LONGEST_TEXT].lower()
    if is_dna:
        found = {text[i : i + n] for n in LETTERS_OF_DNA for i in range(len(text) - n + 1)}
    else:
        words = WORD.findall(text)
        found = {f" {word} " for word in words}
        found |= {f"{first}  {second}" for first, second in pairwise(words)}
        for word in {f" {word} " for word in words}:
            found |= {word[i : i + n] for n in LETTERS for i in range(len(word) - n + 1)}
    return np.array(sorted({zlib.crc32(gram.encode()) % width for gram in found}), np.int64)


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
        rows = [np.searchsorted(seen, row[np.isin(row, seen, kind="table")]) for row in rows]
        counts = np.array([len(row) for row in rows])
        columns = np.concatenate([np.empty(0, np.int64), *rows])
        weights = rarity[columns]
        texts = np.repeat(np.arange(len(rows)), counts)
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
