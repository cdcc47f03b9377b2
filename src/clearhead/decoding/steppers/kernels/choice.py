"""The likeliest tokens after logits: rows of logits enter, the best few of each and their log-probabilities leave."""

import numpy as np
from numba import prange

from clearhead.decoding.steppers.kernels.lanes import largest, magnitude, sum_of_exponentials
from clearhead.decoding.steppers.kernels.pointers import F, apart, compiled, in_parallel

PART, SUMMED = 256, 4096  # logits that are looked at, and added, together
INFINITE = 0x7F800000  # the bits of infinity; those of NaN are larger


@compiled
def best_of_row(z, ids, values):  # type: ignore[no-untyped-def]
    """Writes the largest logits and their ids, of equals the smaller id first; log Σ e^z, NaN if a logit is NaN."""
    apart()
    k, found, in_z, n = ids.shape[0], 0, z.ctypes.data, z.shape[0]
    if magnitude(in_z, n) > INFINITE:
        return F(np.nan)
    for first in range(0, n, PART):
        last = min(n, first + PART)
        if found == k and largest(in_z + first * 4, last - first) <= values[k - 1]:
            continue
        for i in range(first, last):
            if found < k or z[i] > values[k - 1]:
                found = min(k, found + 1)
                at = found - 1
                while at > 0 and values[at - 1] < z[i]:
                    values[at], ids[at] = values[at - 1], ids[at - 1]
                    at -= 1
                values[at], ids[at] = z[i], i
    total = 0.0
    for first in range(0, n, SUMMED):
        total += float(sum_of_exponentials(in_z + first * 4, min(n - first, SUMMED), values[0]))
    return values[0] + F(np.log(total))


@in_parallel
def best(Z, ids, values, wholes):  # type: ignore[no-untyped-def]
    """The best few of each row of Z, ids and logits (b, count), the largest first; and log Σ e^z (b)."""
    for r in prange(Z.shape[0]):
        wholes[r] = best_of_row(Z[r], ids[r], values[r])


@compiled
def best_alone(Z, ids, values, wholes):  # type: ignore[no-untyped-def]
    """The same on one thread, for so few logits that others are not worth starting."""
    for r in range(Z.shape[0]):
        wholes[r] = best_of_row(Z[r], ids[r], values[r])
