"""What has happened in a run so far: records enter as they come, or from `log.jsonl`; curves and samples leave."""

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from clearhead.errors import DataError
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
        """The evaluation with the smallest loss."""
        return min(self.evaluations, key=lambda record: record.validation_loss, default=None)

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
    """The history that a log holds."""
    history = History()
    for record in records_of(path):
        history.add(record)
    return history


def cut_log(path: Path, step: int) -> History:
    """Takes what came after a step out of a log: a run that goes on from there writes it again."""
    history, lines = History(), []
    try:
        for record in records_of(path):
            if record.step <= step:
                history.add(record)
                lines.append(line_of(record))
    except DataError as error:  # as a machine may leave it that lost its power
        log.warning("%s has a damaged line, and ends before it: %s", path, error)
    write_whole(path, "".join(lines))
    return history


def records_of(path: Path) -> Iterator[Kept]:
    """The records of a log, if there is one; half a line at the end, from a run that was killed, is passed over."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in text.split("\n")[:-1]:
        try:
            values = json.loads(line)
            kind = KINDS[values.pop("kind")]
            numbers = {field.name for field in fields(kind) if field.type is float}
            missing = {key: math.nan for key in numbers if key in values and values[key] is None}
            yield kind(**values | missing)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} has a line that is no record: {line[:80]!r} ({error}).\nRemove it."
            ) from None
