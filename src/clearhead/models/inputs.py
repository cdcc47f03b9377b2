"""The border of every model: what enters is checked here, so that nothing fails inside a kernel."""

import torch
from torch import Tensor

from clearhead.errors import InputError

WHOLE_NUMBERS = (torch.int64, torch.int32)  # what an embedding takes


def check_tokens(tokens: Tensor, vocabulary: int, d: int, what: str = "tokens") -> None:
    """Ids (b, n) within the vocabulary, or finite vectors (b, n, d) in their place."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(tokens, Tensor):
        raise InputError(
            f"{what} are a {type(tokens).__name__}, but a model takes a tensor (b, n) of ids.\n"
            "Give torch.tensor([ids]) for a single sequence."
        )
    if tokens.is_floating_point():
        check_vectors(tokens, d, what)
        return
    if tokens.ndim != 2 or tokens.dtype not in WHOLE_NUMBERS:
        raise InputError(
            f"{what} have shape {tuple(tokens.shape)} and type {tokens.dtype}, but ids are whole numbers "
            "(b, n) of type int64.\nGive one row for each sequence; for a single one use ids[None]."
        )
    check_not_empty(tokens, what)
    low, high = (int(value) for value in torch.aminmax(tokens))
    if low < 0 or high >= vocabulary:
        raise InputError(
            f"{what} hold the id {low if low < 0 else high}, but the vocabulary has ids 0 to "
            f"{vocabulary - 1}.\nEncode the text with this model's own tokenizer."
        )


def check_vectors(X: Tensor, d: int, what: str) -> None:
    """Finite vectors (b, n, d)."""
    if X.ndim != 3 or X.shape[-1] != d:
        raise InputError(
            f"{what} are vectors of shape {tuple(X.shape)}, but this model takes (b, n, {d}).\n"
            "Give one row for each sequence, and vectors as wide as the model."
        )
    check_not_empty(X, what)
    if not bool(X.isfinite().all()):
        place = tuple((~X.isfinite()).nonzero()[0].tolist())
        raise InputError(f"{what} hold {X[place].item()} at {place}.\nGive finite numbers.")


def check_not_empty(X: Tensor, what: str) -> None:
    """At least one sequence of at least one token."""
    if 0 in X.shape[:2]:
        raise InputError(
            f"{what} have shape {tuple(X.shape)}: an empty sequence says nothing.\n"
            "Give at least one token, such as the beginning-of-sequence token."
        )


def check_counts(counts: Tensor | None, tokens: Tensor, least: int = 1, what: str = "counts") -> None:
    """(b,) whole numbers from `least` to n."""
    if counts is None or torch.compiler.is_compiling():
        return
    b, n = tokens.shape[:2]
    if counts.shape != (b,) or counts.dtype not in WHOLE_NUMBERS:
        raise InputError(
            f"{what} have shape {tuple(counts.shape)} and type {counts.dtype}, but tokens are ({b}, {n}).\n"
            f"Give {b} whole numbers: how many tokens of each row are real."
        )
    low, high = (int(value) for value in torch.aminmax(counts))
    if low < least or high > n:
        raise InputError(
            f"{what} hold {low if low < least else high}, but each row has {least} to {n} real tokens.\n"
            "Padding stands on the right; leave empty sequences out."
        )


def check_length(n: int, context: int | None, what: str = "tokens") -> None:
    """No more than the context."""
    if context is not None and n > context:
        raise InputError(
            f"{what}: a sequence of {n} tokens is longer than this model's context of {context}.\n"
            "Shorten the text, or split it."
        )


def check_same(given: Tensor | None, tokens: Tensor, limit: int | None, what: str) -> None:
    """A number for each token: (b, n), from 0 to limit - 1."""
    if given is None or torch.compiler.is_compiling():
        return
    if given.shape != tokens.shape[:2] or given.dtype not in WHOLE_NUMBERS:
        raise InputError(
            f"{what} have shape {tuple(given.shape)} and type {given.dtype}, but tokens are "
            f"{tuple(tokens.shape[:2])}.\nGive one whole number for each token."
        )
    if limit == 0:
        raise InputError(f"{what} were given, but this model has none.\nLeave them out.")
    if limit is not None and not (int(given.min()) >= 0 and int(given.max()) < limit):
        raise InputError(
            f"{what} must lie between 0 and {limit - 1}, but hold {int(given.min())} to {int(given.max())}."
        )
