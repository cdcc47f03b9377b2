"""What has happened in a run so far: records enter, one by one or from `log.jsonl`; a history leaves, and log lines."""

import json
import logging
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import get_origin

from clearhead.storage import write_atomically
from clearhead.training.loop.records import EvaluationRecord, Record, StepRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """What the model makes of one held-out text during training."""

    step: int
    given: str
    made: str
    wanted: str | None = None


@dataclass(frozen=True)
class HeadScores:
    """Where the heads look after some steps: of each score, such as induction, the value of every head that has it."""

    step: int
    scores: dict[str, dict[str, float]]


LogEntry = Record | Sample | HeadScores
KINDS: dict[str, type[LogEntry]] = {
    "step": StepRecord,
    "evaluation": EvaluationRecord,
    "sample": Sample,
    "heads": HeadScores,
}


@dataclass
class History:
    """The records of a run, by kind, in the order of their steps."""

    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[EvaluationRecord] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    heads: list[HeadScores] = field(default_factory=list)

    def add(self, record: LogEntry) -> None:
        """Appends a record."""
        if isinstance(record, StepRecord):
            self.steps.append(record)
        elif isinstance(record, EvaluationRecord):
            self.evaluations.append(record)
        elif isinstance(record, HeadScores):
            self.heads.append(record)
        else:
            self.samples.append(record)

    @property
    def step(self) -> int:
        """The last step on record."""
        return max((records[-1].step for records in (self.steps, self.evaluations) if records), default=0)

    @property
    def best(self) -> EvaluationRecord | None:
        """The evaluation of the model in `best/`: the latest that was the best so far, or else the last."""
        latest_first = list(reversed(self.evaluations))
        return next((record for record in latest_first if record.is_best), next(iter(latest_first), None))

    def last_samples(self) -> list[Sample]:
        """The samples of the latest evaluation that has any."""
        return [sample for sample in self.samples if sample.step == self.samples[-1].step]


def line_of(record: LogEntry) -> str:
    """A record as a line of the log."""
    kind = next(name for name, kind in KINDS.items() if isinstance(record, kind))
    values = {key: None if is_nan(value) else value for key, value in asdict(record).items()}
    return json.dumps({"kind": kind} | values, ensure_ascii=False) + "\n"


def is_nan(value: object) -> bool:
    """Whether a value is NaN, which JSON cannot represent: the log says null."""
    return isinstance(value, float) and math.isnan(value)


def read_log(path: Path) -> History:
    """The history of a log, up to where it is damaged."""
    return history_of(records_of(path)[0])


def history_of(records: Iterable[LogEntry]) -> History:
    """The history of some records."""
    history = History()
    for record in records:
        history.add(record)
    return history


def truncate_log(path: Path, step: int, has_best: bool = True) -> History:
    """Removes what came after a step from a log: a run resumed there writes it again.

    If the best model is missing, no evaluation is marked as the best any more.
    """
    records, damage = records_of(path)
    if damage:  # as a power failure may leave it
        log.warning("%s has a damaged line and was truncated before it: %s.", path, damage)
    kept = [record for record in records if record.step <= step]
    if not has_best:
        kept = [replace(one, is_best=False) if isinstance(one, EvaluationRecord) else one for one in kept]
    write_atomically(path, "".join(map(line_of, kept)))
    return history_of(kept)


def records_of(path: Path) -> tuple[list[LogEntry], str]:
    """The records of a log, if it exists, up to a damaged line, and what is wrong with that line.

    An incomplete line at the end, from a killed run, is ignored.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    records: list[LogEntry] = []
    for line in text.split("\n")[:-1]:
        try:
            records.append(record_of(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return records, f"{line[:80]!r} ({error})"
    return records, ""


def record_of(line: str) -> LogEntry:
    """The record of a line; the reverse of `line_of`."""
    values = json.loads(line)
    kind = KINDS[values.pop("kind")]
    for one in fields(kind):
        value = values.get(one.name, one.default)
        if one.type is float:
            values[one.name] = math.nan if value is None else float(value)
        elif not isinstance(value, dict if get_origin(one.type) is dict else one.type):  # type: ignore[arg-type]
            raise TypeError(f"{one.name} is {value!r}")
    return kind(**values)
