"""Tiles of a product of matrices, kept in registers: some rows of X times some outputs of W, read once for all.

Numba's own loops keep their sums in memory when there are several of them, so these are written for LLVM: each function
here writes, once for each sum, the operations on vectors of which the loop consists. What a processor cannot do with
one instruction LLVM does with several, so that the same text serves every processor.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped_cgutils

from clearhead.decoding.steppers.kernels.pointers import intrinsic

cgutils: Any = untyped_cgutils
config: Any = numba.config
FEATURES = config.CPU_FEATURES
HAS_AVX512 = (
    "avx512bw" in FEATURES if FEATURES is not None else llvm.get_host_cpu_features().get("avx512bw", False)
)
LANES = 16 if HAS_AVX512 else 8  # floats of a vector
VECTOR = 4 * LANES  # its bytes
LINE = 64  # bytes that are read at once
OUTPUTS = 16  # of one load: with the weights of one input in float32, of two in int8
LINES = 4 if HAS_AVX512 else 2  # that are read at once, as many as leave registers for sums
UNIT = LINES * OUTPUTS  # outputs whose lines follow one another, so that memory is read from end to end
INPUTS = 4  # to a multiple of which those of int8 weights are padded
# Rows of X that share each read of the weights: as many as there are registers for, then fewer.
FLOAT_ROWS = (6, 4, 2, 1) if HAS_AVX512 else (2, 1)
INT8_ROWS = (6, 4, 2, 1) if HAS_AVX512 else (3, 2, 1)
AHEAD = (
    4096  # bytes of weights that are asked for before they are needed: processors look no further than a page
)
FEW = 2  # rows for which int8 sums are kept apart by pairs, so that one need not wait for the other
COLUMNS = 8  # keys that are compared at once
MIXED = (4, 2, 1)  # vectors of a value that are mixed at once

FLOAT, BYTE, SHORT, INT, LONG = ir.FloatType(), *(ir.IntType(bits) for bits in (8, 16, 32, 64))
ADDED: Any = ("contract",)  # a product and a sum may be one instruction


def vector(kind: ir.Type, n: int) -> ir.Type:
    """The type of n numbers in a register."""
    return ir.VectorType(kind, n)


def spread(builder: Any, x: Any, n: int) -> Any:
    """A vector with x in every lane."""
    one = builder.insert_element(ir.Constant(vector(x.type, n), ir.Undefined), x, INT(0))
    return builder.shuffle_vector(one, one, ir.Constant(vector(INT, n), [0] * n))


def lanes(builder: Any, x: Any, chosen: range) -> Any:
    """Some lanes of a vector."""
    return builder.shuffle_vector(x, x, ir.Constant(vector(INT, len(chosen)), list(chosen)))


def at(builder: Any, address: Any, kind: ir.Type) -> Any:
    """A whole number as the address of such numbers."""
    return builder.inttoptr(address, ir.PointerType(kind))


def load(builder: Any, address: Any, kind: ir.Type, align: int = 1) -> Any:
    """The vector at an address."""
    return builder.load(at(builder, address, kind), align=align)


def sums(builder: Any, count: int, kind: ir.Type) -> list[Any]:
    """Places for sums that begin with 0; LLVM makes registers of them."""
    found = [cgutils.alloca_once(builder, kind) for _ in range(count)]
    for place in found:
        builder.store(ir.Constant(kind, None), place)
    return found


def add(builder: Any, place: Any, x: Any) -> None:
    """One more integer vector in a sum."""
    builder.store(builder.add(builder.load(place), x), place)


def step_by(builder: Any, address: Any, count: Any, bytes_each: int) -> Any:
    """The address so many numbers on."""
    return builder.add(address, builder.mul(count, LONG(bytes_each)))


def multiply_add(builder: Any, place: Any, x: Any, y: Any) -> None:
    """One more product of float32 vectors in a sum."""
    more = builder.fmul(x, y, flags=ADDED)
    builder.store(builder.fadd(builder.load(place), more, flags=ADDED), place)


def ask_for(builder: Any, address: Any, size: int) -> None:
    """Asks memory for what will be read soon; beyond the end of an array that does nothing."""
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(BYTE), INT, INT, INT])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for place in range(0, size, LINE):
        where = at(builder, builder.add(address, LONG(place)), BYTE)
        builder.call(prefetch, [where, INT(0), INT(3), INT(1)])


@intrinsic
def ask_for_rows(typing: Any, K: Any, places: Any, size: Any, m: Any) -> Any:
    """Asks memory for m rows of so many bytes, of which row j is places_j bytes behind K."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        K, places, size, m = given
        with cgutils.for_range(builder, m) as loop:
            row = builder.add(K, load(builder, step_by(builder, places, loop.index, 8), LONG, 8))
            with cgutils.for_range(
                builder, builder.udiv(builder.add(size, LONG(LINE - 1)), LONG(LINE))
            ) as line:
                ask_for(builder, step_by(builder, row, line.index, LINE), 1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), code


