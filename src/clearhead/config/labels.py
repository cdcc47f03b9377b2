"""What a classifier labels, one row each: a whole text once, a whole text as often as fits, or each word of it.

`data.labels` names the row for a run; a trained model keeps it as `model.labels`. Functions that need PyTorch or data
are in tables of their own, with the objective of the row as their key.
"""

from dataclasses import dataclass
from typing import Literal

LabelKind = Literal["one", "several", "each-word"]
# What a classifier predicts: the class of a text, for each label whether it fits, or the class of each word.
LabelObjective = Literal["label", "labels", "tags"]


@dataclass(frozen=True)
class LabelRow:
    """What is particular to one way of labelling."""

    noun: str  # the model that is trained
    objective: LabelObjective
    score: str  # by which models are compared
    answers: str  # what its answers are, in a message
    limits: str  # the sentence of the model card


LABELS: dict[LabelKind, LabelRow] = {
    "one": LabelRow(
        noun="a classifier",
        objective="label",
        score="accuracy",
        answers="one label for each text",
        limits="It knows only the labels above: a text that fits none of them still gets one of them.",
    ),
    "several": LabelRow(
        noun="a classifier",
        objective="labels",
        score="micro_f1",
        answers="for each text the labels that fit",
        limits="It knows only the labels above, and answers for each of them by itself whether it fits.",
    ),
    "each-word": LabelRow(
        noun="a tagger",
        objective="tags",
        score="accuracy",
        answers="one label for each word",
        limits="It knows only the labels above, and splits words at spaces.",
    ),
}
