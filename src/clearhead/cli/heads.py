"""`clearhead heads MODEL`: how much each head matters, and where it looks."""

import json as json_format
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.evaluate import Columns, Data, PartOfData, Recipe, choose_examples, first, labelling_of
from clearhead.cli.options import Json, ModelFolder
from clearhead.cli.stages import Stages, load_pytorch
from clearhead.errors import InputError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clearhead.config.run import RunConfig
    from clearhead.examples import Example
    from clearhead.inspection.heads.importance import Task
    from clearhead.inspection.heads.labels import LabelledText
    from clearhead.inspection.heads.table import HeadMeasure
    from clearhead.model_folder import Bundle

EXAMPLES = 256  # if omitted
COLUMNS = ("importance", "loss_without", "previous", "first", "itself", "same", "diagonal", "induction", "distance",
           "entropy")  # fmt: skip
Limit = Annotated[int, typer.Option("--limit", min=1, help="Use only the first examples.", show_default=True)]
Svg = Annotated[
    Path | None,
    typer.Option("--svg", metavar="FILE", help="Draw the importance of all heads into this file."),
]
LeaveOut = Annotated[
    bool,
    typer.Option(
        "--leave-out/--no-leave-out",
        help="Also measure the loss without each head: as many passes over the data as there are heads.",
    ),
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", help="Sort by a column, the largest first (default: the order of the model)."),
]


def heads(
    model: ModelFolder,
    data: Data = None,
    columns: Columns = None,
    recipe: Recipe = None,
    split: PartOfData = None,
    limit: Limit = EXAMPLES,
    leave_out: LeaveOut = True,
    sort: Sort = None,
    svg: Svg = None,
    json: Json = False,
) -> None:
    """Measure how much each attention head matters, and where it looks."""
    if sort is not None and sort not in COLUMNS:
        raise InputError(f"--sort {sort} is not a column. {suggest(sort, COLUMNS)}")
    load_pytorch(f"Reading {model}")
    from clearhead.inspection.heads.table import head_map, measure_heads
    from clearhead.storage import write_atomically

    bundle, tasks, _, _, examples = load_tasks(model, data, columns, recipe, split, limit)
    with Stages("Measuring heads") as stages:
        found = measure_heads(
            bundle,
            tasks,
            leave_out,
            lambda name, done: stages.show("Measuring heads", f"{name}, {done:,}"),
            labelled(bundle, examples, data or source_of(model, recipe)),
        )
    if sort is not None:
        found.sort(key=lambda one: sort_key(one.as_row()[sort]), reverse=True)
    if svg is not None:
        picture = head_map({one.name: one.importance for one in found}, f"importance of the heads of {model}")
        write_atomically(svg, picture + "\n")
    if json:
        print(json_format.dumps({"heads": [finite(one.as_row()) for one in found], "examples": limit}))
    else:
        show_heads(found)


def load_tasks(
    model: Path,
    data: list[str] | None,
    columns: list[str] | None,
    recipe: str | None,
    split: str | None,
    limit: int,
) -> "tuple[Bundle, list[Task], RunConfig | None, str, list[Example]]":
    """A model, the batches of the first examples of its data, its recipe if any, what the data are; the examples."""
    from clearhead.inspection.heads.importance import head_names, headed
    from clearhead.model_folder import load
    from clearhead.training.evaluation.tasks import TaskCollector

    bundle = load(model)
    _, settings = headed(bundle)
    if not head_names(settings):
        raise InputError(f"{model} has no attention heads: all of them were pruned.")
    collector = TaskCollector(bundle)
    config, part, reader = choose_examples(
        model, collector.kind, data, columns, recipe, split, labelling=labelling_of(collector.config)
    )
    what = f"the {part['split']} data" if part else ", ".join(data or [])
    examples = list(first(reader, limit))
    return bundle, collector.collect(iter(examples)), config, what, examples


def source_of(model: Path, recipe: str | None) -> list[str]:
    """The names of the data that a run was trained on, or of those of a recipe."""
    from clearhead.cli.evaluate import recipe_of
    from clearhead.config.run import RunConfig

    own = recipe_of(model) if recipe is None else recipe
    train = None if own is None else RunConfig.read(own).data.train
    return [train] if isinstance(train, str) else []


def labelled(bundle: "Bundle", examples: "list[Example]", names: list[str]) -> "Iterable[LabelledText]":
    """The examples with the labels of the built-in corpus that they are of, if it has any."""
    from clearhead.corpora import CORPORA
    from clearhead.inspection.heads.labels import labelled_texts

    known = [CORPORA.get(name.removeprefix("builtin:")) for name in names if name.startswith("builtin:")]
    if len(known) != 1 or known[0] is None or known[0].word_labels is None:
        return ()
    return labelled_texts(bundle, examples, known[0].word_labels)


def sort_key(value: float | None) -> float:
    """A number to sort by; heads that have none come last."""
    return float("-inf") if value is None else value


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """A row that JSON can represent."""
    return {
        key: None if isinstance(value, float) and not isfinite(value) else value for key, value in row.items()
    }


def show_heads(found: "list[HeadMeasure]") -> None:
    """Prints a row for each head, without columns that are empty."""
    from clearhead.inspection.heads.labels import EVEN

    rows = [one.as_row() for one in found]
    labels = dict.fromkeys(label for one in found for label in one.labels if not label.endswith(EVEN))
    shown = [column for column in (*COLUMNS, *labels) if any(row.get(column) is not None for row in rows)]
    width = max(len(row["name"]) for row in rows)
    print(
        f"{'head':{width}} " + " ".join(f"{column.replace('_', ' '):>12}" for column in shown) + "  looks at"
    )
    for row in rows:
        cells = (" " * 11 + "-" if row.get(column) is None else f"{row[column]:12.4f}" for column in shown)
        print(f"{row['name']:{width}} {' '.join(cells)}  {row['does']}".rstrip())
