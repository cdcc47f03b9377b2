"""What the commands that use a model share: the settings of decoding as options, and where texts come from.

Every key of `[decoding]` is an option of the same name, with its type and meaning read from the config.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TextIO, Union, get_args, get_origin

import typer

from clearhead.config.decoding import DecodingConfig
from clearhead.errors import InputError

ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model folder, or a run folder that holds one.")
]
TextArgument = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="The text; otherwise --input, or lines from standard input."),
]
Input = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", help="A file with one text a line; - is standard input."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Where to write; a half-written file of an earlier start is continued.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object for each text.")]

SKIPPED = ("logit_bias",)  # a table: for recipes and Python


def with_decoding(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the keys of `[decoding]` as options; it receives the stated ones as `settings`."""
    own = [
        parameter for name, parameter in inspect.signature(command).parameters.items() if name != "settings"
    ]
    names = [name for name in DecodingConfig.model_fields if name not in SKIPPED]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option(name))
        for name in names
    ]

    def run(**values: Any) -> None:
        settings = {name: values.pop(name) for name in names}
        stated = {name: value for name, value in settings.items() if value not in (None, [])}
        command(**values, settings=DecodingConfig(**stated))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + added
    )
    return run


def option(name: str) -> Any:
    """The option of one setting."""
    field = DecodingConfig.model_fields[name]
    kind = scalar(field.annotation)
    help_text = (
        f"{field.description} [{field.default}]" if field.default not in (None, ()) else field.description
    )
    return Annotated[kind | None, typer.Option(f"--{name}", help=help_text, rich_help_panel="Decoding")]


def scalar(annotation: Any) -> Any:
    """The type of an option: of several values a list, of an optional one the type itself."""
    if get_origin(annotation) in (Union, UnionType):
        return next(kind for kind in get_args(annotation) if kind is not type(None))
    return list[get_args(annotation)[0]] if get_origin(annotation) is tuple else annotation  # type: ignore[misc]


def find_model(path: Path) -> Path:
    """The model folder itself, or the best one of a run folder."""
    for inner in ("best", "last"):
        if not (path / "config.json").exists() and (path / inner / "config.json").exists():
            return path / inner
    return path


@contextmanager
def lines_from(path: Path | None) -> Iterator[Iterator[str]]:
    """The lines of a file or of standard input, without their ends; U+2028 and the like do not end a line."""
    if path is None or str(path) == "-":
        if path is None and sys.stdin.isatty():
            raise InputError(
                "There is no text.\nGive it as an argument, with --input FILE, or on standard input."
            )
        yield strip_ends(sys.stdin)
        return
    if not path.is_file():
        raise InputError(f"The input file {path} does not exist.\nName a text file with one text a line.")
    with path.open(encoding="utf-8", newline="\n") as file:
        yield strip_ends(file)


def strip_ends(file: TextIO) -> Iterator[str]:
    """The lines of an open file without their ends; bytes that are no UTF-8 are an error with the line."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline()
        except UnicodeDecodeError as error:
            raise InputError(f"line {number} is not UTF-8: {error}.\nConvert the file to UTF-8.") from None
        if not line:
            return
        yield line.rstrip("\r\n")


def write_lines(
    results: Iterator[str], output: Path | None, total: int | None, what: str, append: bool = False
) -> None:
    """Results to a file or to standard output, a line each as soon as it is known; progress on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    target = (
        sys.stdout if output is None else output.open("a" if append else "w", encoding="utf-8", newline="\n")
    )
    try:
        with Progress(
            *columns, console=console, disable=not console.is_terminal or output is None
        ) as progress:
            bar = progress.add_task(what, total=total)
            for result in results:
                target.write(result + "\n")
                target.flush()
                progress.advance(bar)
    finally:
        if output is not None:
            target.close()
