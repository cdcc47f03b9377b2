"""How far do words without their order get on builtin:reviews? Not to the end, so there is something to learn.

Softmax regression on which words occur, trained on the corpus' own training split and measured on its test
split, for several seeds of the corpus.
"""

import re
import statistics

import numpy as np
from harness import arguments, report

from clearhead.corpora import reviews
from clearhead.examples import Labelled, Split

SEEDS = (1, 2, 3)
STEPS = 300
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


def examples(split: Split, seed: int) -> list[Labelled]:
    """A split at its own size."""
    return [example for example in reviews.CORPUS.examples(split, seed) if isinstance(example, Labelled)]


def words(text: str) -> set[str]:
    """The words of a text."""
    return set(re.findall(r"[\w-]+", text.lower()))


def bags(texts: list[Labelled], index: dict[str, int]) -> Matrix:
    """One row a text: which words occur."""
    X = np.zeros((len(texts), len(index)), np.float32)
    for row, example in enumerate(texts):
        X[row, [index[word] for word in words(example.text) if word in index]] = 1
    return X


def numbers(texts: list[Labelled]) -> list[int]:
    """The labels as numbers."""
    known = {str(label): at for at, label in enumerate(reviews.LABELS)}
    return [known[example.answer] for example in texts]


def fit(X: Matrix, Y: Matrix) -> Matrix:
    """Softmax regression by Adam on the whole set."""
    W, m, v = (np.zeros((X.shape[1], Y.shape[1]), np.float32) for _ in range(3))
    for step in range(1, STEPS + 1):
        P = np.exp(X @ W)
        gradient = X.T @ (P / P.sum(1, keepdims=True) - Y) / len(X) + 1e-5 * W
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        W -= 0.05 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return W


def accuracy(seed: int) -> float:
    """The share of the test that is labelled rightly."""
    train, test = examples("train", seed), examples("test", seed)
    index = {word: at for at, word in enumerate(sorted({word for e in train for word in words(e.text)}))}
    W = fit(bags(train, index), np.eye(len(reviews.LABELS), dtype=np.float32)[numbers(train)])
    return float(np.mean((bags(test, index) @ W).argmax(1) == numbers(test)))


def main() -> None:
    options = arguments(__doc__).parse_args()
    shares = [accuracy(seed) for seed in SEEDS]
    for seed, share in zip(SEEDS, shares, strict=True):
        print(f"seed {seed}: {share:.3f} of the test is right")
    result = {
        "seeds": SEEDS,
        "counts": dict(reviews.CORPUS.counts),
        "accuracy": shares,
        "median_accuracy": statistics.median(shares),
    }
    report("reviews_bag_of_words", result, options.save, packages=("numpy",))


if __name__ == "__main__":
    main()
