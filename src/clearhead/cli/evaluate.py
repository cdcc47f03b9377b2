"""`clearhead evaluate MODEL`: loss, perplexity, bits per byte, BLEU, chrF, accuracy: what applies."""

import json as json_format
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.options import Json, ModelFolder, with_decoding
from clearhead.config.decoding import DecodingConfig
from clearhead.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clearhead.text.examples import Example, Kind, Split
    from clearhead.text.sources import Reader


@with_decoding
def evaluate(
    model: ModelFolder,
    settings: DecodingConfig,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="A file, builtin:NAME, or two aligned files (given twice)."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="Columns of the data, by name or number.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="A recipe whose data to use; that of the run by default.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Part of the recipe or corpus: train, validation or test (default)."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first examples.")] = None,
    bleu: Annotated[
        str | None,
        typer.Option("--bleu", help="How sacreBLEU cuts words: 13a, intl, char, none (already tokenised)."),
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Compare translations without case.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a model on held-out data."""
    from rich.console import Console

    from clearhead.checkpoint import load
    from clearhead.training.evaluate import Evaluation

    evaluation = Evaluation(load(model))
    reader = find_data(model, evaluation.kind, data, columns, recipe, split)
    console, done = Console(stderr=True), 0
    with console.status("evaluating", spinner="line") as status:

        def progress(count: int) -> None:
            nonlocal done
            done += count
            status.update(f"evaluating: {done:,} examples")

        result = evaluation.run(first(reader, limit), settings, bleu, lowercase, progress)
    if json:
        finite = {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in result.items()
        }
        print(json_format.dumps(finite, ensure_ascii=False))
    else:
        show(result)


def first(examples: "Iterable[Example]", limit: int | None) -> "Iterator[Example]":
    """The first examples; a long document comes in pieces, and all of them are one example."""
    from clearhead.text.examples import Text

    count = 0
    for example in examples:
        count += not isinstance(example, Text) or example.starts
        if limit is not None and count > limit:
            return
        yield example


def find_data(
    model: Path,
    kind: "Kind",
    data: list[str] | None,
    columns: list[str] | None,
    recipe: str | None,
    split: str | None,
) -> "Reader":
    """The examples to evaluate on: given ones, or a split of a recipe, by default of the model's own run."""
    from clearhead.config.run import RunConfig
    from clearhead.text.sources import read, read_split
    from clearhead.training.place import RECIPE, holds_run

    if split not in (None, "train", "validation", "test"):
        raise InputError(f"--split {split} is not a part of any data.\nUse train, validation or test.")
    if data and recipe is not None:
        raise InputError("--data and --recipe both say what to evaluate on.\nGive one of them.")
    if columns and not data:
        raise InputError("--columns are those of --data FILE, which is not given.\nA recipe has its own.")
    if split is not None and data and not any(name.startswith(("builtin:", "hub:")) for name in data):
        raise InputError(
            f"--split {split} is a part of a recipe or a corpus, and {data[0]} is a file: all of it is read.\n"
            "Leave --split out, or give the recipe that divides it with --recipe."
        )
    part: Split = split or "test"  # type: ignore[assignment]
    if data:
        named = [int(column) if column.isdecimal() else column for column in columns or ()]
        return read(data[0] if len(data) == 1 else data, kind, named or None, split=part)
    own = next((path / RECIPE for path in (model, model.parent) if holds_run(path)), None)
    if recipe is None and own is None:
        raise InputError(
            f"{model} lies in no run folder, so its data is not known.\nGive --data FILE or --recipe RECIPE."
        )
    reader = read_split(RunConfig.read(recipe or str(own)).data, kind, part)
    if reader is None:
        raise InputError(f"{recipe or own} has no {part} data.\nGive --data FILE, or another --split.")
    return reader


def show(result: dict[str, Any], file: IO[str] | None = None) -> None:
    """The numbers, one a line, on stdout or in another file."""
    for name, value in result.items():
        if name == "confusion":
            width = max(len(label) for label in result["labels"])
            print("confusion (rows true, columns given)", file=file)
            for label, row in zip(result["labels"], value, strict=True):
                print(f"  {label:{width}} {' '.join(f'{count:6d}' for count in row)}", file=file)
        elif name != "labels":
            print(f"{name:16} {value:.4f}" if isinstance(value, float) else f"{name:16} {value}", file=file)
