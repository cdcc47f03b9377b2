"""Compiled arithmetic on rows of float32: products by float32 and int8 matrices, norms, activations, attention.

Each formula is that of a layer; the tests hold them equal. A weight is read once for all rows, and every number of a
row is computed in the same order whatever other rows there are. Importing this file compiles nothing yet.
"""

from typing import Any

import numpy as np
from numba import carray, njit, prange, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

F, Int = np.float32, np.int32
LOG2_E, LN_2 = F(1.4426950408889634), F(0.6931471805599453)
LARGEST_INT = 2**31 - 1
FINEST = 2047  # steps of a squeezed activation to each side: 12 bits
ACTIVATIONS = ("relu", "relu2", "silu", "gelu", "gelu_tanh")
LAYER, RMS = 1, 2  # kinds of norm; 0 is none

compiled = njit(nogil=True, fastmath=True, cache=True, boundscheck=False)
in_parallel = njit(nogil=True, fastmath=True, cache=True, boundscheck=False, parallel=True)


def pointer_to(kind: Any) -> Any:
    """An intrinsic that takes a whole number for an address of such numbers."""

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), code  # type: ignore[no-untyped-call]

    return pointer


float_pointer, int8_pointer, int64_pointer = map(pointer_to, (types.float32, types.int8, types.int64))


@compiled
def floats(address, n, k):  # type: ignore[no-untyped-def]
    """The float32 matrix (n, k) at an address."""
    return carray(float_pointer(address), (n, k), np.float32)


@compiled
def integers(address, n, k):  # type: ignore[no-untyped-def]
    """The int8 matrix (n, k) at an address."""
    return carray(int8_pointer(address), (n, k), np.int8)


@compiled
def indices(address, n):  # type: ignore[no-untyped-def]
    """The int64 numbers (n) at an address."""
    return carray(int64_pointer(address), (n,), np.int64)


@in_parallel
def multiply(W, X, b, Y):  # type: ignore[no-untyped-def]
    """Y = X Wᵀ + b."""
    for i in prange(W.shape[0]):
        for r in range(X.shape[0]):
            s = F(0)
            for j in range(W.shape[1]):
                s += W[i, j] * X[r, j]
            Y[r, i] = s + b[i]


@in_parallel
def multiply_int8(W, s, X, t, b, Y):  # type: ignore[no-untyped-def]
    """Y = (t X) (s W)ᵀ + b for whole numbers W and X, whose products are added exactly."""
    for i in prange(W.shape[0]):
        for r in range(X.shape[0]):
            total = Int(0)
            for j in range(W.shape[1]):
                total = Int(total + Int(Int(W[i, j]) * Int(X[r, j])))
            Y[r, i] = F(total) * (t[r] * s[i]) + b[i]


