"""What the loop reports: a record of some steps, and one of each evaluation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepRecord:
    """Some steps: their mean loss per prediction, and how fast they were."""

    step: int  # steps done
    epoch: float
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    seconds: float  # of training so far, without evaluations
    waiting: float  # share of the time in which the model waited for data
    skipped: int  # steps skipped so far for a non-finite loss or gradient
    busy_cores: float | None = None  # cores that other programs used, where it is known


@dataclass(frozen=True)
class EvaluationRecord:
    """How good the model is on the validation data after some steps."""

    step: int
    validation_loss: float
    predictions: int
    accuracy: float
    is_best: bool


Record = StepRecord | EvaluationRecord
