"""Compiled arithmetic on rows of float32: norms, activations, attention.

Each formula is that of a layer; the tests hold them equal. Importing this file compiles nothing yet.
"""

import numpy as np

from clearhead.decoding.steppers.kernels.lanes import (
    exponentials,
    largest,
    sum_of_differences,
    sum_of_squares,
    weigh,
)
from clearhead.decoding.steppers.kernels.pointers import F, apart, compiled, floats, in_order, indices
from clearhead.decoding.steppers.kernels.products import fitting
from clearhead.decoding.steppers.kernels.tiles import LANES, MIXED, dots, mixture

ACTIVATIONS = ("relu", "relu2", "silu", "gelu", "gelu_tanh")
LAYER, RMS = 1, 2  # kinds of norm; 0 is none


@in_order
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
        x = X.ctypes.data + r * d * 4
        mean = sum_of_differences(x, d, F(0)) / F(d) if kind == LAYER else F(0)
        up = F(1) / np.sqrt(sum_of_squares(x, d, mean) / F(d) + epsilon)
        for i in range(d):
            Y[r, i] = (X[r, i] - mean) * up * g[i] + c[i]


@in_order
def activate(kind, x):  # type: ignore[no-untyped-def]
    """f(x) in place, by the number of its name in ACTIVATIONS."""
    apart()
    n = x.shape[0]
    if kind <= 1:
        for i in range(n):
            positive = max(x[i], F(0))
            x[i] = positive if kind == 0 else positive * positive
        return
    e = np.empty(n, np.float32)
    if kind == 3:  # ½ x (1 + erf(x / √2)), erf by formula 7.1.26 of Abramowitz and Stegun
        for i in range(n):
            e[i] = F(-0.5) * x[i] * x[i]
        exponentials(e.ctypes.data, n)
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
    exponentials(e.ctypes.data, n)
    for i in range(n):
        x[i] /= F(1) + e[i]


@compiled
def compare(q, K, places, d_k, m, A):  # type: ignore[no-untyped-def]
    """A_j = q · k_j for the query at address q and m keys; of key j it is known how many bytes it is behind K."""
    apart()
    dots(q, K, places, d_k, m, A)
    if d_k % LANES:
        x, to, found = floats(q, 1, d_k)[0], indices(places, m), floats(A, 1, m)[0]
        for j in range(m):
            found[j] = finish_score(found[j], x, floats(K + to[j], 1, d_k)[0])


@in_order
def finish_score(s, q, k):  # type: ignore[no-untyped-def]
    """q · k, of which s is what the whole vectors have given."""
    for i in range(k.shape[0] // LANES * LANES, k.shape[0]):
        s += q[i] * k[i]
    return s


@in_order
def mix(A, V, places, d_v, m, y):  # type: ignore[no-untyped-def]
    """y = Σ_j A_j v_j for the weights at address A and m values."""
    apart()
    i = 0
    while i + LANES <= d_v:
        vectors = fitting(MIXED, (d_v - i) // LANES)
        mixture(vectors, V + i * 4, places, A, m, y + i * 4)
        i += vectors * LANES
    if i < d_v:
        weights, to, found = floats(A, 1, m)[0], indices(places, m), floats(y, 1, d_v)[0]
        for o in range(i, d_v):
            found[o] = F(0)
            for j in range(m):
                found[o] += weights[j] * floats(V + to[j], 1, d_v)[0, o]


@in_order
def softmax(A, m):  # type: ignore[no-untyped-def]
    """e^a / Σ e^a in place of m numbers at address A; all are NaN if one is."""
    apart()
    down, x = F(1) / weigh(A, m, largest(A, m)), floats(A, 1, m)[0]
    for j in range(m):
        x[j] *= down
