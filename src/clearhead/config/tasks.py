"""The tasks, one row each: a task's name enters, everything that other folders need to know about it leaves.

Functions that need PyTorch or data (batches, samples) are in tables of their own, with the objective as their key. So
a new task is a row here and, if its objective is new as well, an entry in each of those tables.
"""

import shlex
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

from clearhead.config.data import TooLong
from clearhead.config.labels import LABELS, LabelKind, LabelObjective
from clearhead.config.model_base import Shape

Task = Literal["language-model", "masked-language-model", "translate", "classify"]
ExampleKind = Literal["text", "pair", "labelled"]
# What is predicted: each token from those before it, hidden tokens, a text from another one, or labels.
Objective = Literal["next", "masked", "target", LabelObjective]


@dataclass(frozen=True)
class TaskRow:
    """What is particular to one task."""

    noun: str  # the model that is trained
    kind: ExampleKind  # what it learns from
    objective: Objective
    shapes: tuple[Shape, ...]  # of models that can do it; the first is the default
    cannot_start_from: dict[Shape, str]  # the reason, for each shape of model that it cannot fine-tune
    too_long: (
        TooLong | None
    )  # the default for examples longer than the context; None: documents form one stream
    verb: str | None  # the command and the method that use the model, if any
    input: str  # an example of what they are given
    limits: str  # the sentence of the model card

    @property
    def starts_from(self) -> tuple[Shape, ...]:
        """The shapes of models that it can fine-tune."""
        return tuple(shape for shape in get_args(Shape) if shape not in self.cannot_start_from)

    @property
    def slug(self) -> str:
        """The noun as a part of a folder's name: masked-language-model."""
        return self.noun.partition(" ")[2].replace(" ", "-")

    def labelling(self, labels: LabelKind, texts: int) -> Self:
        """The same task for other labels, and for examples of so many texts."""
        if self.kind != "labelled" or (labels == "one" and texts == 1):
            return self
        row = LABELS[labels]
        given = "A text.\tAnother text." if texts == 2 else self.input
        return replace(self, noun=row.noun, objective=row.objective, input=given, limits=row.limits)

    def next_command(self, out: object) -> str:
        """The command to try first on a trained model."""
        if self.verb is None:
            return f"clearhead train classify FILE --training.init_from {shlex.quote(f'{out}/best')}"
        given = f'"{self.input}"'
        if "\t" in given:  # which a shell writes so
            given = "$'{}'".format(self.input.replace("\t", "\\t"))
        return f"clearhead {self.verb} {shlex.quote(str(out))} {given}"


TASKS: dict[Task, TaskRow] = {
    "language-model": TaskRow(
        noun="a language model",
        kind="text",
        objective="next",
        shapes=("decoder",),
        cannot_start_from={
            "encoder": "each of its tokens sees those after it, so it cannot learn to predict them",
            "encoder-decoder": "its decoder has learned to write what a source says",
        },
        too_long=None,
        verb="generate",
        input="Once upon a time",
        limits="It imitates its training data; what it writes need not be true.",
    ),
    "masked-language-model": TaskRow(
        noun="a masked language model",
        kind="text",
        objective="masked",
        shapes=("encoder",),
        cannot_start_from={
            "decoder": "none of its tokens sees those after it, which filling gaps needs",
        },
        too_long="split",
        verb=None,
        input="",
        limits="It fills gaps in texts like those of its training data; fine-tune it for other tasks.",
    ),
    "translate": TaskRow(
        noun="a translator",
        kind="pair",
        objective="target",
        shapes=("encoder-decoder",),
        cannot_start_from={
            "decoder": "it has no encoder to read a source with",
            "encoder": "it has no decoder to write with",
        },
        too_long="drop",
        verb="translate",
        input="A sentence.",
        limits="Words and constructions missing from its training data are translated badly, without any warning.",
    ),
    "classify": TaskRow(
        noun="a classifier",
        kind="labelled",
        objective="label",
        shapes=("encoder", "decoder"),
        cannot_start_from={},
        too_long="truncate",
        verb="classify",
        input="A text.",
        limits=LABELS["one"].limits,
    ),
}
