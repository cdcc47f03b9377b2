"""What a rank does besides training: records enter; the first rank writes the run folder, the others write nothing.

Checkpoints are not written here: every rank takes part in them.
"""

import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TextIO

from clearhead import model_folder
from clearhead.config.run import RunConfig
from clearhead.errors import CheckpointError
from clearhead.inspection.kept_models import keep_model
from clearhead.models.model import Model
from clearhead.storage import write_atomically
from clearhead.training.evaluation.samples import Sampler
from clearhead.training.loop.records import EvaluationRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.reporting.card import card_of
from clearhead.training.reporting.events import Events
from clearhead.training.reporting.history import LogEntry, Sample, line_of, read_log, truncate_log
from clearhead.training.reporting.report import write_report
from clearhead.training.reporting.summary import RunSummary
from clearhead.training.run.disk import alone_in
from clearhead.training.run.folder import RunFolder, check_free, holds_run

log = logging.getLogger(__name__)


class Observer:
    """Follows a run without writing anything."""

    def __init__(self, summary: RunSummary) -> None:
        self.summary = summary

    @contextmanager
    def in_folder(self, resume: bool) -> Iterator[None]:
        """Around the whole run: the folder is ready, and nobody else writes to it."""
        yield

    @contextmanager
    def recording(self, trainer: Trainer, resume: bool, before: RunConfig | None) -> Iterator[None]:
        """Around training: records can be added. `before` are the settings of the checkpoint, if it has any."""
        yield

    def add(self, record: LogEntry) -> None:
        """Takes a record."""

    def after_evaluation(self, record: EvaluationRecord) -> list[Sample]:
        """What follows an evaluation, with the weights to keep in place; the samples, which are added too."""
        return []

    def keep_moment(self, step: int) -> None:
        """What follows a step whose weights are kept for the explorer, with these weights in place."""

    def before_checkpoint(self) -> None:
        """What must be on disk before a checkpoint is."""

    def finish(self) -> None:
        """What follows the last step, with the weights to keep in place."""
        self.summary = replace(self.summary, is_done=True)

    def measured(self, quality: dict[str, Any]) -> None:
        """Takes the scores of the best model."""
        self.summary = replace(self.summary, quality=quality)


class FolderWriter(Observer):
    """Writes the recipe, the log, the models and the report of a run."""

    def __init__(self, summary: RunSummary, model: Model) -> None:
        super().__init__(summary)
        self.folder = RunFolder(summary.out)
        self.sampler = Sampler(summary.config, summary.data, model)
        self.written: RunConfig | None = None  # the recipe that the folder had before
        self.lines: TextIO
        self.events: Events

    @contextmanager
    def in_folder(self, resume: bool) -> Iterator[None]:
        """Locks the folder, repairs it, and writes the recipe of a new run."""
        with alone_in(self.folder.path):
            if not resume:
                check_free(self.folder.path)
            if resume and holds_run(self.folder.path):
                self.written = RunConfig.read(self.folder.recipe)
                self.summary = replace(self.summary, trials=self.folder.read_trials())
            else:
                self.folder.write_recipe(self.summary.config, self.summary.notes)
                if self.summary.trials is not None:
                    self.folder.write_trials(self.summary.trials)
            self.folder.prepare()
            yield

    @contextmanager
    def recording(self, trainer: Trainer, resume: bool, before: RunConfig | None) -> Iterator[None]:
        """Truncates the log where training continues, and opens it."""
        if resume and not trainer.step:
            self.check_unstarted(trainer)
        if self.written is not None and trainer.step < trainer.steps:
            self.note_changes(self.written, before, trainer.step)
        history = truncate_log(self.folder.log, trainer.step if resume else -1, self.folder.best.exists())
        self.summary = replace(self.summary, history=history)
        with (
            self.folder.log.open("a", encoding="utf-8") as self.lines,
            Events(self.folder.tensorboard, trainer.step) as self.events,
        ):
            yield

    def check_unstarted(self, trainer: Trainer) -> None:
        """Refuses to restart a run that has had a checkpoint, so that its model is not lost by accident."""
        # The first checkpoint is on disk when the second is taken.
        if self.folder.last.exists() or read_log(self.folder.log).step >= 2 * trainer.checkpoint_every:
            raise CheckpointError(
                f"{self.folder.path} contains a model but no checkpoint, so the run cannot be resumed.\n"
                f"Start a new run, or one from that model: --training.init_from {shlex.quote(str(self.folder.best))}"
            )

    def note_changes(self, written: RunConfig, before: RunConfig | None, step: int) -> None:
        """Warns of settings that have changed since the checkpoint, and writes them into the recipe.

        The settings of the checkpoint count, as the recipe may have been edited since.
        """
        config, since = self.summary.config, f"from step {step:,}: "
        changes = [f"{since}{line}" for line in config.changes(before or written)]
        known = self.folder.read_notes()
        if new := [line for line in changes if line not in known]:
            log.warning("Changed settings: %s.", "; ".join(new))
        # No checkpoint was trained with what an earlier start changed at this same step.
        notes = [line for line in known if before is None or not line.startswith(since)] + changes
        if notes != known or any(config.changes(written)):
            self.folder.write_recipe(config, notes)

    def add(self, record: LogEntry) -> None:
        """Writes a record to the log and to TensorBoard."""
        self.lines.write(line_of(record))
        self.lines.flush()
        self.events.add(record)
        self.summary.history.add(record)

    def after_evaluation(self, record: EvaluationRecord) -> list[Sample]:
        """Keeps the best model, samples from it, and rewrites the report."""
        if record.is_best:
            self.keep("best")
        samples = self.sampler.samples(record.step)
        for sample in samples:
            self.add(sample)
        if (scores := self.sampler.head_scores(record.step)) is not None:
            self.add(scores)
        self.report()
        return samples

    def keep_moment(self, step: int) -> None:
        """Keeps the weights, with the training loss before them."""
        steps = self.summary.history.steps
        keep_model(self.folder.path, self.sampler.bundle, step, steps[-1].loss if steps else None)

    def before_checkpoint(self) -> None:
        """Flushes the log: a checkpoint never knows of more steps than the log."""
        self.lines.flush()
        os.fsync(self.lines.fileno())

    def finish(self) -> None:
        """Keeps the last model, also as the best if no evaluation has chosen one."""
        super().finish()
        self.keep("last")
        if not self.folder.best.exists():
            self.keep("best")
        self.report()

    def measured(self, quality: dict[str, Any]) -> None:
        """Writes the scores of the best model into its card, the report and a file of their own."""
        super().measured(quality)
        write_atomically(self.folder.best / model_folder.CARD, card_of(self.summary, "best"))
        write_report(self.summary)
        self.folder.write_quality(quality)

    def keep(self, name: str) -> None:
        """Writes the model folder of this name."""
        bundle = replace(self.sampler.bundle, card=card_of(self.summary, name))
        model_folder.save(self.folder.path / name, bundle)

    def report(self) -> None:
        """Writes the report, with the attention weights of the moment."""
        sample = next(iter(self.summary.history.last_samples()), None)
        self.summary = replace(self.summary, attention=self.sampler.attention(sample))
        write_report(self.summary)
