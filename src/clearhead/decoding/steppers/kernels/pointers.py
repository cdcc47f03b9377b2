"""How the kernels are compiled, and arrays at addresses: the tables of weights have numbers, not arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, extending, njit, types  # type: ignore[attr-defined]

F = np.float32  # the type of most numbers
intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic
compiled = njit(nogil=True, fastmath=True, cache=True, boundscheck=False, error_model="numpy")
# Sums are taken in the order in which they are written, whatever the compiler knows about their number; NaN may occur.
# Without `fastmath=False` a function takes over the setting of whoever calls it first.
in_order = njit(nogil=True, fastmath=False, cache=True, boundscheck=False, error_model="numpy")
in_parallel = njit(
    nogil=True, fastmath=True, cache=True, boundscheck=False, error_model="numpy", parallel=True
)


def pointer_to(kind: Any) -> Any:
    """An intrinsic that takes a whole number for an address of such numbers."""

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), code  # type: ignore[no-untyped-call]

    return pointer


float_pointer, int64_pointer = map(pointer_to, (types.float32, types.int64))


@compiled
def floats(address, n, k):  # type: ignore[no-untyped-def]
    """The float32 matrix (n, k) at an address."""
    return carray(float_pointer(address), (n, k), np.float32)


@compiled
def indices(address, n):  # type: ignore[no-untyped-def]
    """The int64 numbers (n) at an address."""
    return carray(int64_pointer(address), (n,), np.int64)


@intrinsic
def apart(typing: Any) -> Any:
    """Keeps the function that calls it out of its callers: a copy in each takes long to compile."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), code
