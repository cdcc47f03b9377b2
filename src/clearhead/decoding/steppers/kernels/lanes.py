"""Arithmetic on a list of float32 numbers at an address, a vector at a time: what Numba's loops do one by one.

A sum or a largest number is taken in the same order for every list of the same length.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from clearhead.decoding.steppers.kernels.pointers import intrinsic
from clearhead.decoding.steppers.kernels.tiles import (
    FLOAT,
    INT,
    LANES,
    LONG,
    SHORT,
    at,
    cgutils,
    lanes,
    load,
    spread,
    step_by,
    vector,
)

LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
LEAST, MOST = -87.0, 88.0  # between which e^x is a usual number of float32
ABSOLUTE = 0x7FFFFFFF  # all bits but the sign


def over(builder: Any, n: Any, body: Callable[[int, Any], None]) -> None:
    """Writes a loop over whole vectors, and one over the numbers behind them: by lanes and the first number's index."""
    whole = builder.mul(builder.udiv(n, LONG(LANES)), LONG(LANES))
    with cgutils.for_range(builder, builder.udiv(n, LONG(LANES))) as loop:
        body(LANES, builder.mul(loop.index, LONG(LANES)))
    with cgutils.for_range(builder, builder.sub(n, whole)) as loop:
        body(1, builder.add(whole, loop.index))


def all_lanes(kind: ir.Type, n: int, number: float) -> Any:
    """A constant in every lane."""
    return ir.Constant(vector(kind, n), [number] * n)


def larger(builder: Any, a: Any, b: Any) -> Any:
    """The larger one in each lane, of floats or whole numbers."""
    is_float = isinstance(a.type.element, ir.FloatType)
    compare = builder.fcmp_ordered if is_float else builder.icmp_signed
    return builder.select(compare(">", a, b), a, b)


def call(builder: Any, name: str, x: Any) -> Any:
    """An operation of LLVM on a vector."""
    kind = ir.FunctionType(x.type, [x.type])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{x.type.count}f32")
    return builder.call(function, [x])


def exponential(builder: Any, x: Any) -> Any:
    """e^x as 2^k e^f with |f| ≤ ½ ln 2."""
    n = x.type.count

    def constant(number: float) -> Any:
        return all_lanes(FLOAT, n, number)

    for limit, beyond in ((LEAST, "<"), (MOST, ">")):  # NaN is beyond neither, and stays
        x = builder.select(builder.fcmp_ordered(beyond, x, constant(limit)), constant(limit), x)
    k = call(builder, "floor", builder.fadd(builder.fmul(x, constant(LOG2_E)), constant(0.5)))
    f = builder.fsub(x, builder.fmul(k, constant(LN_2)))
    p = constant(1 / 720)
    for coefficient in (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        p = builder.fadd(builder.fmul(p, f), constant(coefficient))
    exponent = builder.add(builder.fptosi(k, vector(INT, n)), all_lanes(INT, n, 127))
    two_to_k = builder.shl(exponent, all_lanes(INT, n, 23))
    return builder.fmul(p, builder.bitcast(two_to_k, vector(FLOAT, n)))


def fold(
    builder: Any, address: Any, n: Any, start: Any, each: Callable[[Any, Any], Any], join: Callable[..., Any]
) -> Any:
    """Joins what `each` makes of all numbers (of vectors, and where they are), two by two, and at last the lanes."""
    found = {size: cgutils.alloca_once(builder, vector(start.type, size)) for size in (LANES, 1)}
    for size, place in found.items():
        builder.store(all_lanes(start.type, size, start.constant), place)

    def body(size: int, index: Any) -> None:
        here = step_by(builder, address, index, 4)
        x = each(load(builder, here, vector(FLOAT, size), 4), here)
        builder.store(join(builder, builder.load(found[size]), x), found[size])

    over(builder, n, body)
    total, size = builder.load(found[LANES]), LANES
    while size > 1:
        size //= 2
        total = join(
            builder, lanes(builder, total, range(size)), lanes(builder, total, range(size, 2 * size))
        )
    return builder.extract_element(join(builder, total, builder.load(found[1])), INT(0))


def plus(builder: Any, a: Any, b: Any) -> Any:
    """a + b in each lane."""
    return builder.fadd(a, b)


@intrinsic
def largest(typing: Any, x: Any, n: Any) -> Any:
    """The largest of n numbers; −10³⁰ of none."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        x, n = given
        return fold(builder, x, n, FLOAT(-1e30), lambda numbers, here: numbers, larger)

    return types.float32(types.int64, types.int64), code


@intrinsic
def magnitude(typing: Any, x: Any, n: Any) -> Any:
    """The largest |x| of n numbers by its bits, as a whole number: NaN is larger than infinity."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        def bits(numbers: Any, here: Any) -> Any:
            size = numbers.type.count
            return builder.and_(builder.bitcast(numbers, vector(INT, size)), all_lanes(INT, size, ABSOLUTE))

        x, n = given
        return fold(builder, x, n, INT(0), bits, larger)

    return types.int32(types.int64, types.int64), code


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """The float32 that has these bits."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(builder.trunc(given[0], INT), FLOAT)

    return types.float32(types.int64), code


def sum_from(power: int) -> Callable[..., Any]:
    """Σ (x − centre)^power of n numbers, for a power of 1 or 2."""

    @intrinsic
    def total(typing: Any, x: Any, n: Any, centre: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            x, n, centre = given

            def term(numbers: Any, here: Any) -> Any:
                away = builder.fsub(numbers, spread(builder, centre, numbers.type.count))
                return away if power == 1 else builder.fmul(away, away)

            return fold(builder, x, n, FLOAT(0.0), term, plus)

        return types.float32(types.int64, types.int64, types.float32), code

    return total


sum_of_differences, sum_of_squares = sum_from(1), sum_from(2)


def exponential_sum(keeps: bool) -> Callable[..., Any]:
    """Σ e^(x − shift) of n numbers, which the terms replace if they are kept."""

    @intrinsic
    def total(typing: Any, x: Any, n: Any, shift: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            x, n, shift = given

            def term(numbers: Any, here: Any) -> Any:
                e = exponential(builder, builder.fsub(numbers, spread(builder, shift, numbers.type.count)))
                if keeps:
                    builder.store(e, at(builder, here, e.type), align=4)
                return e

            return fold(builder, x, n, FLOAT(0.0), term, plus)

        return types.float32(types.int64, types.int64, types.float32), code

    return total


weigh, sum_of_exponentials = exponential_sum(True), exponential_sum(False)


@intrinsic
def exponentials(typing: Any, x: Any, n: Any) -> Any:
    """e^x in place of n numbers."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        x, n = given

        def body(size: int, index: Any) -> None:
            here = at(builder, step_by(builder, x, index, 4), vector(FLOAT, size))
            builder.store(exponential(builder, builder.load(here, align=4)), here, align=4)

        over(builder, n, body)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def round_to_shorts(typing: Any, x: Any, n: Any, up: Any, z: Any) -> Any:
    """z = round(up x) as 16 bits, for n numbers."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        x, n, up, z = given

        def body(size: int, index: Any) -> None:
            numbers = load(builder, step_by(builder, x, index, 4), vector(FLOAT, size), 4)
            scaled = call(builder, "rint", builder.fmul(numbers, spread(builder, up, size)))
            shorts = builder.trunc(builder.fptosi(scaled, vector(INT, size)), vector(SHORT, size))
            builder.store(shorts, at(builder, step_by(builder, z, index, 2), shorts.type), align=2)

        over(builder, n, body)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32, types.int64), code
