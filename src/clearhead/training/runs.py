"""A whole run: a recipe enters; a run folder with the log, checkpoints, the best and the last model leaves.

runs/NAME/recipe.toml     what is run, with steps where the recipe said epochs or minutes
runs/NAME/log.jsonl       one record a line
runs/NAME/checkpoints/    to go on from
runs/NAME/best/, last/    model folders
runs/NAME/quality.json    the numbers of the best model on held-out data
runs/NAME/report.html     curves, samples, attention, data, settings; written anew at each evaluation
runs/NAME/tensorboard/    events, where it is installed
"""

import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import torch

from clearhead import checkpoint as folder
from clearhead.checkpoint import Checkpoint
from clearhead.config.run import RunConfig
from clearhead.config.training import TrainingConfig
from clearhead.data.prepare import Prepared, prepare
from clearhead.data.progress import Listener, unheard
from clearhead.decoding.generate import Generator, Task
from clearhead.decoding.read import Reader
from clearhead.errors import CheckpointError
from clearhead.inspection.figures import Attention, attention_of
from clearhead.models.build import Model, build
from clearhead.storage import mend, write_whole
from clearhead.text.conversations import first_question
from clearhead.text.examples import Conversation, Example, Labelled, Pair, Text
from clearhead.text.sources import read_split
from clearhead.training import snapshots
from clearhead.training.begin import begin
from clearhead.training.card import card_of
from clearhead.training.disk import alone_in, told_when_full
from clearhead.training.distributed import is_first, one_ahead, ranks, told_by_first
from clearhead.training.evaluate import Evaluation
from clearhead.training.events import Events
from clearhead.training.facts import settings_of
from clearhead.training.history import History, Sample, cut_log, line_of, read_log
from clearhead.training.place import CHECKPOINTS, LOG, QUALITY, RECIPE, check_free, holds_run
from clearhead.training.plan import Plan, check_size, make_plan, model_config
from clearhead.training.report import write_report
from clearhead.training.saver import Saver
from clearhead.training.trainer import EvaluationRecord, Record, Trainer

log = logging.getLogger(__name__)

LOOKED_THROUGH = 1000  # held-out examples among which samples are looked for


