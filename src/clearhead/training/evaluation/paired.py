"""Two models on the same test data: statistics of each example enter; intervals and p-values leave.

A score is a function of sums over the examples: right answers, bits and bytes, the n-grams of BLEU. The interval is the
95 % bootstrap: the score of as many examples, drawn again with replacement, many times (Efron, 1979). The test is
approximate randomization (Noreen, 1989): swap the two models on random examples, and count how often the difference is
at least as large as the real one. sacreBLEU computes both the same way, for its own scores only.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Statistics = NDArray[np.float64]  # (examples, numbers)

DRAWS = 1000
SEED = 1
FEWEST = 10  # examples below which there is neither an interval nor a test


@dataclass(frozen=True)
class Scored:
    """A score, what it is called, and the statistics of every example that it is computed from."""

    name: str
    is_higher_better: bool
    statistics: Statistics
    score_of: Callable[[Statistics], float]  # of sums: (numbers,)
    examples: str = ""  # a hash, if a model may skip some: those with other ones cannot be paired

    @property
    def score(self) -> float:
        """The score on all examples."""
        return self.score_of(self.statistics.sum(0))

    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score, by the bootstrap; None for too few examples."""
        count = len(self.statistics)
        if count < FEWEST:
            return None
        generator = np.random.default_rng(SEED)
        chosen = generator.multinomial(
            count, np.full(count, 1 / count), size=DRAWS
        )  # how often each is drawn
        scores = [self.score_of(sums) for sums in chosen @ self.statistics]
        low, high = np.quantile(scores, [0.025, 0.975])
        return float(low), float(high)


def p_value(one: Scored, other: Scored) -> float | None:
    """How often a difference as large as that of two models arises by chance; None for too few examples."""
    count = len(one.statistics)
    if count < FEWEST or len(other.statistics) != count or one.examples != other.examples:
        return None
    difference = abs(one.score - other.score)
    swaps = np.random.default_rng(SEED).integers(0, 2, size=(DRAWS, count))
    total, change = one.statistics.sum(0), other.statistics - one.statistics
    moved = swaps @ change  # what the first gains, and the second loses, in each draw
    others = other.statistics.sum(0)
    larger = sum(
        abs(one.score_of(total + gain) - one.score_of(others - gain)) >= difference - 1e-12 for gain in moved
    )
    return (larger + 1) / (DRAWS + 1)