@compiled
def squeeze(X, Z, t):  # type: ignore[no-untyped-def]
    """X ≈ t Z with Z of 12 bits, or as few as keep every sum of products with int8 within 32 bits."""
    k = X.shape[1]
    finest = F(min(FINEST, LARGEST_INT // (127 * max(1, k))))
    for r in range(X.shape[0]):
        largest = F(1e-30)
        for j in range(k):
            largest = max(largest, abs(X[r, j]))
        up = finest / largest
        for j in range(k):
            Z[r, j] = np.int16(np.rint(X[r, j] * up))
        t[r] = largest / finest


@compiled
def product(W, s, b, n, X, Y):  # type: ignore[no-untyped-def]
    """Y = X Wᵀ + b for the matrix at address W: int8 if there are scales at address s, otherwise float32."""
    rows, k = X.shape
    bias = floats(b, 1, n)[0]
    if s == 0:
        multiply(floats(W, n, k), X, bias, Y)
    else:
        Z, t = np.empty((rows, k), np.int16), np.empty(rows, np.float32)
        squeeze(X, Z, t)
        multiply_int8(integers(W, n, k), floats(s, 1, n)[0], Z, t, bias, Y)


@compiled
def normalise(kind, X, gamma, beta, epsilon, Y):  # type: ignore[no-untyped-def]
    """γ (x − μ) / √(σ² + ε) + β, or γ x / √(mean x² + ε), or x."""
    rows, d = X.shape
    if kind == 0:
        Y[:] = X
        return
    g, c = floats(gamma, 1, d)[0], floats(beta, 1, d)[0]
    for r in range(rows):
        mean, square = F(0), F(0)
        if kind == LAYER:
            for i in range(d):
                mean += X[r, i]
            mean /= F(d)
        for i in range(d):
            square += (X[r, i] - mean) * (X[r, i] - mean)
        up = F(1) / np.sqrt(square / F(d) + epsilon)
        for i in range(d):
            Y[r, i] = (X[r, i] - mean) * up * g[i] + c[i]


@compiled
def exponentials(x, powers):  # type: ignore[no-untyped-def]
    """eˣ in place, as 2ᵏ e^f with |f| ≤ ½ ln 2: a loop without calls, which the compiler turns into vectors."""
    for i in range(x.shape[0]):
        v = min(max(x[i], F(-87)), F(88))
        k = np.floor(v * LOG2_E + F(0.5))
        f = v - k * LN_2
        p = F(1 / 720) * f + F(1 / 120)
        p = p * f + F(1 / 24)
        p = p * f + F(1 / 6)
        p = p * f + F(0.5)
        x[i] = p * f * f + f + F(1)
        powers[i] = Int((Int(k) + Int(127)) << Int(23))
    two_to_k = powers.view(np.float32)
    for i in range(x.shape[0]):
        x[i] *= two_to_k[i]


@compiled
def activate(kind, x):  # type: ignore[no-untyped-def]
    """f(x) in place, by the number of its name in ACTIVATIONS."""
    n = x.shape[0]
    if kind <= 1:
        for i in range(n):
            positive = max(x[i], F(0))
            x[i] = positive if kind == 0 else positive * positive
        return
    e, powers = np.empty(n, np.float32), np.empty(n, np.int32)
    if kind == 3:  # ½ x (1 + erf(x / √2)), erf by formula 7.1.26 of Abramowitz and Stegun
        for i in range(n):
            e[i] = F(-0.5) * x[i] * x[i]
        exponentials(e, powers)
        for i in range(n):
            t = F(1) / (F(1) + F(0.3275911 * 0.7071067811865476) * abs(x[i]))
            p = F(1.061405429) * t + F(-1.453152027)
            p = p * t + F(1.421413741)
            p = p * t + F(-0.284496736)
            p = p * t + F(0.254829592)
            half = F(0.5) * p * t * e[i]  # ½ (1 − erf(|x| / √2))
            x[i] *= half if x[i] < 0 else F(1) - half
        return
    for i in range(n):  # silu x / (1 + e^−x); ½ x (1 + tanh u) is x / (1 + e^−2u)
        e[i] = -x[i]
        if kind == 4:
            e[i] = F(-1.5957691216057308) * (x[i] + F(0.044715) * x[i] * x[i] * x[i])
    exponentials(e, powers)
    for i in range(n):
        x[i] /= F(1) + e[i]


@compiled
def attend_head(r, c, Q, K, V, K_steps, V_steps, m, gap, ring, d_k, d_v, scale, bias, reads, H):  # type: ignore[no-untyped-def]
    """H = softmax(scale Q Kᵀ + bias) V for row r and head c, over the first m slots of the row.

    Keys are at K[row, key head, slot] by their steps. A bias is a number for each head and distance; the query's
    distance from slot 0 is `gap`, and a ring goes round after `ring` slots.
    """
    k0 = r * K_steps[0] + reads[c] * K_steps[1]
    v0 = r * V_steps[0] + reads[c] * V_steps[1]
    A, powers = np.empty(m, np.float32), np.empty(m, np.int32)
    largest = F(-1e30)
    for j in range(m):
        s, at = F(0), k0 + j * K_steps[2]
        for i in range(d_k):
            s += Q[r, c * d_k + i] * K[at + i]
        s *= scale
        if bias.shape[1]:
            s += bias[c, (gap - j) % ring]
        A[j] = s
        largest = max(largest, s)
    for j in range(m):
        A[j] -= largest
    exponentials(A, powers)
    total = F(0)
    for j in range(m):
        total += A[j]
    for i in range(d_v):
        H[r, c * d_v + i] = F(0)
    for j in range(m):
        a, at = A[j] / total, v0 + j * V_steps[2]
        for i in range(d_v):
            H[r, c * d_v + i] += a * V[at + i]


@in_parallel
def attend(m, at, h, Q, K, V, K_steps, V_steps, ring, d_k, d_v, scale, bias, reads, H):  # type: ignore[no-untyped-def]
    """Every head of every row, on several threads."""
    for place in prange(H.shape[0] * h):
        r, c = place // h, place % h
        attend_head(r, c, Q, K, V, K_steps, V_steps, m[r], at[r], ring, d_k, d_v, scale, bias, reads, H)


@compiled
def attend_alone(m, at, h, Q, K, V, K_steps, V_steps, ring, d_k, d_v, scale, bias, reads, H):  # type: ignore[no-untyped-def]
    """The same on one thread, for so little that starting others costs more."""
    for r in range(H.shape[0]):
        for c in range(h):
            attend_head(r, c, Q, K, V, K_steps, V_steps, m[r], at[r], ring, d_k, d_v, scale, bias, reads, H)
