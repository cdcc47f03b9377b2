"""Word vectors from texts without labels: texts and a tokenizer enter; a folder of vectors leaves.

How much more often two words are near each other than by chance, M = max(0, log P(w, c) / P(w) P(c)), is factored as
E Eᵀ, whose rows are the vectors (Levy & Goldberg, 2014): words with the same neighbours get the same directions,
whether or not a label was seen with them. That takes seconds, and word2vec, which finds nearly the same, minutes.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead import vector_folder
from clearhead.config.run import RunConfig
from clearhead.data.cache import Value, cache_folder, find_or_make, identity, key_of
from clearhead.data.progress import ignore_progress
from clearhead.data.tokenizers import train_tokenizers, unlabelled_texts
from clearhead.text.sources.read import read_split
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.training.recipes.trials.floor import SparseRows
from clearhead.vector_folder import VectorTable

NEAR = 5  # words on each side that count as neighbours
SMOOTHING = 0.75  # of the frequencies of neighbours, so that rare ones count less
MOST_WORDS, FEWEST_TIMES = 8192, 2  # that get vectors; how often each must occur
FEWEST_WORDS, SPELLED = 5, re.compile(r"[^\W\d_]+")  # that must have vectors, or they are of no use
MOST_READ = 4_000_000  # that are read
SPARE, PRODUCTS, SEED = 16, 3, 1  # of the factoring: dimensions beside those wanted, and products with M
TABLE = "table"


def texts_without_labels(run: RunConfig) -> list[str]:
    """The first texts without labels that a run names."""
    found: list[str] = []
    characters = 0
    for example in unlabelled_texts(run) or ():
        found.append(example.text)  # type: ignore[union-attr]
        characters += len(found[-1])
        if characters > MOST_READ:
            break
    return found


def vectors_for(run: RunConfig, texts: Sequence[str], width: int) -> Path:
    """The folder of the vectors of a run's words, learned from some texts unless they are in the cache."""
    reader, others = read_split(run.data, run.kind, "train"), unlabelled_texts(run)
    assert reader is not None
    assert others is not None
    description: dict[str, Value] = {
        "what": "vectors of unlabelled texts", "settings": run.tokenizer.model_dump(mode="json"), "width": width,
        "train": identity(reader), "unlabelled": identity(others),
    }  # fmt: skip

    def make(folder: Path) -> None:
        tokenizer = train_tokenizers(run, reader, ignore_progress).target
        vector_folder.save(folder / TABLE, word_vectors(texts, tokenizer, width))

    folder = cache_folder() / "vectors" / key_of(description)
    return find_or_make(folder, lambda place: vector_folder.is_vectors(place / TABLE), make) / TABLE


def has_words(texts: Sequence[str]) -> bool:
    """Whether some words occur often enough for vectors."""
    counts = Counter(word for text in texts for word in set(SPELLED.findall(text.lower())))
    return sum(count >= FEWEST_TIMES for count in counts.values()) >= FEWEST_WORDS


def word_vectors(texts: Sequence[str], tokenizer: Tokenizer, width: int) -> VectorTable:
    """The vectors of the words of some texts, most frequent first; what occurs once has none."""
    rows = tokenizer.encode_batch(list(texts))
    counts = np.bincount(np.concatenate([np.empty(0, np.int64), *rows]), minlength=tokenizer.size)
    counts[[id for id in range(tokenizer.size) if tokenizer.is_special(id)]] = 0
    kept = np.argsort(-counts, kind="stable")[: min(MOST_WORDS, int((counts >= FEWEST_TIMES).sum()))]
    number = np.full(tokenizer.size, -1)
    number[kept] = np.arange(len(kept))
    M = nearness([numbers[numbers >= 0] for row in rows for numbers in [number[row]]], len(kept))
    E = factor(M.times, len(kept), width)
    words = [tokenizer.piece(int(id)).strip() for id in kept]
    return VectorTable(words, E, [int(counts[id]) for id in kept], {"by": "nearness of words, factored"})


def nearness(rows: Sequence[NDArray[np.int64]], words: int) -> SparseRows:
    """M (words, words): log P(w, c) / P(w) P(c) of words that are near each other, where it is positive."""
    stream = np.concatenate([np.append(row, -1) for row in rows] or [np.empty(0, np.int64)])
    text = np.cumsum(stream < 0)
    keys = [np.empty(0, np.int64)]
    for apart in range(1, NEAR + 1):
        a, b = stream[:-apart], stream[apart:]
        together = (a >= 0) & (b >= 0) & (text[:-apart] == text[apart:])
        keys += [a[together] * words + b[together], b[together] * words + a[together]]
    key, times = np.unique(np.concatenate(keys), return_counts=True)
    w, c = key // max(1, words), key % max(1, words)
    smooth = np.bincount(w, weights=times, minlength=words) ** SMOOTHING
    P = smooth / max(1e-9, smooth.sum())
    values = np.log(times / times.sum() / (P[w] * P[c]))
    positive = values > 0
    starts = np.searchsorted(w[positive], np.arange(words))
    made = torch.from_numpy(c[positive]), torch.from_numpy(values[positive]).float(), torch.from_numpy(starts)
    return SparseRows(*made, words)


def factor(times: Callable[[Tensor], Tensor], words: int, width: int) -> Tensor:
    """E (words, width) with E Eᵀ ≈ |M|: eigenvectors times the root of their values, by repeated products with M."""
    Q = torch.randn(words, min(words, width + SPARE), generator=torch.Generator().manual_seed(SEED))
    for _ in range(PRODUCTS):
        Q, _ = torch.linalg.qr(times(Q))
    values, V = torch.linalg.eigh(Q.T @ times(Q))
    largest = values.abs().argsort(descending=True)[:width]
    E = (Q @ V[:, largest]) * values[largest].abs().sqrt()
    return F.pad(E, (0, width - E.shape[1]))