def for_each_size(builder: Any, rows: Any, sizes: tuple[int, ...], write: Callable[[int], None]) -> None:
    """The operations of one tile for each number of rows, of which one is chosen when it runs."""
    for size in sizes:
        with builder.if_then(builder.icmp_signed("==", rows, LONG(size))):
            write(size)


@intrinsic
def float_tile(typing: Any, rows: Any, W: Any, X: Any, k: Any, b: Any, Y: Any, y_step: Any) -> Any:
    """Y_ro = Σ_j X_rj W_oj + b_o for so many rows of X, one of FLOAT_ROWS, and a unit of W, in float32.

    Rows of X are k numbers apart, and rows of Y `y_step`.
    """
    kind, parts = vector(FLOAT, LANES), range(UNIT // LANES)

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        rows, W, X, k, b, Y, y_step = given

        def write(size: int) -> None:
            x = [step_by(builder, X, builder.mul(k, LONG(r)), 4) for r in range(size)]
            places = [sums(builder, len(parts), kind) for _ in x]
            with cgutils.for_range(builder, k) as loop:
                w = step_by(builder, W, loop.index, LINES * LINE)
                ask_for(builder, builder.add(w, LONG(AHEAD)), LINES * LINE)
                weights = [load(builder, step_by(builder, w, LONG(i), VECTOR), kind, VECTOR) for i in parts]
                for r in range(size):
                    value = load(builder, step_by(builder, x[r], loop.index, 4), FLOAT, 4)
                    values = spread(builder, value, LANES)
                    for i in parts:
                        multiply_add(builder, places[r][i], values, weights[i])
            for r in range(size):
                y = step_by(builder, Y, builder.mul(y_step, LONG(r)), 4)
                for i, place in enumerate(places[r]):
                    bias = load(builder, step_by(builder, b, LONG(i), VECTOR), kind, 4)
                    whole = builder.fadd(builder.load(place), bias)
                    builder.store(whole, at(builder, step_by(builder, y, LONG(i), VECTOR), kind), align=4)

        for_each_size(builder, rows, FLOAT_ROWS, write)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), code


@intrinsic
def int8_tile(
    typing: Any, rows: Any, W: Any, X: Any, k: Any, t: Any, s: Any, b: Any, Y: Any, y_step: Any
) -> Any:
    """Y_ro = t_r s_o Σ_j X_rj W_oj + b_o for so many rows of int16 X, one of INT8_ROWS, and a unit of int8 W.

    Two inputs of an output are side by side: most processors multiply and add such pairs with one instruction.
    """
    shorts, ints, whole = (
        vector(kind, n) for kind, n in ((SHORT, 2 * OUTPUTS), (INT, OUTPUTS), (FLOAT, OUTPUTS))
    )
    half = LINE // 2

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        rows, W, X, k, t, s, b, Y, y_step = given

        def write(size: int) -> None:
            # One row waits for its own sums, so that its pairs take turns; of many rows there are others meanwhile.
            turns = 2 if size <= FEW else 1
            x = [step_by(builder, X, builder.mul(k, LONG(r)), 2) for r in range(size)]
            places = [[sums(builder, LINES, ints) for _ in x] for _ in range(turns)]
            with cgutils.for_range(builder, builder.udiv(k, LONG(2 * turns))) as loop:
                for turn in range(turns):
                    pair = builder.add(builder.mul(loop.index, LONG(turns)), LONG(turn))
                    w = step_by(builder, W, pair, LINES * half)
                    ask_for(builder, builder.add(w, LONG(AHEAD)), LINES * half)
                    weights = [
                        builder.sext(
                            load(builder, step_by(builder, w, LONG(c), half), vector(BYTE, half), half),
                            shorts,
                        )
                        for c in range(LINES)
                    ]
                    for r in range(size):
                        two = load(builder, step_by(builder, x[r], pair, 4), INT, 4)
                        values = builder.bitcast(spread(builder, two, OUTPUTS), shorts)
                        for c in range(LINES):
                            add(builder, places[turn][r][c], pairs(builder, weights[c], values))
            for r in range(size):
                scale = spread(builder, load(builder, step_by(builder, t, LONG(r), 4), FLOAT, 4), OUTPUTS)
                for c in range(LINES):
                    y = builder.load(places[0][r][c])
                    for other in places[1:]:
                        y = builder.add(y, builder.load(other[r][c]))
                    y = builder.sitofp(y, whole)
                    scales, bias = (
                        load(builder, step_by(builder, place, LONG(c), LINE), whole, 4) for place in (s, b)
                    )
                    y = builder.fadd(builder.fmul(y, builder.fmul(scale, scales)), bias)
                    to = builder.add(step_by(builder, Y, builder.mul(y_step, LONG(r)), 4), LONG(LINE * c))
                    builder.store(y, at(builder, to, whole), align=4)

        for_each_size(builder, rows, INT8_ROWS, write)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9), code


