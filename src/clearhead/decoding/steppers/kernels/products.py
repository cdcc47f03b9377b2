"""Products of rows by float32 and int8 matrices: each thread computes its share of the outputs, or of the rows.

A sum is taken in the same order whatever other rows and outputs there are, so that a row has
the same bits in every company.
"""

import numpy as np

from clearhead.decoding.steppers.kernels.pointers import F, apart, compiled
from clearhead.decoding.steppers.kernels.team import own_columns, own_rows
from clearhead.decoding.steppers.kernels.tiles import (
    FLOAT_ROWS,
    INT8_ROWS,
    LINE,
    LINES,
    OUTPUTS,
    UNIT,
    float_tile,
    int8_tile,
)

LARGEST_INT, LARGEST_SHORT = 2**31 - 1, 2**15 - 1
ROOM = 1 << 19  # bytes of rows that stay in the processor's cache while weights pass

float_many, float_one = float_tile(FLOAT_ROWS), float_tile(1)
int8_many, int8_one = int8_tile(INT8_ROWS), int8_tile(1)


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
def rows_at_once(bytes_each):  # type: ignore[no-untyped-def]
    """How many rows stay in the processor's cache while weights pass: whole tiles."""
    return max(1, ROOM // bytes_each // 8) * 8


@compiled
def multiply(W, X, b, n, me, Y):  # type: ignore[no-untyped-def]
    """Y = X Wᵀ + b for the packed float32 matrix at address W; there are biases for whole units of outputs."""
    apart()
    k, rest = X.shape[1], np.empty((FLOAT_ROWS, UNIT), np.float32)
    in_X, in_Y, in_rest = X.ctypes.data, Y.ctypes.data, rest.ctypes.data
    first, last = own_rows(me)
    begin, end = own_columns(n, UNIT, me)
    together = rows_at_once(4 * max(1, k))
    for start in range(first, last, together):
        stop = min(last, start + together)
        for i in range(begin, end, UNIT):
            is_whole = i + UNIT <= n  # otherwise what is beyond the last output goes nowhere
            r = start
            while r < stop:
                rows = FLOAT_ROWS if stop - r >= FLOAT_ROWS else 1
                w, x = W + i * k * 4, in_X + r * k * 4
                y, step = (in_Y + (r * n + i) * 4, n) if is_whole else (in_rest, UNIT)
                if rows == FLOAT_ROWS:
                    float_many(w, x, k, b + i * 4, y, step)
                else:
                    float_one(w, x, k, b + i * 4, y, step)
                if not is_whole:
                    copy(rest, r, rows, i, Y)
                r += rows


@compiled
def multiply_int8(W, s, Z, t, b, n, me, Y):  # type: ignore[no-untyped-def]
    """Y = (t Z) (s W)ᵀ + b for the packed int8 matrix at address W; whole numbers are added exactly."""
    apart()
    k, rest = Z.shape[1], np.empty((INT8_ROWS, UNIT), np.float32)
    in_Z, in_t, in_Y, in_rest = Z.ctypes.data, t.ctypes.data, Y.ctypes.data, rest.ctypes.data
    first, last = own_rows(me)
    begin, end = own_columns(n, UNIT, me)
    together = rows_at_once(2 * max(1, k))
    for start in range(first, last, together):
        stop = min(last, start + together)
        for i in range(begin, end, UNIT):
            is_whole = i + UNIT <= n
            r = start
            while r < stop:
                rows = INT8_ROWS if stop - r >= INT8_ROWS else 1
                w, x, u = W + i * k, in_Z + r * k * 2, in_t + r * 4
                y, step = (in_Y + (r * n + i) * 4, n) if is_whole else (in_rest, UNIT)
                if rows == INT8_ROWS:
                    int8_many(w, x, k, u, s + i * 4, b + i * 4, y, step)
                else:
                    int8_one(w, x, k, u, s + i * 4, b + i * 4, y, step)
                if not is_whole:
                    copy(rest, r, rows, i, Y)
                r += rows


@compiled
def copy(rest, first, rows, i, Y):  # type: ignore[no-untyped-def]
    """Copies the last outputs of some rows, which do not fill a tile, to their places."""
    for q in range(rows):
        for o in range(Y.shape[1] - i):
            Y[first + q, i + o] = rest[q, o]


def padded(n: int, unit: int) -> int:
    """n, rounded up to whole units."""
    return -(-n // unit) * unit


def pack(W: np.ndarray) -> np.ndarray:
    """A matrix (n, k) of float32 or int8 as the lines that the tiles read, which are lines of the processor's cache."""
    inputs = LINE // OUTPUTS // W.itemsize
    units, groups = padded(W.shape[0], UNIT) // UNIT, padded(W.shape[1], inputs) // inputs
    room = np.zeros(units * groups * LINES * LINE + LINE, np.int8)
    start = -room.ctypes.data % LINE
    lines = room[start : start + room.size - LINE].view(W.dtype).reshape(units, groups, UNIT, inputs)
    filled = np.zeros((units * UNIT, groups * inputs), W.dtype)
    filled[: W.shape[0], : W.shape[1]] = W
    lines[:] = filled.reshape(units, UNIT, groups, inputs).transpose(0, 2, 1, 3)
    return lines
