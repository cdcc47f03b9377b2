"""What has happened in a run so far: records enter as they come, or from `log.jsonl`; curves and samples leave."""

import json
import logging
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from clearhead.storage import write_whole
from clearhead.training.trainer import EvaluationRecord, Record, StepRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """What the model makes of one held-out text during training."""

    step: int
    given: str
    made: str
    wanted: str | None = None


Kept = Record | Sample
KINDS: dict[str, type[Kept]] = {"step": StepRecord, "evaluation": EvaluationRecord, "sample": Sample}


@dataclass
class History:
    """The records of a run, by kind, in the order of their steps."""

    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[EvaluationRecord] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def add(self, record: Kept) -> None:
        """Takes a record in."""
        if isinstance(record, StepRecord):
            self.steps.append(record)
        elif isinstance(record, EvaluationRecord):
            self.evaluations.append(record)
        else:
            self.samples.append(record)

    @property
    def step(self) -> int:
        """The last step that is known of."""
        return max((records[-1].step for records in (self.steps, self.evaluations) if records), default=0)

    @property
    def best(self) -> EvaluationRecord | None:
        """The evaluation of the model in `best/`: the newest that was the best so far; without such, the last."""
        newest = list(reversed(self.evaluations))
        return next((record for record in newest if record.is_best), newest[0] if newest else None)

    def last_samples(self) -> list[Sample]:
        """The samples of the newest evaluation that has any."""
        return [sample for sample in self.samples if sample.step == self.samples[-1].step]


def line_of(record: Kept) -> str:
    """A record as a line of the log."""
    kind = next(name for name, kind in KINDS.items() if isinstance(record, kind))
    values = {key: None if is_nan(value) else value for key, value in asdict(record).items()}
    return json.dumps({"kind": kind} | values, ensure_ascii=False) + "\n"


def is_nan(value: object) -> bool:
    """Whether it is no number; JSON has no word for that, and the log says null."""
    return isinstance(value, float) and math.isnan(value)


def read_log(path: Path) -> History:
    """The history that a log holds, up to where it is damaged."""
    return history_of(records_of(path)[0])


def history_of(records: Iterable[Kept]) -> History:
    """Records, one after the other, as a history."""
    history = History()
    for record in records:
        history.add(record)
    return history


def cut_log(path: Path, step: int, has_best: bool = True) -> History:
    """Takes what came after a step out of a log: a run that goes on from there writes it again.

    Where the best model is gone, no evaluation is called that of the best any more.
    """
    records, damage = records_of(path)
    if damage:  # as a machine may leave it that lost its power
        log.warning("%s has a damaged line, and ends before it: %s.", path, damage)
    kept = [record for record in records if record.step <= step]
    if not has_best:
        kept = [replace(one, is_best=False) if isinstance(one, EvaluationRecord) else one for one in kept]
    write_whole(path, "".join(map(line_of, kept)))
    return history_of(kept)


def records_of(path: Path) -> tuple[list[Kept], str]:
    """The records of a log, if there is one, up to a line that is none, and what is wrong with that.

    Half a line at the end, from a run that was killed, is passed over.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    records: list[Kept] = []
    for line in text.split("\n")[:-1]:
        try:
            records.append(record_of(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return records, f"{line[:80]!r} ({error})"
    return records, ""


def record_of(line: str) -> Kept:
    """The record of a line; the reverse of `line_of`."""
    values = json.loads(line)
    kind = KINDS[values.pop("kind")]
    for one in fields(kind):
        value = values.get(one.name, one.default)
        if one.type is float:
            values[one.name] = math.nan if value is None else float(value)
        elif not isinstance(value, one.type):  # type: ignore[arg-type]
            raise TypeError(f"{one.name} is {value!r}")
    return kind(**values)
