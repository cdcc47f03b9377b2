"""The progress of training: records enter, a live display or plain lines on stderr leave.

On a terminal the display is redrawn in place; elsewhere lines are printed, a few per minute. It draws only when a
record arrives, and at most a few times per second, so that training does not wait for it.
"""

import math
from collections import deque
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clearhead.machine.load import is_busy, usable_cores
from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.reporting.history import Sample
from clearhead.training.reporting.wording import duration

if TYPE_CHECKING:
    from clearhead.training.reporting.history import LogEntry

SECONDS_BETWEEN_DRAWS = 0.4
SECONDS_BETWEEN_LINES = 10.0
SECONDS_OF_PACE = 60.0  # over which the pace is measured that gives the time left
MEMORY = 20  # records that the smoothed loss averages over
BLOCKS = "▁▂▃▄▅▆▇█"
SPARK = 48
SHOWN_LINES = 4  # of a sample


class Display:
    """Shows records as they arrive; use it in a `with`."""

    def __init__(self, steps: int, console: Console | None = None) -> None:
        self.console, self.steps = console or Console(stderr=True), steps
        self.is_live = self.console.is_terminal
        self.times: deque[tuple[float, int]] = deque()  # when recent records arrived, and their steps
        self.last_draw = self.last_line = -math.inf
        self.smooth, self.weight = 0.0, 0.0
        self.curve: list[float] = []
        self.record: StepRecord | None = None
        self.evaluation: EvaluationRecord | None = None
        self.best: EvaluationRecord | None = None
        self.samples: list[Sample] = []
        self.message = ""
        self.live = Live(console=self.console, auto_refresh=False, transient=False) if self.is_live else None

    def show(self, record: "LogEntry") -> None:
        """Takes a record, and shows what is new."""
        if isinstance(record, StepRecord):
            self.take_step(record)
        elif isinstance(record, EvaluationRecord):
            self.evaluation = record
            self.best = record if record.is_best else self.best
        elif isinstance(record, Sample):
            new = not self.samples or record.step != self.samples[-1].step
            self.samples = [record] if new else [*self.samples, record]
        if self.live is not None:
            is_due = monotonic() - self.last_draw >= SECONDS_BETWEEN_DRAWS
            if is_due or not isinstance(record, StepRecord) or record.step == self.steps:
                self.draw()
        elif line := self.line(record):
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def take_step(self, record: StepRecord) -> None:
        """Takes the record of some steps."""
        keep = 1 - 1 / MEMORY
        if math.isfinite(record.loss):
            self.smooth, self.weight = keep * self.smooth + record.loss, keep * self.weight + 1
            self.curve.append(self.smooth / self.weight)
        self.times.append((monotonic(), record.step))
        while len(self.times) > 2 and self.times[-1][0] - self.times[0][0] > SECONDS_OF_PACE:
            self.times.popleft()
        self.record = record

    @property
    def seconds_left(self) -> float:
        """The time left at the pace of the last minute, evaluations included, so that it follows the load."""
        if self.record is None:
            return math.nan
        began, first_step = self.times[0]
        done, left = self.record.step - first_step, self.steps - self.record.step
        pace = (monotonic() - began) / done if done else self.record.seconds / self.record.step
        return pace * left

    def line(self, record: "LogEntry") -> str | None:
        """A record as a line, if there is no terminal; steps only once in a while."""
        if isinstance(record, StepRecord):
            is_due = record.seconds - self.last_line >= SECONDS_BETWEEN_LINES or record.step == self.steps
            if not is_due:
                return None
            self.last_line = record.seconds
            return (
                f"step {record.step:,}/{self.steps:,}  loss {record.loss:.4f}  smoothed {self.curve_end:.4f}  "
                f"rate {record.learning_rate:.2e}  {record.tokens_per_second:,.0f} tokens/s  "
                f"{self.time_left} left"
                + (f"  {record.skipped} skipped" if record.skipped else "")
                + (f"  busy machine: other programs use {busy} cores" if (busy := busy_share(record)) else "")
            )
        if isinstance(record, EvaluationRecord):
            best = "  best so far" if record.is_best else ""
            return f"step {record.step:,}  validation loss {record.validation_loss:.4f}{best}"
        return f"step {record.step:,}  {sample_line(record)}" if isinstance(record, Sample) else None

    @property
    def curve_end(self) -> float:
        """The smoothed loss."""
        return self.curve[-1] if self.curve else math.nan

    @property
    def time_left(self) -> str:
        """The time left, as text."""
        return duration(self.seconds_left) if math.isfinite(self.seconds_left) else "?"

    def draw(self) -> None:
        """Redraws the display."""
        assert self.live is not None
        self.last_draw = monotonic()
        self.live.update(self.picture(), refresh=True)

    def picture(self) -> Group:
        """The display: progress, numbers, curve and samples."""
        step = self.record.step if self.record else 0
        head = Table.grid(padding=(0, 2))
        share = f"step {step:,} of {self.steps:,}"
        head.add_row(share, ProgressBar(self.steps, step, width=32), f"{self.time_left} left")
        numbers = Table.grid(padding=(0, 3))
        values = self.numbers()
        numbers.add_row(*(Text(name, style="dim") for name, _ in values))
        numbers.add_row(*(Text(value, style="bold") for _, value in values))
        parts: list[RenderableType] = [head, Text(), numbers]
        if len(self.curve) > 1:
            parts += [Text(), Text(sparkline(self.curve, SPARK), style="blue")]
        for sample in self.samples[:2]:
            parts += [Text(), sample_block(sample)]
        if self.message:
            parts += [Text(), Text(self.message, style="yellow")]
        return Group(*parts)

    def numbers(self) -> list[tuple[str, str]]:
        """The names and values that are shown."""
        values = []
        if self.record is not None:
            record = self.record
            values = [
                ("loss", f"{record.loss:.4f}"),
                ("smoothed", f"{self.curve_end:.4f}"),
                ("rate", f"{record.learning_rate:.2e}"),
                ("tokens/s", f"{record.tokens_per_second:,.0f}"),
                ("epoch", f"{record.epoch:.2f}"),
            ]
            values += [("skipped", f"{record.skipped}")] if record.skipped else []
            values += [("other programs", f"{busy} cores")] if (busy := busy_share(record)) else []
        if self.evaluation is not None:
            values.append(("validation", f"{self.evaluation.validation_loss:.4f}"))
        if self.best is not None:
            values.append(("best", f"{self.best.validation_loss:.4f}"))
        return values

    def say(self, message: str) -> None:
        """Shows a message to the user."""
        self.message = message
        if self.live is not None:
            self.draw()
        else:
            self.console.print(message, highlight=False, markup=False)

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            if self.record is not None:
                self.draw()
            self.live.stop()


