"""Where the texts of a command come from and where its results go: an argument, files, standard input and output."""

import codecs
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO, TypeVar

import typer

from clearhead.cli.terminal import for_stream, is_terminal
from clearhead.config.data import Reading
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.decoding.continuation import Continuation
    from clearhead.decoding.lines import Faults

LONGEST_LINE: int = Reading.model_fields["max_line_bytes"].default

OnError = Literal["stop", "skip", "mark"]

Task = TypeVar("Task")


@dataclass(frozen=True)
class Job:
    """Where texts come from (an argument, a file, standard input) and where results go."""

    text: str | None
    input: Path | None
    output: Path | None
    json: bool = False
    overwrite: bool = False
    on_error: OnError | None = None  # if omitted: stop for a text, mark for a line

    def __post_init__(self) -> None:
        if self.text is not None and self.input is not None:
            raise typer.BadParameter("Give a TEXT or --input, not both.")
        if self.text is None and self.input is None and (sys.stdin is None or is_terminal(sys.stdin)):
            raise typer.BadParameter(
                "No text is given. Give it as an argument, with --input FILE, or on standard input."
            )
        if self.text is not None and self.on_error in ("skip", "mark"):
            raise typer.BadParameter(f"--on-error {self.on_error} is for lines; a TEXT with an error stops.")
        if self.text is None and self.output is not None and is_same(self.input, self.output):
            raise typer.BadParameter(f"--output {self.output} is also the input. Name another file.")

    def run(
        self,
        prepare: Callable[[str], Task],
        work: Callable[[list[Task]], list[list[str]]],
        model: Path,
        settings: Mapping[str, Any],
    ) -> None:
        """Does the work on one text, or on every line; a result is one string or several alternatives.

        The result of a single text is written as it is. The result of a line is one line. An output that was started
        with the same model and settings is continued.
        """
        if self.text is not None:
            self.write(["\n".join(texts) for texts in work([prepare(self.text)])])
            return
        from clearhead.decoding.lines import Faults, results

        faults: Faults[list[str]] = Faults(self.on_error or "mark", self.mark)
        record = self.record(model, settings, faults)
        with opened(self.input) as file:
            lines = lines_of(file)
            again = self.resume(record, lines)
            groups = self.groups(lines, again)
            done, first = (0, 1) if record is None else (record.done, record.lines + 1)
            groups = groups if record is None else record.groups(groups)
            answers = results(groups, lambda line: prepare(decoded(line)), work, first, faults, done)
            try:
                self.write(map(one_line, answers), first - 1 + done)
            except InputError:
                if record is not None and faults.on_error == "stop":
                    record.stop()
                raise
        report_faults(faults)

    def mark(self, number: int, message: str) -> list[str]:
        """What takes the place of the result of a line with an error."""
        return [json.dumps({"line": number, "error": message}, ensure_ascii=False) if self.json else ""]

    @property
    def reads_file(self) -> bool:
        """Whether all lines are available from the start."""
        return self.input is not None and self.input.is_file()

    def groups(self, lines: Iterator[bytes], again: list[bytes]) -> Iterator[list[bytes]]:
        """The lines in groups: first those that an earlier start did not finish, then the rest."""
        from clearhead.decoding.lines import as_they_come, in_groups

        if again:
            yield again
        yield from in_groups(lines) if self.reads_file else as_they_come(lines)

    def record(
        self, model: Path, settings: Mapping[str, Any], faults: "Faults[list[str]]"
    ) -> "Continuation | None":
        """The record beside the output, by which it can be continued; None without a file."""
        if self.output is None or (self.output.exists() and not self.output.is_file()):
            return None
        from clearhead.decoding.continuation import Continuation, digest_of_model

        origin = {"model": digest_of_model(model), "json": self.json, "on_error": faults.on_error, **settings}
        return Continuation(self.output, origin, faults)

    def resume(self, record: "Continuation | None", lines: Iterator[bytes]) -> list[bytes]:
        """The lines of the input that an earlier start read but did not finish."""
        if record is None or self.overwrite:
            return []
        again = record.resume(lines)
        if done := record.answers + record.done:
            at = record.lines + record.done
            rest = "it is complete" if at == self.total() else f"continuing at line {at + 1}"
            print(f"{self.output} already has {done} lines: {rest}.", file=sys.stderr)
        return again

    def total(self) -> int | None:
        """The number of input lines, if it can be known."""
        from clearhead.decoding.lines import whole_lines

        if self.input is None or not self.reads_file:
            return None
        count, size = whole_lines(self.input)
        return count + (size < self.input.stat().st_size)  # the last line may have no line feed

    def write(self, results: Iterable[str], done: int = 0) -> None:
        """Writes each result as soon as it is known, with progress on standard error unless results appear there."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        console = Console(stderr=True)
        is_beside = self.output is None and is_terminal(sys.stdout)
        is_shown = self.text is None and console.is_terminal and not is_beside
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=console, redirect_stdout=False, disable=not is_shown)
        with written(self.output, append=done > 0) as file, progress:
            bar = progress.add_task("", total=self.total() if is_shown else None, completed=done)
            for result in results:
                print(for_stream(result, file or sys.stdout), file=file, flush=True)
                progress.advance(bar)


def report_faults(faults: "Faults[list[str]]") -> None:
    """Lists on standard error the lines that have no result."""
    if not faults.count:
        return
    what = "skipped" if faults.on_error == "skip" else "marked by an empty line or an error"
    lines = "1 line was" if faults.count == 1 else f"{faults.count:,} lines were"
    print(f"{lines} {what}:", file=sys.stderr)
    for number, message in faults.first:
        print(for_stream(f"  line {number}: {message.splitlines()[0]}", sys.stderr), file=sys.stderr)
    if (more := faults.count - len(faults.first)) > 0:
        print(f"  and {more:,} more", file=sys.stderr)


def decoded(line: bytes) -> str:
    """The text of a line."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"it is not UTF-8: {error}.\nConvert the file to UTF-8.") from None


