"""The counts of one pass over a source: what was read, what was ignored by rule, and what could not be read.

A line that cannot be read either stops the pass with a `DataError` that names file and line, or, where the
recipe says `on_error = "skip"`, is skipped, counted and listed. Nothing is lost without a trace in a
`Tally`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from clearhead.config.data import OnError
from clearhead.errors import DataError

LISTED = 20
SKIP = 'Or set data.on_error = "skip" to skip such {} and list them.'


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was read: a file or corpus, and its line from 1; line 0 is the file as a whole."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """A place that could not be read, and why."""

    place: Place
    message: str

    def __str__(self) -> str:
        is_verb = self.message.startswith(("is ", "has ", "contains ", "cannot "))
        return f"{self.place}{' ' if is_verb else ': '}{self.message}"


@dataclass
class Problems:
    """How many lines, records or files were skipped, and the first of them."""

    count: int = 0
    first: list[Problem] = field(default_factory=list)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.first)

    def add(self, problem: Problem, lost: int = 1) -> None:
        """Count a problem, and keep it while the list is short."""
        self.count += lost
        if len(self.first) < LISTED:
            self.first.append(problem)


@dataclass
class Tally:
    """The counts of one pass: lines read, examples given, lines ignored by rule, problems, and guesses."""

    on_error: OnError = "stop"
    lines: int = 0
    examples: int = 0
    held_out: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    problems: Problems = field(default_factory=Problems)
    guesses: list[str] = field(default_factory=list)

    def guess(self, what: str) -> None:
        """Note what was found out about a file and not stated, so that it can be shown."""
        if what not in self.guesses and len(self.guesses) < LISTED:
            self.guesses.append(what)

    def problem(self, place: Place, message: str, advice: str, lost: int = 1) -> None:
        """Stop at a line that cannot be read, or count it, as the recipe says."""
        problem = Problem(place, message)
        if self.on_error == "stop":
            raise DataError(f"{problem}.\n{advice} {SKIP.format('lines' if place.line else 'files')}")
        self.problems.add(problem, lost)
