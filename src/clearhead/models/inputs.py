"""What every model is called with, and the checks at its border, so that nothing fails inside a kernel."""

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import InputError

MOST_UNLEARNED = 4096  # tokens that are read if positions have no table; memory grows with the square
WHOLE_NUMBERS = (torch.int64, torch.int32)  # what an embedding takes


class Inputs(NamedTuple):
    """One batch for any model: `model(Inputs(tokens, counts))`. A tuple, so that PyTorch's wrappers see inside."""

    tokens: Tensor  # (b, n) ids, or vectors (b, n, d) in their place; of a translator those of the target
    counts: Tensor | None = None  # (b,) real tokens of each row, the rest is padding; all if omitted
    source: Tensor | None = None  # (b, m) ids that an encoder reads for a decoder
    source_counts: Tensor | None = None  # (b,)
    documents: Tensor | None = None  # (b, n) numbers the documents packed into a row: each is read by itself
    types: Tensor | None = None  # (b, n) the segment of each token


# Why a model that does not take a field does not, and what to do instead.
NOT_TAKEN = {
    "source": "It has no encoder that reads one for a decoder.\nPut the source into the prompt.",
    "source_counts": "It reads no source.\nOmit them.",
    "documents": "Only a decoder keeps packed documents apart.\nGive each document a row of its own.",
    "types": "It has no embeddings of token types.\nOmit them.",
}


def check_fields(given: Inputs, taken: Collection[str], shape: str) -> None:
    """Rejects a call without `Inputs`, and fields that a model of this shape does not take, or lacks."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(given, Inputs):
        raise InputError(
            f"A model takes Inputs, not a {type(given).__name__}.\n"
            "Call model(Inputs(tokens)), or model(Inputs(tokens, source=source)) for a translator."
        )
    for field, reason in NOT_TAKEN.items():
        if getattr(given, field) is not None and field not in taken:
            raise InputError(f"A model of shape '{shape}' takes no {field}. {reason}")
    if given.source is None and "source" in taken:
        raise InputError(
            f"A model of shape '{shape}' needs a source.\nGive source = the ids of the source text (b, m)."
        )


def check_tokens(tokens: Tensor, vocabulary: int, d: int, what: str = "tokens") -> None:
    """Ids (b, n) within the vocabulary, or finite vectors (b, n, d) in their place."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(tokens, Tensor):
        raise InputError(
            f"{what} are a {type(tokens).__name__}, but a model reads a tensor (b, n) of ids.\n"
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
            f"{what} contain the id {low if low < 0 else high}, but the vocabulary has ids 0 to "
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
        raise InputError(f"{what} contain {X[place].item()} at {place}.\nGive finite numbers.")


def check_not_empty(X: Tensor, what: str) -> None:
    """At least one sequence of at least one token."""
    if 0 in X.shape[:2]:
        raise InputError(
            f"{what} have shape {tuple(X.shape)}: a sequence must not be empty.\n"
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
            f"{what} contain {low if low < least else high}, but each row has {least} to {n} real tokens.\n"
            "Padding goes on the right; omit empty sequences."
        )


def longest_readable(config: AnyModelConfig) -> int | None:
    """How many tokens a model can read: with a table of positions its context, otherwise more than it has learned."""
    if config.context is None or config.has_position_table:
        return config.context
    return max(config.context, MOST_UNLEARNED)


def check_length(n: int, config: AnyModelConfig, what: str = "tokens") -> None:
    """No more than the model can read."""
    longest = longest_readable(config)
    if longest is not None and n > longest:
        raise InputError(
            f"{what}: a sequence of {n} tokens is longer than this model can read: {longest} tokens "
            f"(context {config.context}).\nShorten the text, or split it."
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
        raise InputError(f"{what} were given, but this model has none.\nOmit them.")
    if limit is not None and not (int(given.min()) >= 0 and int(given.max()) < limit):
        raise InputError(
            f"{what} must be between 0 and {limit - 1}, but contain {int(given.min())} to {int(given.max())}."
        )
