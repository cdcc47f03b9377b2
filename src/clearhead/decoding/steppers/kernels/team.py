"""Threads that compute one step together: who takes part, and where they wait for one another.

Starting threads for each product would cost as much as a small product, so they start once for a step and meet after
each part of it. A meeting costs a fraction of a microsecond while all run; a thread that waits longer lets other
programs run. Whoever comes first waits for the others only a moment: on a busy machine the step is done by those that
have a core, and one that comes too late leaves again. So threads may also run one after another.
"""

import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from clearhead.decoding.steppers.kernels.pointers import compiled, intrinsic

SPACING = 64  # bytes: numbers that threads change are kept on different lines of the processor's cache
DOOR, COUNT, MET = 0, SPACING, 2 * SPACING  # bytes from the start of a team's numbers
TEAM, NUMBER, SIZE, MEETINGS, ROWS, BY_ROWS = range(6)  # what one of its threads knows
ROWS_EACH = 16  # from so many rows for each thread on, rows are divided among the threads, and not weights
CLOSED = 1 << 32
MOMENT, MOMENTS = (
    1 << 14,
    64,
)  # looks at the door for a row, some 20 microseconds, and for how many rows at most
SOON = 1 << 10  # looks before other programs may run

give_way = types.ExternalFunction(
    "SwitchToThread" if os.name == "nt" else "sched_yield",
    types.int32(),
)


@intrinsic
def add_at(typing: Any, address: Any, n: Any) -> Any:
    """Adds to the number at an address, for all threads at once; what it was before."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = builder.inttoptr(given[0], ir.PointerType(ir.IntType(64)))
        return builder.atomic_rmw("add", place, given[1], "seq_cst")

    return types.int64(types.int64, types.int64), code


@intrinsic
def look_at(typing: Any, address: Any) -> Any:
    """The number at an address as other threads have left it."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = builder.inttoptr(given[0], ir.PointerType(ir.IntType(64)))
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(types.int64), code


def new_team() -> np.ndarray:
    """The numbers of a team that nobody has joined yet."""
    return np.zeros(4 * SPACING // 8, np.int64)


@compiled
def join(team, most, rows):  # type: ignore[no-untyped-def]
    """What this thread knows of a team of at most so many threads, which computes so many rows in all."""
    me = np.zeros(6, np.int64)
    me[TEAM], me[NUMBER] = team, add_at(team + DOOR, 1)
    if me[NUMBER] >= CLOSED:
        return me
    looks = 0
    if me[NUMBER] == 0:
        patience = MOMENT * min(rows, MOMENTS)  # the more work there is, the more does it pay to wait
        while look_at(team + DOOR) < most and looks < patience:
            looks += 1
        add_at(team + COUNT, add_at(team + DOOR, CLOSED))
    while look_at(team + COUNT) == 0:
        looks += 1
        if looks > SOON:
            give_way()
    me[SIZE] = look_at(team + COUNT)
    return me


@compiled
def divide(me, rows):  # type: ignore[no-untyped-def]
    """Decides what is divided among the threads: many rows, or the weights for few rows."""
    me[ROWS], me[BY_ROWS] = rows, me[SIZE] > 1 and rows >= ROWS_EACH * me[SIZE]


@compiled
def meet(me):  # type: ignore[no-untyped-def]
    """Waits until every thread of the team has come here."""
    if me[SIZE] == 1:
        return
    me[MEETINGS] += 1
    add_at(me[TEAM] + MET, 1)
    looks = 0
    while look_at(me[TEAM] + MET) < me[MEETINGS] * me[SIZE]:
        looks += 1
        if looks > SOON:
            give_way()


@compiled
def share(n, unit, me):  # type: ignore[no-untyped-def]
    """The first of n things that this thread does, and the first that it does not, in whole units."""
    units = (n + unit - 1) // unit
    number, size = me[NUMBER], me[SIZE]
    return min(n, units * number // size * unit), min(n, units * (number + 1) // size * unit)


@compiled
def own_rows(me):  # type: ignore[no-untyped-def]
    """The rows that this thread computes."""
    return share(me[ROWS], 1, me) if me[BY_ROWS] else (0, me[ROWS])


@compiled
def own_columns(n, unit, me):  # type: ignore[no-untyped-def]
    """The columns that this thread computes."""
    return (0, n) if me[BY_ROWS] else share(n, unit, me)
