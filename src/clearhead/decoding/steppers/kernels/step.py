"""One decoder step in one compiled call: a token for each row enters, logits (b, vocabulary) leave.

The weights of a model become a table with a line for each sublayer: what it does, and the addresses of its numbers, so
that a call costs the same however many weights there are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

from clearhead.decoding.steppers.kernels.arithmetic import (
    ACTIVATIONS,
    LAYER,
    RMS,
    activate,
    normalise,
)
from clearhead.decoding.steppers.kernels.attention import (
    AROUND,
    AT,
    CROSS,
    FEEDFORWARD,
    NEXT,
    SELF,
    TEXT,
    TOKEN,
    ask_for_keys,
    attend,
    find,
    seen,
    with_company,
)
from clearhead.decoding.steppers.kernels.choice import best_of_row
from clearhead.decoding.steppers.kernels.lanes import sum_of_squares
from clearhead.decoding.steppers.kernels.pointers import (
    F,
    apart,
    compiled,
    floats,
    in_order,
    in_parallel,
)
from clearhead.decoding.steppers.kernels.products import multiply, multiply_int8, squeeze
from clearhead.decoding.steppers.kernels.team import (
    BY_ROWS,
    NUMBER,
    SIZE,
    divide,
    join,
    meet,
    own_columns,
    own_rows,
    share,
)
from clearhead.decoding.steppers.kernels.tiles import UNIT

PRE, POST, BOTH = 0, 1, 2

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
            "vocabulary", "d", "widest", "longest", "norm", "placement", "activation", "is_gated", "has_relu",
            "E", "P", "gamma_first", "beta_first", "has_first", "gamma_last", "beta_last", "has_last",
            "W_head", "s_head", "b_head", "cos", "sin",
        )
    ]
    + [(name, np.float32) for name in ("epsilon", "epsilon_heads", "scale", "head_scale", "soft_cap")]
)  # fmt: skip


@in_parallel
def step(models, sublayers, places, rows, origins, slots, wanted, threads, team, Z, chosen, log_P):  # type: ignore[no-untyped-def]
    """Writes logits into Z (wanted, vocabulary), by as many threads as are free.

    Each row is a token, its position, the sequence of the cache to which it belongs, its source, and the tokens of that
    source. Rows of one sequence follow one another. `origins` says for each sequence and slot in which sequence's place
    its key is, for slots that may be elsewhere. `slots` are those of a sequence before a ring goes round.

    If there is room for tokens in `chosen` (steps, rows), as many steps follow one another: the likeliest token of each
    row, with its log P, is the row's next one.
    """
    model, n = models[0], rows.shape[0]
    shared = (
        np.empty((n, model.d), np.float32),
        np.empty((n, model.widest), np.float32),
        np.empty((n, model.widest), np.float32),
    )
    given, outputs = (models, sublayers, places, rows, origins, slots, wanted), (Z, chosen, log_P)
    if threads == 1:  # others would have to be waited for, if only to learn that they have nothing to do
        walk(given, 1, team.ctypes.data, shared, outputs)
    else:
        for _ in prange(threads):
            walk(given, threads, team.ctypes.data, shared, outputs)


@compiled
def walk(given, threads, team, shared, outputs):  # type: ignore[no-untyped-def]
    """What one thread does of a step, or of several."""
    apart()
    rows, (Z, chosen, log_P) = given[3], outputs
    steps = chosen.shape[0]
    me = join(team, threads, rows.shape[0] * max(1, steps))
    if me[SIZE] == 0:
        return
    read(given, me, shared, Z)
    for i in range(steps):
        meet(me)
        first, last = share(len(rows), 1, me)
        for r in range(first, last):
            choose(Z[r], rows[r], chosen[i, r : r + 1], log_P[i, r : r + 1])
        if i + 1 < steps:
            meet(me)
            read(given, me, shared, Z)


@in_order
def choose(z, row, chosen, log_P):  # type: ignore[no-untyped-def]
    """The likeliest token after logits, and its log P: NaN if a logit is; it becomes the row's next token."""
    chosen[0] = 0
    whole = best_of_row(z, chosen, log_P)
    log_P[0] -= whole
    row[TOKEN], row[AT] = chosen[0], row[AT] + 1


