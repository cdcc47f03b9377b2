"""Rounding to int8 with the errors made up for: a model and texts enter; it leaves with weights rounded for such texts.

A matrix W is only asked for W x, and its inputs x are not equally likely. So its numbers are not each rounded to the
nearest one, but column by column, and the columns still to come make up for the errors so far (GPTQ; Frantar et al.,
2023):

    Ŵ ≈ arg min Σ ‖(W − Ŵ) x‖² = tr (W − Ŵ) H (W − Ŵ)ᵀ     H = mean x xᵀ     H⁻¹ = Uᵀ U

    for each column j:   ŵ_j = s round(w_j / s)   e = (w_j − ŵ_j) / U_jj   w_i ← w_i − e U_ji for every i > j

The scales s are those of `int8`: a number of ±127 stays, so that each is found again in the rounded weights.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from clearhead.models.heads import LanguageHead, Product
from clearhead.models.inputs import Inputs
from clearhead.models.int8 import LARGEST, from_int8, matrices, to_int8
from clearhead.models.model import Model

DAMPING = 0.01  # of the mean of H's diagonal is added to it, for directions that the texts hardly show
LOOKED_UP = 0.1  # the same for a table that is also looked up, where all its columns count alike
WIDEST = 4096  # inputs of a matrix; a wider one is rounded to the nearest, since H takes the square of it
ROWS, COLUMNS = 4096, 64  # that are rounded at once
BATCH = 2048  # tokens read at once

Show = Callable[[str, str], None]  # what is being done, and how far it is


@torch.no_grad()
def round_for_texts(model: Model, texts: Tensor, show: Show = lambda stage, detail: None) -> None:
    """Rounds all weights to int8; those that multiply something, for what they multiply in texts (b, n)."""
    moments = second_moments(model, texts, show)
    weights, tables = dict(model.named_parameters()), {id(table.weight) for table in tables_of(model)}
    names = sorted(matrices(model))
    for i, name in enumerate(names):
        show("Rounding", f"{i:,} of {len(names):,} matrices")
        W, H = weights[name], moments.pop(name, None)
        if H is None or not bool(H.isfinite().all()) or not bool(H.any()):
            W.copy_(from_int8(*to_int8(W)))
        else:
            W.copy_(from_int8(*compensated(W, damped(H, LOOKED_UP if id(W) in tables else DAMPING))))


def tables_of(model: Model) -> Iterator[nn.Embedding]:
    """The tables that are looked up."""
    return (part for part in model.modules() if isinstance(part, nn.Embedding))


def damped(H: Tensor, share: float) -> Tensor:
    """H + share · mean(diag H) I."""
    return H + share * H.diagonal().mean() * torch.eye(len(H))


def compensated(W: Tensor, H: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers q (n, k) and scales s (n) of a matrix whose inputs have the second moments H (k, k)."""
    q, s = to_int8(W)
    order = H.diagonal().argsort(descending=True, stable=True)  # what counts most has most others after it
    H = H[order][:, order].double()
    U = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(H)), upper=True).float()
    for first in range(0, len(W), ROWS):
        rows = slice(first, first + ROWS)
        q[rows, order] = compensate(W[rows, order].float(), q[rows, order], s[rows, None], U)
    return q, s


def compensate(W: Tensor, nearest: Tensor, s: Tensor, U: Tensor) -> Tensor:
    """The numbers of some rows W, changed in place, whose nearest ones and scales are given."""
    q = nearest.clone()
    for first in range(0, W.shape[1], COLUMNS):
        block = slice(first, first + COLUMNS)
        w, u, e = W[:, block], U[block, block], torch.empty_like(W[:, block])
        for j in range(w.shape[1]):
            is_free = (nearest[:, first + j].abs() < LARGEST) & (s[:, 0] > 0)
            rounded = (w[:, j] / s[:, 0]).round().clamp(-LARGEST, LARGEST).to(torch.int8)
            q[:, first + j] = torch.where(is_free, rounded, nearest[:, first + j])
            e[:, j] = (w[:, j] - s[:, 0] * q[:, first + j]) / u[j, j]
            w[:, j + 1 :] -= e[:, j, None] * u[j, j + 1 :]
        W[:, block.stop :] -= e @ U[block, block.stop :]  # the other columns, once for the whole block
    return q


def second_moments(model: Model, texts: Tensor, show: Show) -> dict[str, Tensor]:
    """H = mean x xᵀ of the inputs of each matrix that multiplies something in texts (b, n), by its name."""
    names = {id(weight): name for name, weight in model.named_parameters()}
    moments: dict[str, Tensor] = {}
    rows = max(1, BATCH // texts.shape[1])
    with listening(model, lambda W, H: add(moments, names[id(W)], H / texts.numel())):
        for first in range(0, len(texts), rows):
            show("Reading them", f"{first:,} of {len(texts):,}")
            model(Inputs(texts[first : first + rows]))
    return moments


def add(sums: dict[str, Tensor], name: str, H: Tensor) -> None:
    """Adds to a sum, in place if it exists."""
    if name in sums:
        sums[name] += H
    else:
        sums[name] = H.clone()


@contextmanager
def listening(model: Model, hear: Callable[[Tensor, Tensor], None]) -> Iterator[None]:
    """Calls `hear` with W and Σ x xᵀ of every product W x inside; matrices of the same inputs share one sum."""
    last: list[Tensor] = [torch.empty(0), torch.empty(0)]  # inputs, and their sum

    def listen(W: Tensor, X: Tensor) -> None:
        if X.shape[-1] > WIDEST:
            return
        if X is not last[0]:
            flat = X.flatten(0, -2)
            last[:] = [X, flat.T @ flat]
        hear(W, last[1])

    def before(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        assert isinstance(layer, nn.Linear)
        listen(layer.weight, given[0])

    layers = [part for part in model.modules() if isinstance(part, nn.Linear)]
    handles = [layer.register_forward_pre_hook(before) for layer in layers]
    heads = [part for part in model.modules() if isinstance(part, LanguageHead)]
    own = [head.product for head in heads]  # a head multiplies by a table without calling it
    for head, product in zip(heads, own, strict=True):

        def heard(X: Tensor, W: Tensor, b: Tensor | None, product: Product = product) -> Tensor:
            listen(W, X)
            return product(X, W, b)

        head.product = heard
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for head, product in zip(heads, own, strict=True):
            head.product = product
