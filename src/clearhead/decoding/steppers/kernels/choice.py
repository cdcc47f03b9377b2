"""The likeliest tokens after logits: rows of logits enter, the best few of each and their log-probabilities leave."""

import numpy as np
from numba import prange

from clearhead.decoding.steppers.kernels.arithmetic import exponentials
from clearhead.decoding.steppers.kernels.pointers import F, apart, compiled, in_parallel

PART = 512  # logits that are looked at together


@compiled
def best_of_row(z, ids, values):  # type: ignore[no-untyped-def]
    """Writes the largest logits and their ids, of equals the smaller id first; log Σ e^z, NaN if a logit is NaN."""
    apart()
    k, found, damaged = ids.shape[0], 0, 0
    bits = z.view(np.int32)  # compared as whole numbers: the compiler takes it that there is no NaN
    for i in range(bits.shape[0]):
        damaged += (bits[i] & 0x7FFFFFFF) > 0x7F800000
    if damaged:
        return F(np.nan)
    parts = (z.shape[0] + PART - 1) // PART
    e, powers = np.empty(PART, np.float32), np.empty(PART, np.int32)
    for part in range(parts):
        own = z[part * PART : (part + 1) * PART]
        largest = own[0]
        for i in range(own.shape[0]):
            largest = max(largest, own[i])
        if found == k and largest <= values[k - 1]:
            continue
        for i in range(own.shape[0]):
            if found < k or own[i] > values[k - 1]:
                found = min(k, found + 1)
                at = found - 1
                while at > 0 and values[at - 1] < own[i]:
                    values[at], ids[at] = values[at - 1], ids[at - 1]
                    at -= 1
                values[at], ids[at] = own[i], part * PART + i
    total = 0.0
    for part in range(parts):
        own = z[part * PART : (part + 1) * PART]
        for i in range(own.shape[0]):
            e[i] = own[i] - values[0]
        exponentials(e[: own.shape[0]], powers[: own.shape[0]])
        some = F(0)
        for i in range(own.shape[0]):
            some += e[i]
        total += float(some)
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
