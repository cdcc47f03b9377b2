"""What report and card say about a run: its recipe and data, and what has happened so far."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.config.run import RunConfig
from clearhead.data.prepare import Prepared
from clearhead.inspection.figures import AttentionPicture
from clearhead.training.reporting.history import History


@dataclass(frozen=True)
class RunSummary:
    """A run at one moment."""

    out: Path
    config: RunConfig
    data: Prepared
    steps: int  # as planned
    parameters: int
    notes: list[str]  # the reasons for the settings that were chosen
    trials: dict[str, Any] | None = None  # the table of what was tried to choose them
    history: History = field(default_factory=History)
    quality: dict[str, Any] | None = None  # of the best model, once it is evaluated
    attention: AttentionPicture | None = None  # of the latest evaluation
    is_done: bool = False