def one_line(texts: list[str]) -> str:
    """The result of a line; alternatives are separated by tabs."""
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
    # A pipe stays open: when the command ends early, a thread may still be waiting for it.
    yield open(handle_of(path), "rb", closefd=False)  # noqa: SIM115


def is_standard(path: Path | None) -> bool:
    """Whether the input is standard input."""
    return path is None or str(path) == "-"


def is_same(input: Path | None, output: Path) -> bool:
    """Whether the output is the input file, by whatever name."""
    if not output.is_file():
        return False
    try:
        given = os.stat(sys.stdin.fileno() if input is None or is_standard(input) else input)
    except (OSError, AttributeError):  # it does not exist: opening it will say so
        return False
    return os.path.samestat(given, output.stat())


def handle_of(path: Path | None) -> int:
    """The file descriptor of a file, a named pipe or standard input."""
    if path is None or is_standard(path):
        if sys.stdin is None:
            raise InputError("Standard input is closed.\nGive the text as an argument, or --input FILE.")
        return sys.stdin.fileno()
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"The input file {path} {what}.\nName a text file with one text per line.")
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InputError(
            f"The input file {path} cannot be opened: {error.strerror}.\nCheck its permissions."
        ) from None


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an open file without their line feeds; only a line feed ends a line, U+2028 and the like do not."""
    for number in itertools.count(1):
        try:
            line = file.readline(LONGEST_LINE + 1)
        except OSError as error:
            raise InputError(f"line {number} cannot be read: {error.strerror}.\nCheck the file.") from None
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"line {number} is longer than {LONGEST_LINE:,} bytes.\nIf this is a text file, split the line."
            )
        if not line:
            return
        text = line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"")
        yield text.removesuffix(b"\n").removesuffix(b"\r")


@contextmanager
def written(path: Path | None, append: bool) -> Iterator[TextIO | None]:
    """The open output file, None for standard output; a failure of the system becomes an `InputError`."""
    if path is None:
        yield None
        return
    try:
        with path.open("a" if append else "w", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}.\nName a file in an existing folder."
        ) from None
