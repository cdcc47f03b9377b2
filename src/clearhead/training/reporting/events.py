"""Records enter; TensorBoard events leave, if `tensorboard` is installed (the extra `logs`)."""

from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.reporting.history import HeadScores, LogEntry


class Events:
    """Writes events into a folder; those of a run resumed at a step replace what came after it."""

    def __init__(self, folder: Path, step: int = 0) -> None:
        self.writer: Any = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(folder), purge_step=step + 1 if step else None)

    def add(self, record: LogEntry) -> None:
        """Writes the numbers, or the text, of a record."""
        if self.writer is None:
            return
        if isinstance(record, StepRecord):
            numbers = {
                "loss/training": record.loss,
                "learning rate": record.learning_rate,
                "gradient norm": record.gradient_norm,
                "tokens per second": record.tokens_per_second,
            }
        elif isinstance(record, EvaluationRecord):
            numbers = {"loss/validation": record.validation_loss, "accuracy/validation": record.accuracy}
        elif isinstance(record, HeadScores):
            numbers = {
                f"{score}/{head}": value
                for score, heads in record.scores.items()
                for head, value in heads.items()
            }
        else:
            lines = [record.given, record.made, *([] if record.wanted is None else [record.wanted])]
            indented = "\n\n".join("\n".join(f"    {line}" for line in text.split("\n")) for text in lines)
            self.writer.add_text("samples", indented, record.step)
            return
        for name, number in numbers.items():
            self.writer.add_scalar(name, number, record.step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.writer is not None:
            self.writer.close()
