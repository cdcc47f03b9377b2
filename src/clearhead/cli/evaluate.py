"""`clearhead evaluate MODEL`: loss, perplexity, bits per byte, BLEU, chrF, accuracy: what applies."""

import json as json_format
import sys
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.options import Json, ModelFolder, with_decoding
from clearhead.config.decoding import DecodingConfig
from clearhead.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clearhead.config.data import DataConfig
    from clearhead.text.examples import Example, Kind, Split
    from clearhead.text.sources import Reader

PART = "test"  # of a recipe or corpus, where none is asked for


@with_decoding
def evaluate(
    model: ModelFolder,
    settings: DecodingConfig,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="A file, builtin:NAME, or two aligned files (the option given twice)."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="Columns of the data, by name or number.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", help="A recipe whose data and decoding to use; that of the run by default."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Part of the recipe or corpus: train, validation or test (default)."),
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option("--on_error", help="At a line that cannot be read: stop (default), or skip it."),
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
    from clearhead.config.run import RunConfig
    from clearhead.training.evaluate import Evaluation

    evaluation = Evaluation(load(model))
    if evaluation.kind != "pair":
        refuse_unused([*settings.given(), *["bleu"] * bool(bleu), *["lowercase"] * lowercase])
    check_choice(data, columns, recipe, split)
    own = recipe_of(model) if recipe is None else recipe
    config = None if own is None else RunConfig.read(own)
    if config is not None:
        settings = config.decoding.replace(**settings.given())
    reader: Reader | None
    if data:
        reader = read_files(data, evaluation.kind, columns, split, on_error)
    elif config is not None:
        reader = read_part(config.data, evaluation.kind, split, on_error)
        if reader is None:
            raise InputError(f"{own} has no {split or PART} data.\nGive --data FILE, or another --split.")
    else:
        raise InputError(
            f"{model} lies in no run folder, so its data is not known.\nGive --data FILE or --recipe RECIPE."
        )
    console, done = Console(stderr=True), 0
    with console.status("evaluating", spinner="line") as status:

        def progress(count: int) -> None:
            nonlocal done
            done += count
            status.update(f"evaluating: {done:,} examples")

        result = evaluation.run(first(reader, limit), settings, bleu, lowercase, progress)
    if count := reader.problems.count:
        what = "1 line was left out" if count == 1 else f"{count:,} lines were left out, the first"
        print(f"{what}: {reader.problems.first[0]}.", file=sys.stderr)
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


def refuse_unused(options: list[str]) -> None:
    """Refuses options about translations, for a model that writes none when it is evaluated."""
    if options:
        raise InputError(
            f"--{options[0]} is about translations, and this model is no translator: it is evaluated on what is given, "
            "and writes nothing.\nLeave it out."
        )


def check_choice(
    data: list[str] | None, columns: list[str] | None, recipe: str | None, split: str | None
) -> None:
    """Refuses what does not say clearly what to evaluate on."""
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


def recipe_of(model: Path) -> str | None:
    """The recipe of the run that a model was made in."""
    from clearhead.training.place import RECIPE, holds_run

    return next((str(path / RECIPE) for path in (model, model.parent) if holds_run(path)), None)


def read_files(
    data: list[str], kind: "Kind", columns: list[str] | None, split: str | None, on_error: str | None
) -> "Reader":
    """The examples of given files or corpora."""
    from clearhead.text.sources import read

    if kind == "pair" and len(data) > 2:
        raise InputError(
            f"--data is given {len(data)} times, and a translator is evaluated on pairs.\n"
            "Give one file of pairs (.tsv, .csv, .jsonl, .parquet, .po), or two aligned files: the sources first."
        )
    named = [int(column) if column.isdecimal() else column for column in columns or ()]
    part: Split = split or PART  # type: ignore[assignment]
    source = data[0] if len(data) == 1 else data
    return read(source, kind, named or None, on_error, split=part)  # type: ignore[arg-type]


def read_part(data: "DataConfig", kind: "Kind", split: str | None, on_error: str | None) -> "Reader | None":
    """The examples of a part of a recipe's data, where it has that part."""
    from clearhead.text.sources import read_split

    stated = {} if on_error is None else {"on_error": on_error}
    return read_split(data.replace(**stated), kind, split or PART)  # type: ignore[arg-type]


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
