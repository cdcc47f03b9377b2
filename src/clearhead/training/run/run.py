"""A whole run: a recipe enters; records leave as it trains, and a run folder with the models (see `folder`)."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.config.run import RunConfig
from clearhead.config.training import TrainingConfig
from clearhead.data.prepare import Prepared, prepare
from clearhead.data.progress import ProgressListener, ignore_progress
from clearhead.errors import ConfigError, DataError, TokenizerError
from clearhead.examples import Split
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.text.sources.read import read_split
from clearhead.training.checkpoints.background import Saver
from clearhead.training.checkpoints.metadata import settings_of
from clearhead.training.checkpoints.restore import restore_latest
from clearhead.training.distributed.ranks import broadcast_from_first, is_first, one_rank_first, ranks
from clearhead.training.evaluation.calibration import load_calibrated
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.loop.records import EvaluationRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.reporting.history import History, LogEntry
from clearhead.training.reporting.summary import RunSummary
from clearhead.training.run.disk import explain_full_disk
from clearhead.training.run.folder import RunFolder
from clearhead.training.run.observers import FolderWriter, Observer
from clearhead.training.run.plan import Plan, make_plan, model_config
from clearhead.training.run.requirements import check_size
from clearhead.training.run.start import resolve_start

log = logging.getLogger(__name__)


@dataclass
class Run:
    """A run that is ready to start: its data, its model and its plan."""

    config: RunConfig
    data: Prepared
    model: Model
    plan: Plan
    out: Path
    notes: list[str] = field(default_factory=list)  # the reasons for the settings that were chosen
    is_stopping: bool = False  # someone has asked it to
    trainer: Trainer | None = None
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        summary = RunSummary(self.out, self.config, self.data, plan.steps, plan.parameters, self.notes)
        self.observer = FolderWriter(summary, self.model) if is_first() else Observer(summary)

    def train(self, resume: bool = False) -> Iterator[LogEntry]:
        """Trains to the end; every rank takes the same path, and the observer of the first writes the folder.

        Killed at any moment and resumed, a run ends with the same bits as one that was never killed.
        """
        with explain_full_disk(self.out), self.observer.in_folder(resume):
            trainer, before = self.make_trainer(resume)
            with (
                self.observer.recording(trainer, resume, before),
                Saver(RunFolder(self.out).checkpoints, trainer) as saver,
            ):
                if not trainer.step and 0 in trainer.kept_steps:
                    with trainer.weights_to_save():
                        self.observer.keep_moment(0)
                for record in trainer.train():
                    self.observer.add(record)
                    yield record
                    if isinstance(record, EvaluationRecord):
                        with trainer.weights_to_save():
                            samples = self.observer.after_evaluation(record)
                        yield from samples
                    if trainer.keeps_after(record):
                        with trainer.weights_to_save():
                            self.observer.keep_moment(record.step)
                    if trainer.saves_after(record):
                        self.observer.before_checkpoint()
                        saver.save()
                self.observer.before_checkpoint()
                saver.save()
            if not trainer.is_stopped:
                with trainer.weights_to_save():
                    self.observer.finish()

    def make_trainer(self, resume: bool) -> tuple[Trainer, RunConfig | None]:
        """The trainer, where the latest checkpoint was taken if the run resumes; and that checkpoint's settings."""
        trainer = self.trainer = Trainer(self.config, self.data, self.model, self.plan.steps)
        metadata = restore_latest(RunFolder(self.out).checkpoints, trainer) if resume else None
        self.check_best(trainer)
        trainer.is_stopping = self.is_stopping
        return trainer, settings_of(metadata) if metadata else None

    def check_best(self, trainer: Trainer) -> None:
        """Lets the trainers of all ranks look for the best model again if the one so far is missing."""
        best = RunFolder(self.out).best
        if not math.isfinite(trainer.best_loss):
            return
        if broadcast_from_first(lambda: "present" if best.exists() else "missing") == "missing":
            trainer.best_loss, trainer.evaluations_since_best = math.inf, 0
            if is_first():
                log.warning(
                    "%s is missing. The best of the remaining evaluations replaces it, or else the last model.",
                    best,
                )

    def stop(self) -> None:
        """Ends training after the current step, with a checkpoint to resume from."""
        self.is_stopping = True
        if self.trainer is not None:
            self.trainer.is_stopping = True

    @property
    def step(self) -> int:
        """Steps done."""
        return self.history.step if self.trainer is None else self.trainer.step

    @property
    def summary(self) -> RunSummary:
        """The run as it is now, for report and card."""
        return self.observer.summary

    @property
    def history(self) -> History:
        """The records so far; empty on all ranks but the first."""
        return self.summary.history

    @property
    def quality(self) -> dict[str, Any] | None:
        """The scores of the best model, once it is evaluated."""
        return self.summary.quality

    @property
    def is_done(self) -> bool:
        """Whether the last step is done, and nobody stopped the run before it."""
        return self.summary.is_done

    def evaluate(
        self, split: Split = "test", progress: Callable[[int], None] = lambda done: None
    ) -> dict[str, Any] | None:
        """The scores of the best model on the test data, or on the validation data if there is none."""
        reader = read_split(self.config.data, self.config.kind, split)
        if reader is None:
            return None if split == "validation" else self.evaluate("validation", progress)
        training = self.config.training
        # As much at a time as this rank has read in training.
        tokens = max(1, training.batch_tokens // (training.accumulate * ranks()))
        evaluation = Evaluation(load_calibrated(RunFolder(self.out).best, self.config, tokens), tokens)
        quality = {"split": split} | evaluation.run(reader, self.config.decoding, progress=progress)
        self.observer.measured(quality)
        return quality


def keep_length(started: RunConfig, config: RunConfig) -> RunConfig:
    """A recipe to resume with; steps and number format are those that the plan chose, unless it gives others."""
    given, stored = config.training, started.training
    every = given.checkpoint_every or stored.checkpoint_every
    if given.precision == "auto":  # it was measured when the run started
        given = given.replace(precision=stored.precision)
    return config.replace(training=in_steps(given, given.steps or stored.steps, every))


def in_steps(training: TrainingConfig, steps: int | None, checkpoint_every: int | None) -> TrainingConfig:
    """Settings in steps, whatever they were in."""
    return training.replace(steps=steps, epochs=None, minutes=None, checkpoint_every=checkpoint_every)


@contextmanager
def nothing_left_explained(config: RunConfig) -> Iterator[None]:
    """Names the shares that are held out as the reason if no example is left to train on."""
    try:
        yield
    except (TokenizerError, DataError):
        shares = config.data.shares
        if not shares or next(iter(read_split(config.data, config.kind, "train") or ()), None) is not None:
            raise
        held = " and ".join(f"data.{split} = {share:g}" for split, share in shares.items())
        raise ConfigError(
            f"{held} leaves nothing to train on.\nHold out less, such as data.validation = 0.1."
        ) from None


def make_run(
    config: RunConfig,
    out: Path,
    progress: ProgressListener = ignore_progress,
    on_plan: Callable[[], None] = lambda: None,
) -> Run:
    """Prepares the data, builds the model and makes the plan, after a call of `on_plan`; nothing is written yet."""
    start = resolve_start(config.anchored(Path.cwd()), out)  # the recipe of the run is in another folder
    config = start.config
    with one_rank_first(), nothing_left_explained(config):
        data = prepare(config, progress, start.tokenizers)
    settings = model_config(config, data)
    check_size(settings, config.training)
    model = build(settings, config.training.seed)
    start.initialise(model, data)
    on_plan()
    plan = make_plan(config, data, model, out)
    training = in_steps(config.training, plan.steps, plan.checkpoint_every)
    training = training.replace(precision=plan.precision)  # so that the run resumes with it on any machine
    config = config.replace(model=settings, training=training)
    return Run(config, data, model, plan, out, start.notes)