@compiled
def read(given, me, shared, Z):  # type: ignore[no-untyped-def]
    """What one thread does of a pass: it has a stream X (b, d) of its own, and what it writes to `shared` all see.

    What a sublayer adds to the stream is complete when all have met; then each thread adds it to its own stream.
    """
    apart()
    models, sublayers, places, rows, origins, slots, wanted = given
    model, U = models[0], shared[0]
    divide(me, len(rows))
    first, last = own_rows(me)
    X, Y = np.empty(U.shape, np.float32), np.empty(U.shape, np.float32)
    Z16, t = np.empty((len(X), (model.widest + 3) // 4 * 4), np.int16), np.empty(len(X), np.float32)
    embed(model, rows, first, last, X)
    if model.has_first:
        normalise(model.norm, X, first, last, model.gamma_first, model.beta_first, model.epsilon, X)
    for i in range(sublayers.shape[0]):
        part = sublayers[i]
        before = 0 if model.placement == POST else model.norm
        normalise(before, X, first, last, part.gamma, part.beta, model.epsilon, Y)
        if part.kind == FEEDFORWARD:
            feed_forward(model, part, me, Y, Z16, t, shared)
        else:
            look(model, part, places[i], rows, origins, slots, me, Y, Z16, t, shared)
        meet(me)
        added = U
        if model.placement == BOTH:
            normalise(model.norm, U, first, last, part.gamma_after, part.beta_after, model.epsilon, Y)
            added = Y
        for r in range(first, last):
            for j in range(X.shape[1]):
                X[r, j] += added[r, j]
        if model.placement == POST:
            normalise(model.norm, X, first, last, part.gamma, part.beta, model.epsilon, X)
    read_out(model, wanted, me, X, Z16, t, shared, Z)


@compiled
def product(W, s, b, n, me, X, Z16, t, Y):  # type: ignore[no-untyped-def]
    """This thread's share of Y = X Wᵀ + b for the matrix at address W: int8 if there are scales at address s."""
    apart()
    if s == 0:
        multiply(W, X, b, n, me, Y)
    else:
        multiply_int8(W, s, Z16, t, b, n, me, Y)


@compiled
def squeezed(s, X, me, Z16, t):  # type: ignore[no-untyped-def]
    """Rounded rows X for the product with a matrix that has scales at address s; nothing otherwise."""
    k = (X.shape[1] + 3) // 4 * 4
    Z = Z16.reshape(-1)[: X.shape[0] * k].reshape((X.shape[0], k))
    if s:
        first, last = own_rows(me)
        squeeze(X, first, last, Z, t)
    return Z


@compiled
def narrow(X, width):  # type: ignore[no-untyped-def]
    """The same memory as a matrix of so many columns."""
    return X.reshape(-1)[: X.shape[0] * width].reshape((X.shape[0], width))


@compiled
def embed(model, rows, first, last, X):  # type: ignore[no-untyped-def]
    """x = E t, times the scale, + P p where positions are added."""
    apart()
    d = X.shape[1]
    for r in range(first, last):
        token, at = rows[r, TOKEN], rows[r, AT]
        E = floats(model.E, token + 1, d)[token]
        for j in range(d):
            X[r, j] = E[j] * model.scale
        if model.P:
            P = floats(model.P, at + 1, d)[at]
            for j in range(d):
                X[r, j] += P[j]


@compiled
def feed_forward(model, part, me, X, Z16, t, shared):  # type: ignore[no-untyped-def]
    """W_2 f(W_1 x + b_1) + b_2, or W_2 (f(W_g x) ∘ W_1 x)."""
    apart()
    n = part.inner
    H, G = narrow(shared[1], n), narrow(shared[2], n)
    first, last = own_rows(me)
    begin, end = own_columns(n, UNIT, me)
    Z = squeezed(part.s_in, X, me, Z16, t)
    product(part.W_in, part.s_in, part.b_in, n, me, X, Z, t, H)
    if model.is_gated:
        product(part.W_gate, part.s_gate, part.b_gate, n, me, X, Z, t, G)
    for r in range(first, last):
        if model.is_gated:
            activate(model.activation, G[r, begin:end])
            for j in range(begin, end):
                H[r, j] *= G[r, j]
        else:
            activate(model.activation, H[r, begin:end])
    meet(me)
    Z = squeezed(part.s_out, H, me, Z16, t)
    product(part.W_out, part.s_out, part.b_out, X.shape[1], me, H, Z, t, shared[0])


@compiled
def look(model, part, place, rows, origins, slots, me, X, Z16, t, shared):  # type: ignore[no-untyped-def]
    """softmax(Q Kᵀ) V over the cache, with the new tokens in it, or over the source; joined by W_o."""
    apart()
    Q, H = narrow(shared[1], part.width), narrow(shared[2], part.inner)
    if part.h:
        Z = squeezed(part.s_in, X, me, Z16, t)
        product(part.W_in, part.s_in, part.b_in, part.width, me, X, Z, t, Q)
        meet(me)
        first, last = share(len(rows), 1, me)
        for r in range(first, last):
            if model.has_relu:
                activate(0, Q[r])
            turn(model, part, rows[r, AT], Q[r])
            if part.kind != CROSS:
                keep(part, place, rows[r, TEXT], rows[r, AT] % slots, Q[r])
        meet(me)
        first, last = share(part.h * len(rows), 1, me)
        in_Q, in_H, A = Q.ctypes.data, H.ctypes.data, np.empty(with_company(model.longest), np.float32)
        to, spot = find(part, place, rows, origins, slots, model.longest)
        in_K, in_V = to[0].ctypes.data, to[1].ctypes.data
        for pair in range(first, last):
            c, r = divmod(pair, len(rows))
            own, at, m = 8 * spot[r] * to.shape[2], rows[r, AT], seen(part, rows[r], slots)
            next_c, next_r = divmod(min(pair + 1, last - 1), len(rows))
            if c != next_c or spot[r] != spot[next_r]:
                other, soon = 8 * spot[next_r] * to.shape[2], min(NEXT, seen(part, rows[next_r], slots))
                ask_for_keys(part, place, next_c, soon, in_K + other, in_V + other)
            q, y = in_Q + 4 * (r * part.width + c * part.d_k), in_H + 4 * (r * part.inner + c * part.d_v)
            attend(part, place, c, at, m, slots, q, in_K + own, in_V + own, A.ctypes.data, y)
        meet(me)
    Z = squeezed(part.s_out, H, me, Z16, t)
    product(part.W_out, part.s_out, part.b_out, X.shape[1], me, H, Z, t, shared[0])


@in_order
def turn(model, part, at, Q):  # type: ignore[no-untyped-def]
    """Norms queries and keys by head, and turns each pair (x_i, x_{i + d_k/2}) to its position."""
    apart()
    heads = part.h if part.kind == CROSS else part.h + part.g
    d_k, half = part.d_k, part.d_k // 2
    for c in range(heads):
        x = Q[c * d_k : (c + 1) * d_k]
        if part.norm_q:
            g = floats(part.norm_q if c < part.h else part.norm_k, 1, d_k)[0]
            square = sum_of_squares(x.ctypes.data, d_k, F(0))
            up = F(1) / np.sqrt(square / F(d_k) + model.epsilon_heads)
            for i in range(d_k):
                x[i] *= up * g[i]
        if model.cos and part.kind != CROSS:
            cos, sin = floats(model.cos, at + 1, half)[at], floats(model.sin, at + 1, half)[at]
            for i in range(half):
                u, v = x[i], x[i + half]
                x[i] = u * cos[i] - v * sin[i]
                x[i + half] = v * cos[i] + u * sin[i]


@compiled
def keep(part, place, text, slot, x):  # type: ignore[no-untyped-def]
    """Writes the new key and value of a row, which follow its queries, into their slot of the cache."""
    apart()
    first = part.h * part.d_k
    for c in range(part.g):
        to = text * place.K_steps[0] + c * place.K_steps[1] + slot * place.K_steps[2]
        K = floats(place.K + 4 * to, 1, part.d_k)[0]
        for i in range(part.d_k):
            K[i] = x[first + i]
        first += part.d_k
    for c in range(part.g):
        to = text * place.V_steps[0] + c * place.V_steps[1] + slot * place.V_steps[2]
        V = floats(place.V + 4 * to, 1, part.d_v)[0]
        for i in range(part.d_v):
            V[i] = x[first + i]
        first += part.d_v


@compiled
def read_out(model, wanted, me, X, Z16, t, shared, Z):  # type: ignore[no-untyped-def]
    """z = E x for a tied head, W x for an own one, with its scale and soft cap: for the rows that are asked for."""
    apart()
    first, last = own_rows(me)
    normalise(
        model.norm if model.has_last else 0,
        X,
        first,
        last,
        model.gamma_last,
        model.beta_last,
        model.epsilon,
        X,
    )
    asked = narrow(shared[1], model.d)[: len(wanted)]
    if me[BY_ROWS] or me[NUMBER] == 0:
        for w in range(len(wanted)):
            if first <= wanted[w] < last:
                for j in range(model.d):
                    asked[w, j] = X[wanted[w], j] * model.head_scale
    divide(me, len(wanted))
    meet(me)
    Z_in = squeezed(model.s_head, asked, me, Z16, t)
    product(model.W_head, model.s_head, model.b_head, model.vocabulary, me, asked, Z_in, t, Z)
    if model.soft_cap:
        first, last = own_rows(me)
        begin, end = own_columns(model.vocabulary, UNIT, me)
        for r in range(first, last):
            for j in range(begin, end):
                Z[r, j] = model.soft_cap * np.tanh(Z[r, j] / model.soft_cap)


SUBLAYER_KINDS = {"self": SELF, "around": AROUND, "cross": CROSS, "ffn": FEEDFORWARD}
NORM_KINDS = {"none": 0, "layer": LAYER, "rms": RMS}
PLACEMENT_KINDS = {"pre": PRE, "post": POST, "both": BOTH}


def number_of(activation: Callable[..., Any]) -> int:
    """The number by which the kernels know an activation."""
    return ACTIVATIONS.index(activation.__name__)