def pairs(builder: Any, a: Any, b: Any) -> Any:
    """a_0 b_0 + a_1 b_1, a_2 b_2 + a_3 b_3, … of int16 vectors as int32."""
    n = a.type.count
    wide = vector(INT, n)
    products = builder.mul(builder.sext(a, wide), builder.sext(b, wide))
    return builder.add(lanes(builder, products, range(0, n, 2)), lanes(builder, products, range(1, n, 2)))


@intrinsic
def dots(typing: Any, q: Any, K: Any, places: Any, k: Any, m: Any, y: Any) -> Any:
    """y_j = Σ_i q_i K_ji for m rows of K, of which row j is places_j bytes behind K; i up to the last whole vector.

    It computes COLUMNS rows at once, so that there must be places, and room, for as many.
    """
    kind = vector(FLOAT, LANES)

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        q, K, places, k, m, y = given
        with cgutils.for_range(
            builder, builder.udiv(builder.add(m, LONG(COLUMNS - 1)), LONG(COLUMNS))
        ) as some:
            first = builder.mul(some.index, LONG(COLUMNS))
            rows = []
            for c in range(COLUMNS):
                place = step_by(builder, places, builder.add(first, LONG(c)), 8)
                rows.append(builder.add(K, load(builder, place, LONG, 8)))
            totals = sums(builder, COLUMNS, kind)
            with cgutils.for_range(builder, builder.udiv(k, LONG(LANES))) as loop:
                values = load(builder, step_by(builder, q, loop.index, VECTOR), kind, 4)
                for row, total in zip(rows, totals, strict=True):
                    multiply_add(
                        builder,
                        total,
                        values,
                        load(builder, step_by(builder, row, loop.index, VECTOR), kind, 4),
                    )
            found = totals_of(builder, [builder.load(total) for total in totals])
            builder.store(found, at(builder, step_by(builder, y, first, 4), found.type), align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), code


def totals_of(builder: Any, vectors: list[Any]) -> Any:
    """The sum of each vector's lanes; they are folded together, pair by pair, which takes fewest operations."""
    length = vectors[0].type.count  # of the numbers that are still to be added
    while length > 1:
        half = length // 2
        ends = [vectors[i : i + 2] for i in range(0, len(vectors), 2)]
        vectors = []
        for pair in ends:
            a, b = pair[0], pair[-1]
            firsts = [i for i in range(len(pair) * a.type.count) if i % length < half]
            both = [
                builder.shuffle_vector(
                    a, b, ir.Constant(vector(INT, len(firsts)), [i + shift for i in firsts])
                )
                for shift in (0, half)
            ]
            vectors.append(builder.fadd(*both))
        length = half
    return vectors[0]


@intrinsic
def mixture(typing: Any, vectors: Any, V: Any, places: Any, a: Any, m: Any, y: Any) -> Any:
    """y = Σ_j a_j V_j for the first numbers of the rows of V, as many as so many vectors have, one of MIXED."""
    kind = vector(FLOAT, LANES)

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        vectors, V, places, a, m, y = given

        def write(size: int) -> None:
            totals = sums(builder, size, kind)
            with cgutils.for_range(builder, m) as loop:
                weight = spread(builder, load(builder, step_by(builder, a, loop.index, 4), FLOAT, 4), LANES)
                row = builder.add(V, load(builder, step_by(builder, places, loop.index, 8), LONG, 8))
                for i, total in enumerate(totals):
                    values = load(builder, step_by(builder, row, LONG(i), VECTOR), kind, 4)
                    multiply_add(builder, total, weight, values)
            for i, total in enumerate(totals):
                to = at(builder, step_by(builder, y, LONG(i), VECTOR), kind)
                builder.store(builder.load(total), to, align=4)

        for_each_size(builder, vectors, MIXED, write)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), code