@dataclass
class Run:
    """A run that is ready to start: its data, its model and its plan."""

    config: RunConfig
    data: Prepared
    model: Model
    plan: Plan
    out: Path
    notes: list[str] = field(default_factory=list)  # the reasons for what was chosen, kept with the recipe
    history: History = field(default_factory=History)
    quality: dict[str, Any] | None = None  # of the best model, once it is evaluated
    is_done: bool = False
    is_stopping: bool = False  # somebody has asked it to
    trainer: Trainer | None = None
    attention: Attention | None = None  # of the newest evaluation
    before: RunConfig | None = (
        None  # its settings until the checkpoint that it goes on from, where that says them
    )

    @property
    def checkpoint(self) -> Checkpoint:
        """The model as it is now, with what it needs to meet text."""
        source, target = self.data.tokenizers.source, self.data.tokenizers.target
        labels = list(self.data.labels) if self.config.task == "classify" else None
        return Checkpoint(self.model, target, None if source is target else source, labels)

    def train(self, resume: bool = False) -> Iterator[Record | Sample]:
        """Trains to the end, and keeps the log, the checkpoints, the models and the report as it goes.

        Killed at any moment, a run that resumes ends with the same bits as one that was never killed.
        """
        if not is_first():
            with told_when_full(self.out):
                yield from self.follow(resume)
            return
        with told_when_full(self.out), alone_in(self.out):
            trainer = self.begin(resume)
            with (
                (self.out / LOG).open("a", encoding="utf-8") as lines,
                self.events(trainer.step) as events,
                Saver(self.out / CHECKPOINTS, trainer) as saver,
            ):

                def note(record: Record | Sample) -> Record | Sample:
                    lines.write(line_of(record))
                    events.add(record)
                    self.history.add(record)
                    return record

                def save() -> None:
                    lines.flush()
                    os.fsync(lines.fileno())  # a checkpoint never knows of more than the log
                    saver.save()

                for record in trainer.train():
                    yield note(record)
                    lines.flush()
                    if isinstance(record, EvaluationRecord):
                        with trainer.shown():
                            samples = [note(sample) for sample in self.after_evaluation(record)]
                            self.report()
                        yield from samples
                    if trainer.saves_after(record):
                        save()
                save()
            if not trainer.stops:
                with trainer.shown():
                    self.finish()

    def follow(self, resume: bool) -> Iterator[Record]:
        """What the ranks behind the first do: they take part in all, and write only their parts of checkpoints."""
        trainer = self.make_trainer(resume)
        with Saver(self.out / CHECKPOINTS, trainer) as saver:
            for record in trainer.train():
                yield record
                if isinstance(record, EvaluationRecord):
                    with trainer.shown():
                        pass
                if trainer.saves_after(record):
                    saver.save()
            saver.save()
        self.is_done = not trainer.stops
        if self.is_done:
            with trainer.shown():
                pass

    def begin(self, resume: bool) -> Trainer:
        """The trainer, where the run begins or goes on; what a kill left half done in the folder is mended."""
        kept = self.out / CHECKPOINTS
        if not resume:
            check_free(self.out)
        written = RunConfig.read(self.out / RECIPE) if resume and holds_run(self.out) else None
        if written is None:
            self.write_recipe(self.notes)
        kept.mkdir(exist_ok=True)
        for place in (kept, self.out, self.out / "best", self.out / "last"):
            mend(place)
        trainer = self.make_trainer(resume)
        if resume and not trainer.step:
            self.check_unbegun(trainer)
        if written is not None and trainer.step < trainer.steps:
            self.tell_changes(written, trainer.step)
        self.history = cut_log(self.out / LOG, trainer.step if resume else -1, (self.out / "best").exists())
        return trainer

    def check_unbegun(self, trainer: Trainer) -> None:
        """Refuses to begin again where a run has had a checkpoint, so that nobody loses its model unasked."""
        # The first one is on the disk when the second is taken.
        if (self.out / "last").exists() or read_log(self.out / LOG).step >= 2 * trainer.checkpoint_every:
            raise CheckpointError(
                f"{self.out} holds a model, but no checkpoint to go on from.\nBegin a new run, or start one from the "
                f"model that is there: --training.init_from {self.out / 'best'}."
            )

    def make_trainer(self, resume: bool) -> Trainer:
        """The trainer, where the newest checkpoint was taken if the run goes on."""
        self.trainer = Trainer(self.config, self.data, self.model, self.plan.steps)
        facts = snapshots.restore_newest(self.out / CHECKPOINTS, self.trainer) if resume else None
        self.before = settings_of(facts) if facts else None
        self.check_best(self.trainer)
        self.trainer.is_stopping = self.is_stopping
        return self.trainer

    def check_best(self, trainer: Trainer) -> None:
        """Lets a trainer, on each rank, look for the best model anew where that of before is gone."""
        if not math.isfinite(trainer.best_loss):
            return
        if told_by_first(lambda: "there" if (self.out / "best").exists() else "gone") == "gone":
            trainer.best_loss, trainer.evaluations_since_best = math.inf, 0
            if is_first():
                log.warning(
                    "%s is gone: the best of the evaluations that follow takes its place, or else the last model.",
                    self.out / "best",
                )

    def finish(self) -> None:
        """Keeps the last model, also as the best where no evaluation has told which that is."""
        self.is_done = True
        self.keep("last")
        if not (self.out / "best").exists():
            self.keep("best")
        self.report()

    def write_recipe(self, notes: Iterable[str]) -> None:
        """Writes the recipe, under comments that give the reasons."""
        comments = "".join(f"# {line}\n" for note in notes for line in note.splitlines())
        write_whole(self.out / RECIPE, f"{comments}{self.config.to_toml()}")

    def tell_changes(self, written: RunConfig, step: int) -> None:
        """Tells the settings that are others than before, which the checkpoint has let pass, and writes them down.

        Before is what the checkpoint says: the recipe may have been changed by hand.
        """
        since = f"from step {step:,} on: "
        changes = [f"{since}{line}" for line in self.config.changes(self.before or written)]
        lines = (self.out / RECIPE).read_text(encoding="utf-8-sig").splitlines()
        told = [
            line.removeprefix("#").strip() for line in takewhile(lambda line: line.startswith("#"), lines)
        ]
        if new := [line for line in changes if line not in told]:
            log.warning("Settings have changed, %s.", "; ".join(new))
        # What was changed at this step before was not kept by any checkpoint.
        notes = [line for line in told if self.before is None or not line.startswith(since)] + changes
        if notes != told or any(self.config.changes(written)):
            self.write_recipe(notes)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.history.step if self.trainer is None else self.trainer.step

    def stop(self) -> None:
        """Ends training after the step that is running, with a checkpoint to go on from."""
        self.is_stopping = True
        if self.trainer is not None:
            self.trainer.is_stopping = True

    def events(self, step: int) -> Events:
        """The TensorBoard events of this run, from a step on."""
        return Events(self.out / "tensorboard", step)

    def after_evaluation(self, record: EvaluationRecord) -> list[Sample]:
        """Keeps the best model, and lets the model try some held-out texts."""
        if record.is_best:
            self.keep("best")
        return self.samples(record.step)

    def keep(self, name: str) -> None:
        """Writes the model folder of this name."""
        folder.save(self.out / name, replace(self.checkpoint, card=card_of(self, name)))

    def report(self) -> None:
        """Writes report.html, with the attention of a text as it is now."""
        with self.at_rest():
            self.attention = self.look()
        write_report(self)

    def look(self) -> Attention | None:
        """The attention of the first sample, or of the first held-out text where there are no samples."""
        if not self.checkpoint.config.attentions():
            return None
        sample = next(iter(self.history.last_samples()), None)
        if self.config.task == "translate":
            return attention_of(self.checkpoint, sample.given, sample.made) if sample else None
        for example in self.held_out[:1]:
            if isinstance(example, Conversation):
                return attention_of(self.checkpoint, first_question(self.data.tokenizers.target, example).ids)
        text = sample.given or sample.made if sample else "".join(e.text for e in self.held_out[:1])
        return attention_of(self.checkpoint, text)

    @cached_property
    def held_out(self) -> list[Any]:
        """The first validation examples that the model has room for."""
        reader = read_split(self.config.data, self.config.kind, "validation")
        found = [] if reader is None else filter(self.fits, islice(reader, LOOKED_THROUGH))
        return list(islice(found, max(1, self.config.training.samples)))

    def fits(self, example: Example) -> bool:
        """Whether an example's input is no longer than the context; a text to learn from can be cut anywhere."""
        context = self.config.model.context
        if context is None or isinstance(example, Text):
            return True
        text = example.source if isinstance(example, Pair) else example.text
        return len(self.data.tokenizers.source.encode(text, begin=True, end=True)) <= context

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """The model as it is used: without dropout."""
        was_training = self.model.training
        self.model.eval()
        try:
            yield
        finally:
            self.model.train(was_training)

    @torch.inference_mode()
    def samples(self, step: int) -> list[Sample]:
        """Some held-out texts and what the model makes of them."""
        count, task = self.config.training.samples, self.config.task
        if not count or task == "masked-language-model":
            return []
        with self.at_rest():
            return [Sample(step, *one) for one in SAMPLERS[task](self, count)]

    def evaluate(
        self, split: str = "test", progress: Callable[[int], None] = lambda done: None
    ) -> dict[str, Any] | None:
        """The numbers of the best model on the test data, or on the validation data where there is none."""
        reader = read_split(self.config.data, self.config.kind, split)  # type: ignore[arg-type]
        if reader is None:
            return None if split == "validation" else self.evaluate("validation", progress)
        training = self.config.training
        # As much at a time as this rank has read in training.
        tokens = max(1, training.batch_tokens // (training.accumulate * ranks()))
        evaluation = Evaluation(folder.load(self.out / "best"), tokens)
        self.quality = {"split": split} | evaluation.run(reader, self.config.decoding, progress=progress)
        write_whole(self.out / "best" / folder.CARD, card_of(self, "best"))
        write_report(self)
        write_whole(self.out / QUALITY, json.dumps(self.quality, ensure_ascii=False))
        return self.quality


def sample_text(run: Run, count: int) -> list[tuple[str, ...]]:
    """What a language model writes from nothing, or answers where it learns from conversations."""
    if talks := [example for example in run.held_out[:count] if isinstance(example, Conversation)]:
        return sample_answers(run, talks)
    room = min(120, (run.config.model.context or 122) - 2)
    settings = run.config.decoding.replace(max_tokens=max(1, room))
    generator = Generator(run.checkpoint)
    written = (generator.write([""], settings.replace(seed=seed))[0] for seed in range(1, count + 1))
    return [("", best[0].text) for best in written]


def sample_answers(run: Run, talks: list[Conversation]) -> list[tuple[str, ...]]:
    """What begins some conversations, and how the model answers, greedily."""
    asked = [first_question(run.data.tokenizers.target, talk) for talk in talks]
    settings = run.config.decoding.replace(beam=1, temperature=0.0, n_best=1, max_tokens=100)
    generator = Generator(run.checkpoint)
    written = generator.do([Task([*generator.frame.before, *one.ids]) for one in asked], settings)
    return [(one.text, best[0].text, one.answer) for one, best in zip(asked, written, strict=True)]


def sample_translations(run: Run, count: int) -> list[tuple[str, str, str]]:
    """Validation pairs, and how the model translates their sources, greedily."""
    pairs = [example for example in run.held_out[:count] if isinstance(example, Pair)]
    settings = run.config.decoding.replace(beam=1, temperature=0.0, n_best=1, max_tokens=100)
    written = Generator(run.checkpoint).write([pair.source for pair in pairs], settings)
    return [(pair.source, best[0].text, pair.target) for pair, best in zip(pairs, written, strict=True)]


def sample_classes(run: Run, count: int) -> list[tuple[str, str, str]]:
    """Validation texts, and what the model says of them."""
    texts = [example for example in run.held_out[:count] if isinstance(example, Labelled)]
    reader = Reader(run.checkpoint)
    made = reader.classify([reader.ids(text.text) for text in texts])
    return [(text.text, answer.label, text.label) for text, answer in zip(texts, made, strict=True)]


SAMPLERS: dict[str, Callable[[Run, int], list[Any]]] = {
    "language-model": sample_text,
    "translate": sample_translations,
    "classify": sample_classes,
}


def as_long_as(begun: RunConfig, config: RunConfig) -> RunConfig:
    """A recipe to go on with, where it says no steps with those that the plan has made of its epochs or minutes."""
    given, stored = config.training, begun.training
    every = given.checkpoint_every or stored.checkpoint_every
    return config.replace(training=counted(given, given.steps or stored.steps, every))


def counted(training: TrainingConfig, steps: int | None, checkpoint_every: int | None) -> TrainingConfig:
    """Settings in steps, whatever they were in."""
    return training.replace(steps=steps, epochs=None, minutes=None, checkpoint_every=checkpoint_every)


def make_run(config: RunConfig, out: Path, progress: Listener = unheard) -> Run:
    """Prepares the data, builds the model and makes the plan; nothing is written yet."""
    start = begin(config.anchored(Path.cwd()), out)  # the recipe of the run lies elsewhere
    config = start.config
    with one_ahead():
        data = prepare(config, progress, start.tokenizers)
    settings = model_config(config, data)
    check_size(settings, config.training)
    model = build(settings, config.training.seed)
    start.enter(model, data)
    plan = make_plan(config, data, model, out)
    training = counted(config.training, plan.steps, plan.checkpoint_every)
    config = config.replace(model=settings, training=training)
    return Run(config, data, model, plan, out, start.notes)
