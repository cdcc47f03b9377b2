"""Runs of tokens with vectors of their own: ids (b, n) -> (b, n, d) (Bojanowski et al., 2017).

A run is hashed into a row of one table, so that there is no list of runs, and unseen ones need no special case. Two
runs that share a row share its vector. Numbers are of 64 bits and overflow; what is left is as if drawn.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.layers.dropout import Dropout

MULTIPLIER = 6364136223846793005  # of Knuth's generator
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
INVERSE -= 1 << 64 if INVERSE >= 1 << 63 else 0


class Ngrams(nn.Module):
    """y_i = Σ H[hash(t_{i−k+1} … t_i)] over the lengths k; H starts at zero: unseen runs say nothing.

    With `words`, also the word that ends before a break i, and that word together with the one, two … before it. If
    `repeats` is "log", a run that a text has c times counts 1 + ln c times in all, as in sublinear TF-IDF.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        rows: int,
        d: int,
        dropout: float,
        words: int = 0,
        breaks: Sequence[int] = (),
        repeats: str = "all",
    ) -> None:
        super().__init__()
        self.lengths, self.words, self.breaks = tuple(lengths), words, tuple(breaks)
        self.weight = nn.Parameter(torch.zeros(rows, d))
        self.dropout, self.counts_logs = Dropout(dropout), repeats == "log"

    def forward(self, tokens: Tensor) -> Tensor:
        """(b, n) -> (b, n, d); in training whole vectors are dropped."""
        hashes, exists = self.hashes(tokens)  # (b, n, k)
        rows, shares = hashes.remainder(len(self.weight)), exists.to(self.weight.dtype)
        if self.counts_logs:
            each = shares_of_repeats(hashes.flatten(1), exists.flatten(1)).view_as(shares)
            shares = shares * each.to(shares.dtype)
        kept = self.dropout(shares).flatten(0, 1)
        Y = F.embedding_bag(rows.flatten(0, 1), self.weight, mode="sum", per_sample_weights=kept)
        return Y.view(*tokens.shape, -1)

    def rows(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The row for each run that ends at each token, and whether there is such a run: (b, n, k) twice."""
        hashes, exists = self.hashes(tokens)
        return hashes.remainder(len(self.weight)), exists

    def hashes(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The hash of each run that ends at each token, and whether there is such a run: (b, n, k) twice."""
        found = [mix(hashes_of_runs(tokens, length), length) for length in self.lengths]
        exists = [torch.ones_like(tokens, dtype=torch.bool)] * len(found)
        if self.words:
            breaks = torch.tensor(self.breaks, device=tokens.device)
            for before, (hashes, ends) in enumerate(
                hashes_of_words(tokens, torch.isin(tokens, breaks), self.words)
            ):
                found.append(mix(hashes, -1 - before))
                exists.append(ends)
        return torch.stack(found, 2), torch.stack(exists, 2)


def mix(hashes: Tensor, kind: int) -> Tensor:
    """The hash of each run of some kind, whose last bits depend on all of it."""
    hashes = (hashes + kind) * MULTIPLIER
    return hashes ^ (hashes >> 32)


def shares_of_repeats(hashes: Tensor, exists: Tensor) -> Tensor:
    """(1 + ln c) / c for each run that its text has c times, of those that exist: (b, m), (b, m) -> (b, m)."""
    ordered, order = hashes.sort(1)
    is_next = F.pad(ordered[:, 1:] != ordered[:, :-1], (1, 0))
    number = is_next.cumsum(1)  # of the different runs
    present = exists.gather(1, order).float()
    counts = torch.zeros(hashes.shape, device=hashes.device).scatter_add_(1, number, present)
    counts = torch.empty_like(counts).scatter_(1, order, counts.gather(1, number)).clamp(min=1)
    return (1 + counts.log()) / counts


def hashes_of_runs(tokens: Tensor, length: int) -> Tensor:
    """A number for the run of `length` tokens that ends at each token; it may begin before the text: (b, n)."""
    n, hashes = tokens.shape[1], torch.zeros_like(tokens)
    padded = F.pad(tokens, (length - 1, 0), value=-1)
    for back in range(length):
        hashes = hashes * MULTIPLIER + padded[:, length - 1 - back :][:, :n] + 1
    return hashes


def hashes_of_words(tokens: Tensor, is_break: Tensor, most: int) -> list[tuple[Tensor, Tensor]]:
    """For each break a number for the last word before it, then for the last two, …, and where they exist: (b, n)."""
    b, n = tokens.shape
    at = torch.arange(n, device=tokens.device).expand(b, n)
    powers = torch.full((n,), MULTIPLIER, device=tokens.device).cumprod(0)
    inverses = torch.full((n,), INVERSE, device=tokens.device).cumprod(0)
    sums = ((tokens + 1) * powers).cumsum(1)  # over the text so far
    sums = F.pad(sums, (1, 0))[:, :n]  # before each token
    last_break = F.pad(torch.where(is_break, at, -1).cummax(1).values, (1, 0), value=-1)[:, :n]
    starts = last_break + 1  # of the word before each token
    ends = is_break & (starts < at)
    # From the powers of its place in the text to those of its place in the word.
    words = (sums - sums.gather(1, starts)) * inverses[starts]
    number = ends.cumsum(1) - 1  # of the last word
    listed = torch.zeros(b, n + 1, dtype=torch.long, device=tokens.device)
    listed.scatter_(1, torch.where(ends, number, n), words)
    found, hashes = [], torch.zeros_like(words)
    for before in range(most):
        exists = ends & (number >= before)
        hashes = hashes * MULTIPLIER + listed.gather(1, (number - before).clamp(min=0))
        found.append((hashes, exists))
    return found
