"""A recipe that fits data and machine: a task and files enter; a recipe leaves, and a reason for each choice."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.config.data import DataConfig, anchor
from clearhead.config.effects import check_effects
from clearhead.config.run import RunConfig
from clearhead.config.tasks import TASKS, Task
from clearhead.errors import ConfigError, DataError
from clearhead.training.recipes.choices import Choices
from clearhead.training.recipes.columns import guess_columns
from clearhead.training.recipes.data_sample import DataSample, sample_data, texts_of
from clearhead.training.recipes.held_out import choose_held_out
from clearhead.training.recipes.labelling import choose_labelling
from clearhead.training.recipes.machine import Machine
from clearhead.training.recipes.sizing import Sizing
from clearhead.training.recipes.tokens import choose_tokenizer

MINUTES = 10.0


def recipe_for(
    task: Task, files: Sequence[str], minutes: float | None = None, overrides: Mapping[str, str] | None = None
) -> tuple[RunConfig, list[str]]:
    """A recipe for a task on some files, and its reasons; overrides such as `model.d` are kept."""
    stated = overrides or {}
    check_unnamed(task, files, stated)
    choices = Choices(RunConfig.overridden({}, stated))
    choices.table.setdefault("data", {})["train"] = source_of(task, files)
    kind = TASKS[task].kind
    if kind == "labelled":
        choose_labelling(choices)
    if choices.get("data.columns") is None and choices.get("data.labels") in (None, "one"):
        data = DataConfig(**choices.table["data"])
        if guess := guess_columns(data.train, kind, data):
            choices.choose(guess[1], data__columns=guess[0])
    sample = sample_data(DataConfig(**choices.table["data"]), kind)
    if kind == "labelled":
        check_labels(sample)
    choose_held_out(choices, kind, sample)
    asked = minutes or choices.get("training.minutes") or MINUTES
    settings = (choices.get(f"training.{key}") for key in ("device", "threads", "precision"))
    machine = Machine.here(asked, *settings)
    is_new = choices.get("training.init_from") is None  # another model brings its tokenizer
    packing = choose_tokenizer(choices, kind, sample) if is_new else 1.0
    Sizing(choices, task, sample, machine, packing).choose()
    run = RunConfig.model_validate({"task": task} | choices.table)
    check_effects(run, stated)
    return run, choices.reasons


def check_unnamed(task: Task, files: Sequence[str], overrides: Mapping[str, str]) -> None:
    """Rejects overrides that name again what comes before them: the task, and the files to learn from."""
    for name, before in (("task", task), ("data.train", " ".join(map(shlex.quote, files)))):
        if name in overrides:
            raise ConfigError(
                f"--{name} {overrides[name]} has no effect: the command already says {before}.\n"
                "Name it once: clearhead train TASK FILES..."
            )


def source_of(task: Task, files: Sequence[str]) -> Any:
    """The files as the source of a recipe; `positive=good.txt negative=bad.txt` are labels and their files."""
    is_named = ["=" in file and not Path(file).exists() for file in files]
    if TASKS[task].kind == "labelled" and all(is_named):
        table: dict[str, list[str]] = {}
        for label, _, file in (file.partition("=") for file in files):
            table.setdefault(label, []).append(file)
        return anchor(table, Path.cwd())
    return anchor(files[0] if len(files) == 1 else list(files), Path.cwd())


def check_labels(sample: DataSample) -> None:
    """Rejects labels that cannot be learned."""
    labels = sample.labels
    first = sample.examples[0]
    if len(labels) > 1 and len({texts_of(example) for example in sample.examples}) == 1:
        raise DataError(
            f"All {len(sample.examples):,} texts are equal, so no label can be learned from them. "
            f"The text: {texts_of(first)[0][:60]!r}.\n"
            "Name the columns of text and label: --data.columns TEXT,LABEL."
        )
    if not labels:
        raise DataError(
            f"None of {len(sample.examples):,} examples has a label; a classifier needs two.\n"
            "Name the columns of text and label: --data.columns TEXT,LABEL."
        )
    if len(labels) < 2:
        raise DataError(
            f"All {len(sample.examples):,} examples have the label {next(iter(labels))!r}; a classifier needs two.\n"
            "Add examples with other labels, or name the columns of text and label: --data.columns TEXT,LABEL."
        )
    if len(labels) > 20 and len(labels) > len(sample.examples) / 2:
        raise DataError(
            f"There are {len(labels):,} different labels for {len(sample.examples):,} examples, such as "
            f"{next(iter(labels))[:60]!r}: they look like texts.\n"
            "Name the columns of text and label: --data.columns TEXT,LABEL."
        )
