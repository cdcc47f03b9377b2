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
LINE = 64  # bytes that are read at once: the weights of 16 outputs, of one input in float32, of four in int8
OUTPUTS = 16
LINES = 4 if HAS_AVX512 else 2  # that are read at once, as many as leave registers for sums
UNIT = (
    LINES * OUTPUTS
)  # outputs whose lines follow one another, so that memory is read from one end to the other
INPUTS = LINE // OUTPUTS  # of a line of int8 weights
FLOAT_ROWS, INT8_ROWS = (4, 2) if HAS_AVX512 else (2, 1)  # rows of X that share each read of the weights
COLUMNS = 4  # keys that are compared at once

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


def float_tile(rows: int) -> Callable[..., Any]:
    """Y_ro = Σ_j X_rj W_oj + b_o for so many rows of X and a unit of W, in float32.

    Rows of X are k numbers apart, and rows of Y `y_step`.
    """
    kind, parts = vector(FLOAT, LANES), range(UNIT // LANES)

    @intrinsic
    def tile(typing: Any, W: Any, X: Any, k: Any, b: Any, Y: Any, y_step: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            W, X, k, b, Y, y_step = given
            x = [step_by(builder, X, builder.mul(k, LONG(r)), 4) for r in range(rows)]
            places = [sums(builder, len(parts), kind) for _ in x]
            with cgutils.for_range(builder, k) as loop:
                w = step_by(builder, W, loop.index, LINES * LINE)
                weights = [load(builder, step_by(builder, w, LONG(i), VECTOR), kind, VECTOR) for i in parts]
                for r in range(rows):
                    value = load(builder, step_by(builder, x[r], loop.index, 4), FLOAT, 4)
                    values = spread(builder, value, LANES)
                    for i in parts:
                        multiply_add(builder, places[r][i], values, weights[i])
            for r in range(rows):
                y = step_by(builder, Y, builder.mul(y_step, LONG(r)), 4)
                for i, place in enumerate(places[r]):
                    bias = load(builder, step_by(builder, b, LONG(i), VECTOR), kind, 4)
                    whole = builder.fadd(builder.load(place), bias)
                    builder.store(whole, at(builder, step_by(builder, y, LONG(i), VECTOR), kind), align=4)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), code

    return tile


def int8_tile(rows: int) -> Callable[..., Any]:
    """Y_ro = t_r s_o Σ_j X_rj W_oj + b_o for so many rows of int16 X and a unit of int8 W.

    A line has the same 4 inputs of its 16 outputs side by side. Pairs of products are added as int32, for which most
    processors have one instruction.
    """
    half = LINE // 2  # weights that are multiplied at once: those of 8 outputs
    kind, whole = vector(INT, half // 2), vector(FLOAT, OUTPUTS)

    @intrinsic
    def tile(typing: Any, W: Any, X: Any, k: Any, t: Any, s: Any, b: Any, Y: Any, y_step: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            W, X, k, t, s, b, Y, y_step = given
            x = [step_by(builder, X, builder.mul(k, LONG(r)), 2) for r in range(rows)]
            places = sums(builder, rows * LINES * 2, kind)
            with cgutils.for_range(builder, builder.udiv(k, LONG(INPUTS))) as loop:
                w = step_by(builder, W, loop.index, LINES * LINE)
                weights = [
                    builder.sext(
                        load(builder, step_by(builder, w, LONG(c), LINE), vector(BYTE, LINE), LINE),
                        vector(SHORT, LINE),
                    )
                    for c in range(LINES)
                ]
                for r in range(rows):
                    four = load(builder, step_by(builder, x[r], loop.index, 8), LONG, 8)
                    values = builder.bitcast(spread(builder, four, half // 4), vector(SHORT, half))
                    for c in range(LINES):
                        for side in range(2):
                            part = lanes(builder, weights[c], range(half * side, half * (side + 1)))
                            place = places[(r * LINES + c) * 2 + side]
                            add(builder, place, pairs(builder, part, values))
            for r in range(rows):
                scale = spread(builder, load(builder, step_by(builder, t, LONG(r), 4), FLOAT, 4), OUTPUTS)
                for c in range(LINES):
                    first = (r * LINES + c) * 2
                    y = [builder.load(place) for place in places[first : first + 2]]
                    both = builder.shuffle_vector(*y, ir.Constant(vector(INT, half), list(range(half))))
                    y = builder.sitofp(
                        builder.add(*(lanes(builder, both, range(i, half, 2)) for i in (0, 1))), whole
                    )
                    scales, bias = (
                        load(builder, step_by(builder, place, LONG(c), LINE), whole, 4) for place in (s, b)
                    )
                    y = builder.fadd(builder.fmul(y, builder.fmul(scale, scales)), bias)
                    to = builder.add(step_by(builder, Y, builder.mul(y_step, LONG(r)), 4), LONG(LINE * c))
                    builder.store(y, at(builder, to, whole), align=4)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), code

    return tile


def pairs(builder: Any, a: Any, b: Any) -> Any:
    """a_0 b_0 + a_1 b_1, a_2 b_2 + a_3 b_3, … of int16 vectors as int32."""
    n = a.type.count
    wide = vector(INT, n)
    products = builder.mul(builder.sext(a, wide), builder.sext(b, wide))
    return builder.add(lanes(builder, products, range(0, n, 2)), lanes(builder, products, range(1, n, 2)))


def dot_tile(columns: int) -> Callable[..., Any]:
    """y_c = Σ_j x_j W_cj for so many rows of W, in float32; j up to the last whole vector."""
    kind = vector(FLOAT, LANES)

    @intrinsic
    def tile(typing: Any, W: Any, w_step: Any, x: Any, k: Any, y: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            W, w_step, x, k, y = given
            w = [step_by(builder, W, builder.mul(w_step, LONG(c)), 4) for c in range(columns)]
            places = sums(builder, columns, kind)
            with cgutils.for_range(builder, builder.udiv(k, LONG(LANES))) as loop:
                j = builder.mul(loop.index, LONG(LANES))
                values = load(builder, step_by(builder, x, j, 4), kind, 4)
                for place, address in zip(places, w, strict=True):
                    multiply_add(
                        builder, place, values, load(builder, step_by(builder, address, j, 4), kind, 4)
                    )
            total = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(FLOAT, [FLOAT, kind]), f"llvm.vector.reduce.fadd.v{LANES}f32"
            )
            for i, place in enumerate(places):
                whole = builder.call(total, [FLOAT(0.0), builder.load(place)], fastmath=("reassoc",))
                builder.store(whole, at(builder, step_by(builder, y, LONG(i), 4), FLOAT))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), code

    return tile


def mixture(vectors: int) -> Callable[..., Any]:
    """y += Σ_j a_j V_j for the first numbers of the rows of V, as many as so many vectors have."""
    kind = vector(FLOAT, LANES)

    @intrinsic
    def mix(typing: Any, V: Any, v_step: Any, a: Any, m: Any, y: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            V, v_step, a, m, y = given
            places = [cgutils.alloca_once(builder, kind) for _ in range(vectors)]
            for i, place in enumerate(places):
                builder.store(load(builder, step_by(builder, y, LONG(i * LANES), 4), kind, 4), place)
            with cgutils.for_range(builder, m) as loop:
                weight = spread(builder, load(builder, step_by(builder, a, loop.index, 4), FLOAT, 4), LANES)
                row = step_by(builder, V, builder.mul(v_step, loop.index), 4)
                for i, place in enumerate(places):
                    values = load(builder, step_by(builder, row, LONG(i * LANES), 4), kind, 4)
                    multiply_add(builder, place, weight, values)
            for i, place in enumerate(places):
                to = at(builder, step_by(builder, y, LONG(i * LANES), 4), kind)
                builder.store(builder.load(place), to, align=4)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), code

    return mix
