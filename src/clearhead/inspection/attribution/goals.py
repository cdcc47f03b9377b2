"""What is explained: the logits of a pass enter, one number for each text leaves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError
from clearhead.inspection.capture import module_of
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

Metric = Callable[[Tensor], Tensor]  # logits (b, n, vocabulary) or (b, classes) -> (b,)


@dataclass(frozen=True)
class Logit:
    """The logit of a token after a position, or of a class; with `against`, how far it is above another's."""

    id: int
    against: int | None = None
    position: int = -1  # of a classifier unused

    def __call__(self, logits: Tensor) -> Tensor:
        """(b, n, vocabulary) or (b, classes) -> (b,)."""
        Z = logits if logits.ndim == 2 else logits[:, self.position_in(logits.shape[1])]
        for id in (self.id, self.against or 0):
            if not 0 <= id < Z.shape[1]:
                raise InputError(f"{id} is not an id that this model predicts; it has 0 to {Z.shape[1] - 1}.")
        z = Z[:, self.id]
        return z if self.against is None else z - Z[:, self.against]

    def position_in(self, n: int) -> int:
        """The position, counted from the start, in a text of n tokens."""
        if not -n <= self.position < n:
            raise InputError(f"The text has {n} tokens, so there is no token {self.position}.")
        return self.position % n


def transformer_of(model: Any) -> Model:
    """The module of a transformer with a head; only it has a stream to which every part adds."""
    module = module_of(model)
    if not isinstance(module, Model) or not isinstance(module.config, ModelConfig):
        raise InputError(
            "Only a transformer can be taken apart like this.\nGive one, or read its sites by capture."
        )
    if module.config.head == "none":
        raise InputError("This model has no head, so it has no logits to explain.")
    return module


def one_text(inputs: Inputs) -> Inputs:
    """The inputs of a single text, without padding."""
    if len(inputs.tokens) != 1:
        raise InputError(
            f"There are {len(inputs.tokens)} texts, but one is explained at a time.\nGive one row."
        )
    n = inputs.tokens.shape[1] if inputs.counts is None else int(inputs.counts[0])
    types = None if inputs.types is None else inputs.types[:, :n]
    source = inputs.source
    if source is not None and inputs.source_counts is not None:
        source = source[:, : int(inputs.source_counts[0])]
    return Inputs(inputs.tokens[:, :n], source=source, types=types)


def repeated(inputs: Inputs, rows: int) -> Inputs:
    """The same text in every row of a batch."""
    return Inputs(*(None if X is None else X.expand(rows, *X.shape[1:]) for X in inputs))  # type: ignore[arg-type]


def answers(module: Model, inputs: Inputs, metric: Metric) -> Tensor:
    """The metric of a pass (b,); where it reads one position, the head is spared the others."""
    config = module.config
    is_one = (
        isinstance(metric, Logit)
        and config.head == "language"
        and not getattr(config, "head_transform", False)
    )
    if not is_one:
        return metric(module(inputs))
    assert isinstance(metric, Logit)
    X = module.vectors(inputs)
    at = metric.position_in(X.shape[1])
    return Logit(metric.id, metric.against)(module.head(X[:, at : at + 1]))
