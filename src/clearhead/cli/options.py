"""What the commands that use a model share: the settings of decoding as options, and where texts come from.

Every key of `[decoding]` is an option of the same name, with its type and meaning read from the config.
"""

import codecs
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, TextIO, TypeVar, Union, get_args, get_origin

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
Cut = Annotated[
    bool, typer.Option("--cut", help="Read the beginning of a text that is longer than the model's context.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object for each text.")]

SKIPPED = ("logit_bias",)  # a table: for recipes and Python

Task = TypeVar("Task")


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
    default = "" if field.default in (None, ()) else f" ({field.default})"
    help_text = f"{field.description}{default}"
    kind = scalar(field.annotation)
    return Annotated[kind | None, typer.Option(f"--{name}", help=help_text, rich_help_panel="Decoding")]


def scalar(annotation: Any) -> Any:
    """The type of an option: of several values a list, of an optional one the type itself."""
    if get_origin(annotation) in (Union, UnionType):
        return next(kind for kind in get_args(annotation) if kind is not type(None))
    return list[get_args(annotation)[0]] if get_origin(annotation) is tuple else annotation  # type: ignore[misc]


@dataclass(frozen=True)
class Job:
    """Where texts come from (an argument, a file, standard input) and where results go."""

    text: str | None
    input: Path | None
    output: Path | None

    def __post_init__(self) -> None:
        if self.text is not None and self.input is not None:
            raise typer.BadParameter("Give a TEXT or --input, not both.")
        if self.text is None and self.input is None and (sys.stdin is None or sys.stdin.isatty()):
            raise typer.BadParameter(
                "There is no text. Give it as an argument, with --input FILE, or on standard input."
            )

    def run(self, prepare: Callable[[str], Task], work: Callable[[list[Task]], list[list[str]]]) -> None:
        """Does the work on one text, or on every line; a result is one string, or several of equal standing.

        The result of a single text is written as it is. The result of a line is one line.
        """
        from clearhead.decoding.lines import as_they_come, in_groups, results

        if self.text is not None:
            self.write(["\n".join(texts) for texts in work([prepare(self.text)])], append=False)
            return
        done = self.resume()
        with opened(self.input) as file:
            rest = itertools.islice(lines_of(file), done, None)
            groups = in_groups(rest) if self.reads_file else as_they_come(rest)
            self.write(map(one_line, results(groups, prepare, work, done + 1)), append=done > 0, done=done)

    @property
    def reads_file(self) -> bool:
        """Whether all the lines are there already."""
        return self.input is not None and self.input.is_file()

    def resume(self) -> int:
        """How many lines of the output are there already; half a line is taken away."""
        from clearhead.decoding.lines import cut, whole_lines

        if self.output is None or not self.output.is_file():
            return 0
        done, size = whole_lines(self.output)
        total = self.total()
        if total is not None and done > total:
            raise InputError(
                f"{self.output} has {done} lines already, but {self.input} only {total}: it was made from "
                "another file.\nDelete it, or name another."
            )
        if done:
            rest = "it is complete" if done == total else f"going on with line {done + 1}"
            print(f"{self.output} has {done} lines already: {rest}.", file=sys.stderr)
        cut(self.output, size)
        return done

    def total(self) -> int | None:
        """How many lines there are, where that can be known."""
        if self.input is None or not self.reads_file:
            return None
        with self.input.open("rb") as file:
            return sum(1 for _ in file)

    def write(self, results: Iterable[str], append: bool, done: int = 0) -> None:
        """Writes a line for each result as soon as it is known; progress on standard error."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        if self.output is None:
            for result in results:
                print(result, flush=True)
            return
        console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with written(self.output, append) as file, Progress(*columns, console=console) as progress:
            progress.disable = not console.is_terminal
            bar = progress.add_task("", total=self.total() if console.is_terminal else None, completed=done)
            for result in results:
                file.write(result + "\n")
                file.flush()
                progress.advance(bar)


def one_line(texts: list[str]) -> str:
    """The result of a line: several texts have tabs between them."""
    from clearhead.decoding.lines import escape

    lines = [escape(text) for text in texts]
    return lines[0] if len(lines) == 1 else "\t".join(line.replace("\t", "\\t") for line in lines)


@contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input."""
    if path is not None and path.is_file():
        with open(handle_of(path), "rb") as file:
            yield file
        return
    # A pipe is left open: when the command ends early, a thread may still be waiting in it.
    yield open(handle_of(path), "rb", closefd=False)  # noqa: SIM115


def handle_of(path: Path | None) -> int:
    """The number by which the system knows a file, a pipe with a name or standard input."""
    if path is None or str(path) == "-":
        if sys.stdin is None:
            raise InputError("Standard input is closed.\nGive the text as an argument, or --input FILE.")
        return sys.stdin.fileno()
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"The input file {path} {what}.\nName a text file with one text a line.")
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InputError(
            f"The input file {path} cannot be opened: {error.strerror}.\nCheck the rights to read it."
        ) from None


def lines_of(file: BinaryIO) -> Iterator[str]:
    """The lines of an open file without their ends; what is no text is an error with the line.

    Only a line feed ends a line, U+2028 and the like do not. Each line is decoded by itself, so that one bad
    byte does not take its neighbours with it.
    """
    for number in itertools.count(1):
        try:
            line = file.readline()
            text = line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode()
        except UnicodeDecodeError as error:
            raise InputError(f"line {number} is not UTF-8: {error}.\nConvert the file to UTF-8.") from None
        except OSError as error:
            raise InputError(f"line {number} cannot be read: {error.strerror}.\nCheck the file.") from None
        if not line:
            return
        yield text.removesuffix("\n").removesuffix("\r")


@contextmanager
def written(path: Path, append: bool) -> Iterator[TextIO]:
    """A file to write into; what the system refuses is an error of ours."""
    try:
        with path.open("a" if append else "w", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}.\nName a file in a folder that is there."
        ) from None
