"""`clearhead evaluate MODEL`: loss, perplexity, bits per byte, BLEU, chrF, accuracy: what applies."""

import json as json_format
import sys
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.options import Int8, Json, ModelFolder, with_decoding
from clearhead.cli.stages import Stages, load_pytorch
from clearhead.cli.terminal import for_stream
from clearhead.config.decoding import DecodingConfig
from clearhead.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clearhead.config.data import DataConfig
    from clearhead.config.model_base import AnyModelConfig
    from clearhead.config.run import RunConfig
    from clearhead.examples import Example, Kind, Split
    from clearhead.text.sources.read import ExampleReader

Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="A file, builtin:NAME, or two aligned files (the option given twice)."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "--data.columns",
        help="Columns of the data, by name or number: text,label (default: those of the run).",
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option("--recipe", help="Use the data and decoding of this recipe (default: that of the run)."),
]
PartOfData = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Part of the recipe or corpus: train, validation or test (default; validation if it has no test data).",
    ),
]
PART, FALLBACK = "test", "validation"  # of a recipe or corpus, if omitted
NOT_OF_FILES = {"count", "options", "seed", "format"}  # settings of corpora, and what an extension says


@with_decoding
def evaluate(
    model: ModelFolder,
    settings: DecodingConfig,
    data: Data = None,
    columns: Columns = None,
    recipe: Recipe = None,
    split: PartOfData = None,
    on_error: Annotated[
        str | None,
        typer.Option("--on-error", help="For a line that cannot be read: stop (default) or skip."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Evaluate only the first examples.")
    ] = None,
    bleu: Annotated[
        str | None,
        typer.Option("--bleu", help="Tokenisation of sacreBLEU: 13a, intl, char, none (already tokenised)."),
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case when comparing translations.")
    ] = False,
    int8: Int8 = False,
    json: Json = False,
) -> None:
    """Measure a model on held-out data."""
    load_pytorch(f"Reading {model}")
    from clearhead.model_folder import load
    from clearhead.training.evaluation.evaluate import Evaluation

    bundle = load(model)
    if int8:
        bundle.quantise()
    evaluation = Evaluation(bundle)
    if evaluation.kind != "pair":
        refuse_unused([*settings.given(), *["bleu"] * bool(bleu), *["lowercase"] * lowercase])
    config, part, reader = choose_examples(
        model, evaluation.kind, data, columns, recipe, split, on_error, labelling_of(bundle.config)
    )
    if config is not None:
        settings = config.decoding.replace(**settings.given())
    with Stages("Evaluating") as stages:
        result = evaluation.run(first(reader, limit), settings, bleu, lowercase, stages.counter("examples"))
    if count := reader.problems.count:
        what = "1 line was skipped" if count == 1 else f"{count:,} lines were skipped, the first"
        print(for_stream(f"{what}: {reader.problems.first[0]}.", sys.stderr), file=sys.stderr)
    if json:
        finite = {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in result.items()
        }
        print(for_stream(json_format.dumps(part | finite, ensure_ascii=False), sys.stdout))
    else:
        show(result)


def choose_examples(
    model: Path,
    kind: "Kind",
    data: list[str] | None,
    columns: list[str] | None = None,
    recipe: str | None = None,
    split: str | None = None,
    on_error: str | None = None,
    labelling: dict[str, Any] | None = None,
) -> "tuple[RunConfig | None, dict[str, Any], ExampleReader]":
    """The recipe of the run or a given one, the part of its data if it is one, and the examples.

    `labelling` says what a classifier labels, which any data must have.
    """
    from clearhead.config.run import RunConfig

    check_choice(data, columns, recipe, split)
    own = recipe_of(model) if recipe is None else recipe
    config = None if own is None else RunConfig.read(own)
    if data:
        format = format_of_run(config, data, columns) | (labelling or {})
        return config, {}, read_files(data, kind, format, split, on_error)
    if config is None:
        raise InputError(
            f"{model} is not in a run folder, so its data is unknown.\nGive --data FILE or --recipe RECIPE."
        )
    found, reader = read_part(config.data, kind, split, on_error, str(own))
    return config, {"split": found}, reader


def labelling_of(config: "AnyModelConfig") -> dict[str, Any]:
    """The settings of data that a classifier can be evaluated on."""
    return {"labels": config.labels, "texts": config.texts} if config.head == "classifier" else {}


def first(examples: "Iterable[Example]", limit: int | None) -> "Iterator[Example]":
    """The first examples; a long document arrives in parts, which count as one example."""
    from clearhead.examples import Text

    count = 0
    for example in examples:
        count += not isinstance(example, Text) or example.starts
        if limit is not None and count > limit:
            return
        yield example


def refuse_unused(options: list[str]) -> None:
    """Refuses options for translations if the model is not a translator."""
    if options:
        raise InputError(
            f"--{options[0].replace('_', '-')} applies to translations, but this model is not a translator: its "
            "evaluation generates no text.\nOmit the option."
        )


def check_choice(
    data: list[str] | None, columns: list[str] | None, recipe: str | None, split: str | None
) -> None:
    """Refuses options that do not say unambiguously what to evaluate on."""
    if split not in (None, "train", "validation", "test"):
        raise InputError(f"--split {split} is unknown.\nUse train, validation or test.")
    if data and recipe is not None:
        raise InputError("--data and --recipe both say what to evaluate on.\nGive one of them.")
    if columns and not data:
        raise InputError("--columns needs --data FILE.\nA recipe has its own columns.")
    if split is not None and data and not any(name.startswith(("builtin:", "hub:")) for name in data):
        raise InputError(
            f"--split {split} selects a part of a recipe or a corpus, but {data[0]} is a file and has no splits.\n"
            "Omit --split, or give the recipe that splits it with --recipe."
        )


def recipe_of(model: Path) -> str | None:
    """The recipe of the run that produced a model."""
    from clearhead.training.run.folder import RECIPE, holds_run

    return next((str(path / RECIPE) for path in (model, model.parent) if holds_run(path)), None)


def format_of_run(config: "RunConfig | None", data: list[str], columns: list[str] | None) -> dict[str, Any]:
    """How to read given data: like the files of the run, as far as its recipe says, under the columns given here.

    A corpus has no columns, and its options are its own.
    """
    from clearhead.config.data import DataConfig, Reading, is_path
    from clearhead.config.overrides import find_setting

    own: dict[str, Any] = {}
    if config is not None and all(is_path(name) for name in data):
        given = config.data.given()
        own = {
            name: value for name, value in given.items() if name in Reading.model_fields.keys() - NOT_OF_FILES
        }
    if not columns:
        return own
    if len(columns) == 1:  # as in a recipe or for train: text,label
        return own | {"columns": find_setting(DataConfig, "columns").convert(columns[0])}
    return own | {"columns": tuple(int(column) if column.isdecimal() else column for column in columns)}


def read_files(
    data: list[str], kind: "Kind", format: dict[str, Any], split: str | None, on_error: str | None
) -> "ExampleReader":
    """The examples of given files or corpora."""
    from clearhead.config.data import Reading
    from clearhead.text.sources.read import read

    if kind == "pair" and len(data) > 2:
        raise InputError(
            f"--data is given {len(data)} times, but a translator is evaluated on pairs.\n"
            "Give one file of pairs (.tsv, .csv, .jsonl, .parquet, .po), or two aligned files, sources first."
        )
    part: Split = split or PART  # type: ignore[assignment]
    source = data[0] if len(data) == 1 else data
    reading = Reading(**format)
    return read(source, kind, None, on_error, reading=reading, split=part)  # type: ignore[arg-type]


def read_part(
    data: "DataConfig", kind: "Kind", split: str | None, on_error: str | None, recipe: str
) -> "tuple[str, ExampleReader]":
    """The examples of a part of a recipe's data; of the validation data if there are no others to test on."""
    from clearhead.text.sources.read import read_split

    stated = {} if on_error is None else {"on_error": on_error}
    wanted: list[Split] = [PART, FALLBACK] if split is None else [split]  # type: ignore[list-item]
    for part in wanted:
        reader = read_split(data.replace(**stated), kind, part)
        if reader is not None:
            if part != wanted[0]:
                print(f"{recipe} has no {wanted[0]} data: evaluating on its {part} data, by which the best model was "
                      "chosen.", file=sys.stderr)  # fmt: skip
            return part, reader
    raise InputError(f"{recipe} has no {' or '.join(wanted)} data.\nGive --data FILE, or another --split.")


def show(result: dict[str, Any], file: IO[str] | None = None) -> None:
    """Prints the numbers, one per line, on stdout or into another file."""
    stream: Any = file or sys.stdout
    for name, value in result.items():
        if name == "confusion":
            labels = [for_stream(label, stream) for label in result["labels"]]
            width = max(map(len, labels))
            print("confusion (rows true, columns given)", file=file)
            for label, row in zip(labels, value, strict=True):
                print(f"  {label:{width}} {' '.join(f'{count:6d}' for count in row)}", file=file)
        elif name == "by_label":
            labels = [for_stream(label, stream) for label in value]
            width = max(map(len, labels), default=0)
            print(f"{'by label':{width + 2}} precision  recall      f1    true", file=file)
            for label, row in zip(labels, value.values(), strict=True):
                numbers = f"{row['precision']:9.4f} {row['recall']:7.4f} {row['f1']:7.4f} {row['true']:7,}"
                print(f"  {label:{width}} {numbers}", file=file)
        elif name != "labels":
            print(f"{name:18} {value:.4f}" if isinstance(value, float) else f"{name:18} {value}", file=file)
