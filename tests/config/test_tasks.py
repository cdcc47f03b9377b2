"""Laws of the table of tasks: every row is complete and agrees with itself."""

from typing import get_args

import pytest

from clearhead.config.labels import LABELS, LabelKind
from clearhead.config.model_base import Shape
from clearhead.config.tasks import TASKS, ExampleKind, Objective, Task, TaskRow
from clearhead.examples import Kind


def test_every_task_has_a_row_and_every_objective_a_task() -> None:
    assert list(TASKS) == list(get_args(Task))
    assert get_args(ExampleKind) == get_args(Kind)  # examples imports no config, and config no examples
    found = {row.labelling(labels, 1).objective for row in TASKS.values() for labels in LABELS}
    assert found == set(get_args(Objective))
    assert list(LABELS) == list(get_args(LabelKind))


@pytest.mark.parametrize("row", TASKS.values(), ids=TASKS)
def test_a_model_that_does_a_task_can_be_trained_further_on_it(row: TaskRow) -> None:
    assert set(row.shapes) <= set(row.starts_from)
    assert {*row.starts_from, *row.cannot_start_from} == set(get_args(Shape))


@pytest.mark.parametrize(
    ("task", "slug", "command"),
    [
        ("language-model", "language-model", 'clearhead generate runs/a "Once upon a time"'),
        (
            "masked-language-model",
            "masked-language-model",
            "clearhead train classify FILE --training.init_from runs/a/best",
        ),
        ("translate", "translator", 'clearhead translate runs/a "A sentence."'),
        ("classify", "classifier", 'clearhead classify runs/a "A text."'),
    ],
)
def test_a_row_names_runs_and_what_comes_next(task: Task, slug: str, command: str) -> None:
    assert TASKS[task].slug == slug
    assert TASKS[task].next_command("runs/a") == command
