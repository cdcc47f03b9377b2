"""Attention of one row and head: where its keys and values are, and softmax(scale q Kᵀ + bias) V."""

import numpy as np

from clearhead.decoding.steppers.kernels.arithmetic import compare, mix, softmax
from clearhead.decoding.steppers.kernels.pointers import apart, compiled, floats, in_order, indices
from clearhead.decoding.steppers.kernels.tiles import COLUMNS, ask_for_rows

SELF, AROUND, CROSS, FEEDFORWARD = range(4)  # attention to what is before, to all of the text, to the source
NEXT = 64  # keys that fit into the processor's nearest cache
TOKEN, AT, TEXT, SOURCE, LENGTH = range(5)  # columns of the rows


@compiled
def with_company(m):  # type: ignore[no-untyped-def]
    """So many keys, and those that are compared with them in vain."""
    return (m + COLUMNS - 1) // COLUMNS * COLUMNS


@compiled
def find(part, place, rows, origins, slots, longest):  # type: ignore[no-untyped-def]
    """How many bytes the keys and values of each row's sequence are behind those of the first; and where it says so.

    Rows of one sequence share what is found.
    """
    apart()
    is_own = part.kind != CROSS
    column = TEXT if is_own else SOURCE
    m = min(longest, slots) if is_own else longest
    spot = np.zeros(len(rows), np.int64)
    for r in range(1, len(rows)):
        spot[r] = spot[r - 1] + (rows[r, column] != rows[r - 1, column])
    to = np.zeros((2, spot[-1] + 1, with_company(longest)), np.int64)
    for r in range(len(rows)):
        if r and spot[r] == spot[r - 1]:
            continue
        text = rows[r, column]
        moved = min(m, origins.shape[1]) if is_own else 0
        for X in range(2):
            steps = place.K_steps if X == 0 else place.V_steps
            for j in range(m):
                source = origins[text, j] if j < moved else text
                to[X, spot[r], j] = 4 * (source * steps[0] + j * steps[2])
    return to, spot


@compiled
def seen(part, row, slots):  # type: ignore[no-untyped-def]
    """How many keys a row looks at."""
    return min(row[AT] + 1, slots) if part.kind == SELF else row[LENGTH]


@compiled
def heads_of(part, place, c):  # type: ignore[no-untyped-def]
    """Where the keys and values that head c reads are in the first sequence."""
    head = indices(part.reads, part.h)[c]
    return place.K + 4 * head * place.K_steps[1], place.V + 4 * head * place.V_steps[1]


@compiled
def ask_for_keys(part, place, c, m, to_K, to_V):  # type: ignore[no-untyped-def]
    """Asks memory for the first m keys and values that the next row and head need, while this one is computed."""
    K, V = heads_of(part, place, c)
    ask_for_rows(K, to_K, 4 * part.d_k, m)
    ask_for_rows(V, to_V, 4 * part.d_v, m)


@in_order
def attend(part, place, c, at, m, slots, q, to_K, to_V, A, y):  # type: ignore[no-untyped-def]
    """softmax(scale q Kᵀ + bias) V for one row and head c; a bias is a number for each head and distance."""
    apart()
    K, V = heads_of(part, place, c)
    compare(q, K, to_K, part.d_k, m, A)
    S, B = floats(A, 1, m)[0], floats(part.bias, part.h, part.distances)
    for j in range(m):
        S[j] *= part.scale
        if part.distances:
            S[j] += B[c, (at - j) % slots]
    softmax(A, m)
    mix(A, V, to_V, part.d_v, m, y)
