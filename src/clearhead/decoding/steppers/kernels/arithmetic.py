"""Compiled arithmetic on rows of float32: norms, activations, attention.

Each formula is that of a layer; the tests hold them equal. Importing this file compiles nothing yet.
"""

import numpy as np

from clearhead.decoding.steppers.kernels.pointers import F, apart, compiled, floats, in_order
from clearhead.decoding.steppers.kernels.tiles import COLUMNS, LANES, dot_tile, mixture

Int = np.int32
LOG2_E, LN_2 = F(1.4426950408889634), F(0.6931471805599453)
ACTIVATIONS = ("relu", "relu2", "silu", "gelu", "gelu_tanh")
LAYER, RMS = 1, 2  # kinds of norm; 0 is none
WIDE = 64 // LANES  # vectors of a usual head

compare_four, compare_one = dot_tile(COLUMNS), dot_tile(1)
mix_wide, mix_one = mixture(WIDE), mixture(1)


@compiled
def normalise(kind, X, first, last, gamma, beta, epsilon, Y):  # type: ignore[no-untyped-def]
    """γ (x − μ) / √(σ² + ε) + β, or γ x / √(mean x² + ε), or x, for some of the rows."""
    apart()
    d = X.shape[1]
    if kind == 0:
        for r in range(first, last):
            for i in range(d):
                Y[r, i] = X[r, i]
        return
    g, c = floats(gamma, 1, d)[0], floats(beta, 1, d)[0]
    for r in range(first, last):
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
    apart()
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
    apart()
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
def compare(q, K, step, d_k, m, A):  # type: ignore[no-untyped-def]
    """A_j = q · k_j for m keys at address K."""
    apart()
    j, whole = 0, d_k // LANES * LANES
    while j < m:
        count = COLUMNS if m - j >= COLUMNS else 1
        k = K + j * step * 4
        if count == 1:
            compare_one(k, step, q.ctypes.data, d_k, A.ctypes.data + j * 4)
        else:
            compare_four(k, step, q.ctypes.data, d_k, A.ctypes.data + j * 4)
        for o in range(count if whole < d_k else 0):
            A[j + o] = finish_score(A[j + o], q, floats(k + o * step * 4, 1, d_k)[0])
        j += count


@in_order
def finish_score(s, q, k):  # type: ignore[no-untyped-def]
    """q · k, of which s is what the whole vectors have given."""
    for i in range(k.shape[0] // LANES * LANES, k.shape[0]):
        s += q[i] * k[i]
    return s


@compiled
def mix(A, V, step, d_v, m, y):  # type: ignore[no-untyped-def]
    """y += Σ_j A_j v_j for m values at address V."""
    apart()
    i = 0
    while i + LANES <= d_v:
        if i + WIDE * LANES <= d_v:
            mix_wide(V + i * 4, step, A.ctypes.data, m, y.ctypes.data + i * 4)
            i += WIDE * LANES
        else:
            mix_one(V + i * 4, step, A.ctypes.data, m, y.ctypes.data + i * 4)
            i += LANES
    for o in range(i, d_v):
        for j in range(m):
            y[o] += A[j] * floats(V + j * step * 4, 1, d_v)[0, o]


@compiled
def softmax(A, powers):  # type: ignore[no-untyped-def]
    """e^a / Σ e^a in place."""
    apart()
    largest, total = F(-1e30), F(0)
    for j in range(A.shape[0]):
        largest = max(largest, A[j])
    for j in range(A.shape[0]):
        A[j] -= largest
    exponentials(A, powers)
    for j in range(A.shape[0]):
        total += A[j]
    for j in range(A.shape[0]):
        A[j] /= total