def busy_share(record: StepRecord) -> str | None:
    """How many of the cores other programs used, if they left too few."""
    cores = len(usable_cores())
    return f"{record.busy_cores:.1f} of {cores}" if is_busy(record.busy_cores, cores) else None


def sample_line(sample: Sample) -> str:
    """A sample as a line."""
    made = printable_line(sample.made)
    if not sample.given:
        return f"writes: {made}"
    wanted = (
        "" if sample.wanted in (None, sample.made) else f"  (expected: {printable_line(sample.wanted or '')})"
    )
    return f"{printable_line(sample.given)} → {made}{wanted}"


def printable_line(text: str, most: int = 160) -> str:
    """A text without line breaks or terminal control characters, truncated."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def sample_block(sample: Sample) -> Text:
    """A sample in the display."""
    if sample.given:
        right = sample.made == sample.wanted
        text = Text(printable_line(sample.given) + "\n", style="dim")
        text.append(f"→ {printable_line(sample.made)}", style="green" if right else "default")
        if sample.wanted is not None and not right:
            text.append(f"\n  {printable_line(sample.wanted)}", style="dim")
        return text
    lines = [printable_line(line, 100) for line in sample.made.split("\n") if line.strip()]
    return Text("\n".join(lines[:SHOWN_LINES]), style="italic")


def sparkline(values: list[float], width: int) -> str:
    """A curve in one line of blocks."""
    size = -(-len(values) // width)
    means = [sum(group) / len(group) for group in (values[k : k + size] for k in range(0, len(values), size))]
    low, high = min(means), max(means)
    scale = (len(BLOCKS) - 1) / ((high - low) or 1)
    return "".join(BLOCKS[round((value - low) * scale)] for value in means)
