"""What a model predicts: logits enter, probabilities and the likeliest tokens or classes leave."""

from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from clearhead.errors import InputError
from clearhead.inspection.passes import Pass
from clearhead.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prediction:
    """A token or a class, and its probability."""

    id: int
    text: str
    p: float


@dataclass(frozen=True)
class TokenLoss:
    """The token that truly follows a position, its probability there, and −ln of it."""

    position: int
    id: int
    text: str
    p: float
    loss: float


@dataclass(frozen=True)
class TextLoss:
    """The loss of every token that follows another, and their mean in nats, which training makes small (N33)."""

    tokens: list[TokenLoss]
    mean: float | None  # None if nothing follows


def probabilities(captured: Pass, z: Tensor) -> Tensor:
    """The probabilities of rows of logits, in double: of one choice, or of each label by itself if several may fit."""
    several = captured.module.config.labels == "several"
    return torch.sigmoid(z.double()) if several else torch.softmax(z.double(), -1)


def check_position(captured: Pass, stack: str, position: int) -> None:
    """Rejects a position that has no token."""
    n = len(captured.ids[stack])
    if not -n <= position < n:
        raise InputError(f"{stack} has {n} tokens, so there is no token {position}.")


def predictions(captured: Pass, position: int = -1) -> list[Prediction]:
    """Every class, or the likeliest tokens after a position; nothing of a model without a head."""
    if captured.module.config.head == "none":
        return []
    check_position(captured, captured.top, position)
    return likeliest_of(captured, probabilities(captured, captured.trace.row(position)), 10)


def calibrated_predictions(captured: Pass) -> list[Prediction]:
    """Every class with its calibrated probability, as `classify` gives it; nothing without classes."""
    if captured.module.config.head != "classifier":
        return []
    z = captured.trace.row(-1).double()
    return likeliest_of(captured, probabilities(captured, z / captured.inspector.reader.temperature), len(z))


def text_loss(captured: Pass) -> TextLoss:
    """How surprised the model is by each true next token; a translation is followed by its end token."""
    module, stack = captured.module, captured.top
    if module.config.head != "language" or stack != "decoder":
        raise InputError("This model predicts no next token, so a text has no loss.")
    tokenizer, tokens = captured.inspector.tokenizer(stack), captured.tokens[stack]
    after = [(token.id, token.text) for token in tokens[1:]]
    if module.translates:
        after += [(id, tokenizer.piece(id)) for id in captured.inspector.generator.frame.after[:1]]
    rows = []
    for part in captured.trace.logit_parts():
        Z = captured.trace.logits(part)[0]
        for position, (id, text) in enumerate(after[part], part.start):
            log_p = float(torch.log_softmax(Z[position - part.start].double(), -1)[id])
            rows.append(TokenLoss(position, id, text, exp(log_p), -log_p))
    return TextLoss(rows, sum(row.loss for row in rows) / len(rows) if rows else None)


def likeliest_of(captured: Pass, P: Tensor, count: int) -> list[Prediction]:
    """Every class in the order of the labels, or the likeliest tokens, of a distribution P."""
    if captured.module.config.head == "classifier":
        labels = captured.inspector.reader.labels
        return [Prediction(i, label, float(P[i])) for i, label in enumerate(labels)]
    return likeliest_tokens(captured.inspector.tokenizer(captured.top), P, count)


def likeliest_tokens(tokenizer: Tokenizer, P: Tensor, count: int) -> list[Prediction]:
    """The likeliest tokens of a distribution over the vocabulary."""
    values, ids = P.topk(min(count, len(P)))
    pairs = zip(ids.tolist(), values.tolist(), strict=True)
    return [Prediction(id, tokenizer.piece(id), p) for id, p in pairs]
