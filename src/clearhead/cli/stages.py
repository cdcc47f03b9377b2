"""What a command is doing, on stderr: stages and their progress enter; a live line, or plain lines, leave.

On a terminal the line is redrawn in place. Elsewhere each stage is a line of its own, and a long one is repeated with
its progress, more and more rarely, so that no pause is silent and no log is flooded.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

SILENCE = 2.0  # seconds, at most, in the first moments of a stage
SHARE_OF_SILENCE = 0.2  # of the time that a stage has taken, later


class Stages:
    """Shows what is being done; use it in a `with`, which shows the first stage at once."""

    def __init__(self, first: str, console: "Console | None" = None) -> None:
        from rich.console import Console

        self.console = console or Console(stderr=True, soft_wrap=True, highlight=False)
        self.stage, self.started, self.last_line = first, 0.0, 0.0
        self.status: Status | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.status = self.console.status(self.stage)
            self.status.start()
        else:
            self.print_line(self.stage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is not None:
            self.status.stop()

    def show(self, stage: str, detail: str = "") -> None:
        """Shows a stage, and how far it is; a line is printed if it is new, or the last one is long ago."""
        text = f"{stage}: {detail}" if detail else stage
        if self.status is not None:
            self.status.update(text)
        elif stage != self.stage or self.is_due:
            self.print_line(text, is_new=stage != self.stage)
        self.stage = stage

    def counter(self, what: str) -> Callable[[int], None]:
        """A function that adds to a count of something, such as examples, and shows it in this stage."""
        stage, done = self.stage, 0

        def add(more: int) -> None:
            nonlocal done
            done += more
            self.show(stage, f"{done:,} {what}")

        return add

    @property
    def is_due(self) -> bool:
        """Whether the last line is long ago."""
        now = monotonic()
        return now - self.last_line >= max(SILENCE, SHARE_OF_SILENCE * (now - self.started))

    def print_line(self, text: str, is_new: bool = True) -> None:
        """Prints a line where there is no terminal."""
        self.last_line = monotonic()
        self.started = self.last_line if is_new else self.started
        self.console.print(f"{text} ...", markup=False)


def load_pytorch(then: str) -> None:
    """Imports PyTorch, which takes seconds, behind a line that says so; `then` is what the command does next."""
    if "torch" not in sys.modules:
        with Stages("Loading PyTorch") as stages:
            import_module("torch")
            stages.show(then)
