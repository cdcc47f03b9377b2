"""One decoder step in one compiled call: a token for each row enters, logits (b, vocabulary) leave.

The weights of a model become a table with a line for each sublayer: what it does, and the addresses of its numbers, so
that a call costs the same however many weights there are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from clearhead.decoding.steppers.kernels.arithmetic import (
    ACTIVATIONS,
    LAYER,
    RMS,
    F,
    activate,
    attend,
    attend_alone,
    compiled,
    floats,
    indices,
    normalise,
    product,
)

SELF, CROSS, FEEDFORWARD = 0, 1, 2
PRE, POST, BOTH = 0, 1, 2
WORTH_THREADS = 1 << 16  # multiplications of an attention for which several threads are started

# A matrix is its address, that of its int8 scales (0 for float32), and that of its bias.
MATRICES = ("in", "gate", "out")
SUBLAYER = np.dtype(
    [
        (name, np.int64)
        for name in (
            "kind", "gamma", "beta", "gamma_after", "beta_after",
            *(f"{letter}_{matrix}" for matrix in MATRICES for letter in "Wsb"),
            "width", "inner",  # what the first matrix gives, and what the last one takes
            "h", "g", "d_k", "d_v", "reads", "norm_q", "norm_k", "bias", "distances",
        )
    ]
    + [("scale", np.float32)]
)  # fmt: skip
# Where a sublayer's keys and values are: addresses, and steps between rows, heads and slots.
PLACE = np.dtype([("K", np.int64), ("V", np.int64), ("K_steps", np.int64, 3), ("V_steps", np.int64, 3)])
MODEL = np.dtype(
    [
        (name, np.int64)
        for name in (
            "vocabulary", "norm", "placement", "activation", "is_gated", "has_relu",
            "E", "P", "gamma_first", "beta_first", "has_first", "gamma_last", "beta_last", "has_last",
            "W_head", "s_head", "b_head", "cos", "sin",
        )
    ]
    + [(name, np.float32) for name in ("epsilon", "epsilon_heads", "scale", "head_scale", "soft_cap")]
)  # fmt: skip


@compiled
def step(models, sublayers, places, tokens, at, slots, sources, X, Z):  # type: ignore[no-untyped-def]
    """Writes the logits of one more token for each row into Z; X (b, d) is what the sublayers add to.

    `at` are the positions of the tokens, `slots` how many a row of the cache has, `sources` the tokens of each source.
    """
    model = models[0]
    rows, d = X.shape
    Y, U = np.empty((rows, d), np.float32), np.empty((rows, d), np.float32)
    embed(model, tokens, at, X)
    if model.has_first:
        normalise(model.norm, X, model.gamma_first, model.beta_first, model.epsilon, Y)
        X[:] = Y
    for i in range(sublayers.shape[0]):
        part = sublayers[i]
        if model.placement == POST:
            Y[:] = X
        else:
            normalise(model.norm, X, part.gamma, part.beta, model.epsilon, Y)
        if part.kind == FEEDFORWARD:
            feed_forward(model, part, Y, U)
        else:
            look(model, part, places[i], at, slots, sources, Y, U)
        if model.placement == BOTH:
            normalise(model.norm, U, part.gamma_after, part.beta_after, model.epsilon, Y)
            U[:] = Y
        for r in range(rows):
            for j in range(d):
                X[r, j] += U[r, j]
        if model.placement == POST:
            normalise(model.norm, X, part.gamma, part.beta, model.epsilon, Y)
            X[:] = Y
    normalise(model.norm if model.has_last else 0, X, model.gamma_last, model.beta_last, model.epsilon, Y)
    read_out(model, Y, Z)


@compiled
def embed(model, tokens, at, X):  # type: ignore[no-untyped-def]
    """x = E t, times the scale, + P p where positions are added."""
    rows, d = X.shape
    for r in range(rows):
        E = floats(model.E, tokens[r] + 1, d)
        for j in range(d):
            X[r, j] = E[tokens[r], j] * model.scale
        if model.P:
            P = floats(model.P, at[r] + 1, d)
            for j in range(d):
                X[r, j] += P[at[r], j]


@compiled
def feed_forward(model, part, X, Y):  # type: ignore[no-untyped-def]
    """W_2 f(W_1 x + b_1) + b_2, or W_2 (f(W_g x) ∘ W_1 x)."""
    rows, n = X.shape[0], part.inner
    H = np.empty((rows, n), np.float32)
    product(part.W_in, part.s_in, part.b_in, n, X, H)
    if model.is_gated:
        G = np.empty((rows, n), np.float32)
        product(part.W_gate, part.s_gate, part.b_gate, n, X, G)
        for r in range(rows):
            activate(model.activation, G[r])
            for j in range(n):
                H[r, j] *= G[r, j]
    else:
        for r in range(rows):
            activate(model.activation, H[r])
    product(part.W_out, part.s_out, part.b_out, X.shape[1], H, Y)


@compiled
def look(model, part, place, at, slots, sources, X, Y):  # type: ignore[no-untyped-def]
    """softmax(Q Kᵀ) V over the cache, with the new token in it, or over the source; joined by W_o."""
    rows, d_k, d_v, h = X.shape[0], part.d_k, part.d_v, part.h
    H = np.empty((rows, part.inner), np.float32)
    if h:
        Q = np.empty((rows, part.width), np.float32)
        product(part.W_in, part.s_in, part.b_in, part.width, X, Q)
        if model.has_relu:
            for r in range(rows):
                activate(0, Q[r])
        turn(model, part, at, Q)
        m = sources
        if part.kind == SELF:
            m = np.empty(rows, np.int64)
            for r in range(rows):
                keep(part, place, r, at[r] % slots, Q[r])
                m[r] = min(at[r] + 1, slots)
        reads = indices(part.reads, h)
        K, V = floats(place.K, 1, 1 << 40)[0], floats(place.V, 1, 1 << 40)[0]
        B = floats(part.bias, h, part.distances)
        steps = place.K_steps, place.V_steps
        if H.size * m.max() > WORTH_THREADS:
            attend(m, at, h, Q, K, V, steps[0], steps[1], slots, d_k, d_v, part.scale, B, reads, H)
        else:
            attend_alone(m, at, h, Q, K, V, steps[0], steps[1], slots, d_k, d_v, part.scale, B, reads, H)
    product(part.W_out, part.s_out, part.b_out, X.shape[1], H, Y)


@compiled
def turn(model, part, at, Q):  # type: ignore[no-untyped-def]
    """Norms queries and keys by head, and turns each pair (x_i, x_{i + d_k/2}) to its position."""
    heads = part.h + part.g if part.kind == SELF else part.h
    d_k, half = part.d_k, part.d_k // 2
    for r in range(Q.shape[0]):
        for c in range(heads):
            x = Q[r, c * d_k : (c + 1) * d_k]
            if part.norm_q:
                g = floats(part.norm_q if c < part.h else part.norm_k, 1, d_k)[0]
                square = F(0)
                for i in range(d_k):
                    square += x[i] * x[i]
                up = F(1) / np.sqrt(square / F(d_k) + model.epsilon_heads)
                for i in range(d_k):
                    x[i] *= up * g[i]
            if model.cos and part.kind == SELF:
                cos, sin = floats(model.cos, at[r] + 1, half), floats(model.sin, at[r] + 1, half)
                for i in range(half):
                    u, v = x[i], x[i + half]
                    x[i] = u * cos[at[r], i] - v * sin[at[r], i]
                    x[i + half] = v * cos[at[r], i] + u * sin[at[r], i]


@compiled
def keep(part, place, r, slot, x):  # type: ignore[no-untyped-def]
    """Writes the new key and value of a row, which follow its queries, into their slot of the cache."""
    K, V = floats(place.K, 1, 1 << 40)[0], floats(place.V, 1, 1 << 40)[0]
    first = part.h * part.d_k
    for c in range(part.g):
        to = r * place.K_steps[0] + c * place.K_steps[1] + slot * place.K_steps[2]
        for i in range(part.d_k):
            K[to + i] = x[first + c * part.d_k + i]
    first += part.g * part.d_k
    for c in range(part.g):
        to = r * place.V_steps[0] + c * place.V_steps[1] + slot * place.V_steps[2]
        for i in range(part.d_v):
            V[to + i] = x[first + c * part.d_v + i]


@compiled
def read_out(model, X, Z):  # type: ignore[no-untyped-def]
    """z = E x for a tied head, W x for an own one; with its scale and soft cap."""
    rows = X.shape[0]
    if model.head_scale != 1:
        for r in range(rows):
            for j in range(X.shape[1]):
                X[r, j] *= model.head_scale
    product(model.W_head, model.s_head, model.b_head, model.vocabulary, X, Z)
    if model.soft_cap:
        for r in range(rows):
            for j in range(model.vocabulary):
                Z[r, j] = model.soft_cap * np.tanh(Z[r, j] / model.soft_cap)


NORM_KINDS = {"none": 0, "layer": LAYER, "rms": RMS}
PLACEMENT_KINDS = {"pre": PRE, "post": POST, "both": BOTH}


def number_of(activation: Callable[..., Any]) -> int:
    """The number by which the kernels know an activation."""
    return ACTIVATIONS.index(activation.__name__)
