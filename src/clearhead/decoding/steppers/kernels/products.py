"""Products of rows by float32 and int8 matrices: each thread computes its share of the outputs, or of the rows.

A sum is taken in the same order whatever other rows and outputs there are, so that a row has
the same bits in every company.
"""

import numpy as np

from clearhead.decoding.steppers.kernels.pointers import F, apart, compiled, floats, in_order
from clearhead.decoding.steppers.kernels.team import own_columns, own_rows
from clearhead.decoding.steppers.kernels.tiles import (
    COLUMNS,
    FLOAT_ROWS,
    INPUTS,
    INT8_BLOCKS,
    INT8_ROWS,
    LANES,
    OUTPUTS,
    float_tile,
    int8_tile,
)

LARGEST_INT, LARGEST_SHORT = 2**31 - 1, 2**15 - 1
UNIT = 4 * OUTPUTS  # outputs that are given to a thread together; int8 matrices have whole units
ROWS_AT_ONCE = 64  # whose numbers stay in the processor's cache while float32 weights pass

float_many, float_one = float_tile(FLOAT_ROWS, COLUMNS), float_tile(1, COLUMNS)
int8_many, int8_one = int8_tile(INT8_ROWS, 1), int8_tile(1, INT8_BLOCKS)


@compiled
def squeeze(X, first, last, Z, t):  # type: ignore[no-untyped-def]
    """X ≈ t Z with Z of 16 bits, or as few as keep every sum of products with int8 within 32 bits; zeros fill Z up."""
    apart()
    k = X.shape[1]
    finest = F(min(LARGEST_SHORT, LARGEST_INT // (127 * max(1, k))))
    for r in range(first, last):
        largest = F(1e-30)
        for j in range(k):
            largest = max(largest, abs(X[r, j]))
        up = finest / largest
        for j in range(k):
            Z[r, j] = np.int16(np.rint(X[r, j] * up))
        for j in range(k, Z.shape[1]):
            Z[r, j] = 0
        t[r] = largest / finest


@compiled
def multiply(W, X, b, n, me, Y):  # type: ignore[no-untyped-def]
    """Y = X Wᵀ + b for the float32 matrix (n, k) at address W."""
    apart()
    k = X.shape[1]
    bias, sums = floats(b, 1, n)[0], np.empty(FLOAT_ROWS * COLUMNS, np.float32)
    first, last = own_rows(me)
    begin, end = own_columns(n, UNIT, me)
    for start in range(first, last, ROWS_AT_ONCE):
        stop = min(last, start + ROWS_AT_ONCE)
        for column in range(begin, end, COLUMNS):
            i = min(column, n - COLUMNS)  # the last ones may be computed twice
            if i < 0:
                few(floats(W, n, k), X, bias, start, stop, Y)
                break
            r = start
            while r < stop:
                w, x, rows = W + i * k * 4, X.ctypes.data + r * k * 4, FLOAT_ROWS
                if stop - r >= FLOAT_ROWS:
                    float_many(w, k, x, k, k, sums.ctypes.data)
                else:
                    float_one(w, k, x, k, k, sums.ctypes.data)
                    rows = 1
                if k % LANES:
                    finish(floats(w, COLUMNS, k), X[r : r + rows], sums)
                for q in range(rows):
                    for o in range(COLUMNS):
                        Y[r + q, i + o] = sums[q * COLUMNS + o] + bias[i + o]
                r += rows


@in_order
def finish(W, X, sums):  # type: ignore[no-untyped-def]
    """Adds what is left of each sum after the last whole vector."""
    k = X.shape[1]
    for q in range(X.shape[0]):
        for o in range(COLUMNS):
            for j in range(k // LANES * LANES, k):
                sums[q * COLUMNS + o] += W[o, j] * X[q, j]


@compiled
def few(W, X, b, first, last, Y):  # type: ignore[no-untyped-def]
    """The same for a matrix of so few rows that they fill no tile."""
    for r in range(first, last):
        for i in range(W.shape[0]):
            s = F(0)
            for j in range(W.shape[1]):
                s += W[i, j] * X[r, j]
            Y[r, i] = s + b[i]


@compiled
def multiply_int8(W, s, Z, t, b, n, me, Y):  # type: ignore[no-untyped-def]
    """Y = (t Z) (s W)ᵀ + b for the packed int8 matrix at address W; whole numbers are added exactly."""
    apart()
    k = Z.shape[1]
    scales, bias = floats(s, 1, n)[0], floats(b, 1, n)[0]
    sums = np.empty((INT8_ROWS, INT8_BLOCKS * OUTPUTS), np.int32)
    out, block = sums.ctypes.data, OUTPUTS * k  # bytes of a block
    first, last = own_rows(me)
    begin, end = own_columns(n, UNIT, me)
    for start in range(begin, end, UNIT):
        r = first
        while r < last:
            is_many = last - r >= INT8_ROWS
            rows, blocks = (INT8_ROWS, 1) if is_many else (1, INT8_BLOCKS)
            x = Z.ctypes.data + r * k * 2
            for i in range(start, start + UNIT, blocks * OUTPUTS):
                if is_many:
                    int8_many(W + i * k, block, x, k, k, out)
                else:
                    int8_one(W + i * k, block, x, k, k, out)
                count = max(0, min(blocks * OUTPUTS, n - i))
                totals = sums.reshape(-1)
                for q in range(rows):
                    scale, at = t[r + q], q * blocks * OUTPUTS
                    for o in range(count):
                        Y[r + q, i + o] = F(totals[at + o]) * (scale * scales[i + o]) + bias[i + o]
            r += rows


def padded(n: int, unit: int) -> int:
    """n, rounded up to whole units."""
    return -(-n // unit) * unit


def pack(q: np.ndarray) -> np.ndarray:
    """An int8 matrix (n, k) as the blocks that the tiles read, filled up with zeros, on whole lines of the cache."""
    n, k = padded(q.shape[0], UNIT), padded(q.shape[1], INPUTS)
    room = np.zeros(n * k + 64, np.int8)
    start = -room.ctypes.data % 64
    blocks = room[start : start + n * k].reshape(n // OUTPUTS, k // INPUTS, OUTPUTS, INPUTS)
    filled = np.zeros((n, k), np.int8)
    filled[: q.shape[0], : q.shape[1]] = q
    blocks[:] = filled.reshape(n // OUTPUTS, OUTPUTS, k // INPUTS, INPUTS).transpose(0, 2, 1, 3)
    return blocks
