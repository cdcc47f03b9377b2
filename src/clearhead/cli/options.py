"""What the commands that use a model share: the settings of decoding as options, and where texts come from.

Every key of `[decoding]` is an option of the same name, with its type and meaning read from the config.
"""

import codecs
import inspect
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, TextIO, TypeVar, Union, get_args, get_origin

import typer

from clearhead.config.data import Reading
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
        help="Where to write; a half-written file of an earlier start is continued. - is standard output.",
        callback=lambda path: None if path == Path("-") else path,
    ),
]
Cut = Annotated[
    bool, typer.Option("--cut", help="Read the beginning of a text that is longer than the model's context.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object for each text.")]

LONGEST_LINE: int = Reading.model_fields["max_line_bytes"].default
JSON_KEYS = {"tokens", "probabilities", "vector"}  # of every result with --json: one of these

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
    json: bool = False

    def __post_init__(self) -> None:
        if self.text is not None and self.input is not None:
            raise typer.BadParameter("Give a TEXT or --input, not both.")
        if self.text is None and self.input is None and (sys.stdin is None or is_terminal(sys.stdin)):
            raise typer.BadParameter(
                "There is no text. Give it as an argument, with --input FILE, or on standard input."
            )
        if self.text is None and self.output is not None and is_same(self.input, self.output):
            raise typer.BadParameter(f"--output {self.output} is the file that is read. Name another.")

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
            rest = self.after(lines_of(file), done)
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
        self.check_length(done, total)
        if done:
            self.check_kind(self.output)
            rest = "it is complete" if done == total else f"going on with line {done + 1}"
            print(f"{self.output} has {done} lines already: {rest}.", file=sys.stderr)
        cut(self.output, size)
        return done

    def after(self, lines: Iterator[str], done: int) -> Iterator[str]:
        """The lines that are not done yet."""
        self.check_length(done, sum(1 for _ in itertools.islice(lines, done)))
        yield from lines

    def check_length(self, done: int, total: int | None) -> None:
        """Refuses an output with more lines than there are to read."""
        if total is not None and done > total:
            name = "standard input" if is_standard(self.input) else self.input
            raise InputError(
                f"{self.output} has {done} lines already, but {name} only {total}: it was made from "
                "another file.\nDelete it, or name another."
            )

    def check_kind(self, output: Path) -> None:
        """Refuses to go on with JSON where the first line is none, and the reverse."""
        with output.open("rb") as file:
            is_json = is_result(file.readline())
        if is_json != self.json:
            begun, now = ("with", "Give") if is_json else ("without", "Leave out")
            raise InputError(
                f"{output} was begun {begun} --json, and its lines should all be alike.\n"
                f"{now} --json, delete the file, or name another."
            )

    def total(self) -> int | None:
        """How many lines there are, where that can be known."""
        from clearhead.decoding.lines import whole_lines

        if self.input is None or not self.reads_file:
            return None
        count, size = whole_lines(self.input)
        return count + (size < self.input.stat().st_size)  # the last line may have no end

    def write(self, results: Iterable[str], append: bool, done: int = 0) -> None:
        """Writes a line for each result as soon as it is known; progress on standard error, beside no results."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        console = Console(stderr=True)
        is_beside = self.output is None and is_terminal(sys.stdout)
        is_shown = self.text is None and console.is_terminal and not is_beside
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=console, redirect_stdout=False, disable=not is_shown)
        with written(self.output, append) as file, progress:
            bar = progress.add_task("", total=self.total() if is_shown else None, completed=done)
            for result in results:
                print(result, file=file, flush=True)
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


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sits at the other end."""
    return stream is not None and stream.isatty()


def is_standard(path: Path | None) -> bool:
    """Whether the input is standard input."""
    return path is None or str(path) == "-"


def is_same(input: Path | None, output: Path) -> bool:
    """Whether the output is the file that is read, by whatever name."""
    if not output.is_file():
        return False
    try:
        given = os.stat(sys.stdin.fileno() if input is None or is_standard(input) else input)
    except (OSError, AttributeError):  # it is not there: who opens it says so
        return False
    return os.path.samestat(given, output.stat())


def is_result(line: bytes) -> bool:
    """Whether a line is a result with --json."""
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return isinstance(value, dict) and not JSON_KEYS.isdisjoint(value)


def handle_of(path: Path | None) -> int:
    """The number by which the system knows a file, a pipe with a name or standard input."""
    if path is None or is_standard(path):
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
            line = file.readline(LONGEST_LINE + 1)
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"line {number} is longer than {LONGEST_LINE:,} bytes.\nIs this a text file? Then break it."
                )
            text = line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode()
        except UnicodeDecodeError as error:
            raise InputError(f"line {number} is not UTF-8: {error}.\nConvert the file to UTF-8.") from None
        except OSError as error:
            raise InputError(f"line {number} cannot be read: {error.strerror}.\nCheck the file.") from None
        if not line:
            return
        yield text.removesuffix("\n").removesuffix("\r")


@contextmanager
def written(path: Path | None, append: bool) -> Iterator[TextIO | None]:
    """A file to write into, None for standard output; what the system refuses is an error of ours."""
    if path is None:
        yield None
        return
    try:
        with path.open("a" if append else "w", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}.\nName a file in a folder that is there."
        ) from None
