"""Products of rows by float32 and int8 matrices: each thread computes its share of the outputs, or of the rows.

A sum is taken in the same order whatever other rows and outputs there are, so that a row has
the same bits in every company.
"""

import numpy as np

from clearhead.decoding.steppers.kernels.lanes import float_of, magnitude, round_to_shorts
from clearhead.decoding.steppers.kernels.pointers import F, apart, compiled
from clearhead.decoding.steppers.kernels.team import own_columns, own_rows
from clearhead.decoding.steppers.kernels.tiles import (
    FLOAT_ROWS,
    INPUTS,
    INT8_ROWS,
    LINE,
    UNIT,
    float_tile,
    int8_tile,
)

LARGEST_INT, LARGEST_SHORT = 2**31 - 1, 2**15 - 1
NEARLY_0 = int(F(1e-30).view(np.int32))  # its bits
ROOM = 1 << 19  # bytes of rows that stay in the processor's cache while weights pass


@compiled
def squeeze(X, first, last, Z, t):  # type: ignore[no-untyped-def]
    """X ≈ t Z with Z of 16 bits, or as few as keep every sum of products with int8 within 32 bits; zeros fill Z up."""
    apart()
    k = X.shape[1]
    finest = F(min(LARGEST_SHORT, LARGEST_INT // (127 * max(1, k))))
    in_X, in_Z = X.ctypes.data, Z.ctypes.data
    for r in range(first, last):
        x, z = in_X + r * k * 4, in_Z + r * Z.shape[1] * 2
        largest = float_of(max(magnitude(x, k), NEARLY_0))
        round_to_shorts(x, k, finest / largest, z)
        for j in range(k, Z.shape[1]):
            Z[r, j] = 0
        t[r] = largest / finest


@compiled
def rows_at_once(bytes_each):  # type: ignore[no-untyped-def]
    """How many rows stay in the processor's cache while weights pass: whole tiles."""
    return max(1, ROOM // bytes_each // 8) * 8


@compiled
def fitting(sizes, rows):  # type: ignore[no-untyped-def]
    """The largest of some sizes, of which the last is 1, that so many rows fill."""
    for size in sizes:
        if size <= rows:
            return size
    return 1


@compiled
def multiply(W, X, b, n, me, Y):  # type: ignore[no-untyped-def]
    """Y = X Wᵀ + b for the packed float32 matrix at address W; there are biases for whole units of outputs."""
    apart()
    k, rest = X.shape[1], np.empty((FLOAT_ROWS[0], UNIT), np.float32)
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
                rows = fitting(FLOAT_ROWS, stop - r)
                w, x = W + i * k * 4, in_X + r * k * 4
                y, step = (in_Y + (r * n + i) * 4, n) if is_whole else (in_rest, UNIT)
                float_tile(rows, w, x, k, b + i * 4, y, step)
                if not is_whole:
                    copy(rest, r, rows, i, Y)
                r += rows


@compiled
def multiply_int8(W, s, Z, t, b, n, me, Y):  # type: ignore[no-untyped-def]
    """Y = (t Z) (s W)ᵀ + b for the packed int8 matrix at address W; whole numbers are added exactly."""
    apart()
    k, rest = Z.shape[1], np.empty((INT8_ROWS[0], UNIT), np.float32)
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
                rows = fitting(INT8_ROWS, stop - r)
                w, x, u = W + i * k, in_Z + r * k * 2, in_t + r * 4
                y, step = (in_Y + (r * n + i) * 4, n) if is_whole else (in_rest, UNIT)
                int8_tile(rows, w, x, k, u, s + i * 4, b + i * 4, y, step)
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
    """A matrix (n, k) of float32 or int8 as the lines that the tiles read, which are lines of the processor's cache.

    A unit of outputs has its weights of one input side by side in float32, of two inputs in int8.
    """
    together, whole = (2, INPUTS) if W.itemsize == 1 else (1, 1)
    units, groups = padded(W.shape[0], UNIT) // UNIT, padded(W.shape[1], whole) // together
    room = np.zeros(units * groups * UNIT * together * W.itemsize + LINE, np.int8)
    start = -room.ctypes.data % LINE
    lines = room[start : start + room.size - LINE].view(W.dtype).reshape(units, groups, UNIT, together)
    filled = np.zeros((units * UNIT, groups * together), W.dtype)
    filled[: W.shape[0], : W.shape[1]] = W
    lines[:] = filled.reshape(units, UNIT, groups, together).transpose(0, 2, 1, 3)
    return lines
