"""A whole run: a recipe enters; a run folder with the log, checkpoints, the best and the last model leaves.

runs/NAME/recipe.toml     what is run, with steps where the recipe said epochs or minutes
runs/NAME/log.jsonl       one record a line
runs/NAME/checkpoints/    to go on from
runs/NAME/best/, last/    model folders
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead import checkpoint as folder
from clearhead.checkpoint import Checkpoint
from clearhead.config.run import RunConfig
from clearhead.data.prepare import Prepared, prepare
from clearhead.data.progress import Listener, unheard
from clearhead.data.tokenizers import Tokenizers
from clearhead.decoding.generate import Generator
from clearhead.decoding.read import Reader
from clearhead.errors import ConfigError
from clearhead.models.build import Model, build
from clearhead.text.examples import Labelled, Pair
from clearhead.text.sources import read_split
from clearhead.training import snapshots
from clearhead.training.evaluate import Evaluation
from clearhead.training.plan import Plan, make_plan, model_config
from clearhead.training.trainer import EvaluationRecord, Record, Trainer


@dataclass(frozen=True)
class Sample:
    """What the model makes of one held-out text during training."""

    step: int
    given: str
    made: str
    wanted: str | None = None


@dataclass
class Run:
    """A run that is ready to start: its data, its model and its plan."""

    config: RunConfig
    data: Prepared
    model: Model
    plan: Plan
    out: Path

    @property
    def checkpoint(self) -> Checkpoint:
        """The model as it is now, with what it needs to meet text."""
        source, target = self.data.tokenizers.source, self.data.tokenizers.target
        labels = list(self.data.labels) if self.config.task == "classify" else None
        return Checkpoint(self.model, target, None if source is target else source, labels)

    def train(self, resume: bool = False) -> Iterator[Record | Sample]:
        """Trains to the end, and keeps the log, the checkpoints and the models as it goes."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.config.write(self.out / "recipe.toml")
        trainer = Trainer(self.config, self.data, self.model, self.plan.steps)
        kept = snapshots.snapshots(self.out / "checkpoints")
        if resume and kept:
            snapshots.restore(kept[-1], trainer)
        every = self.config.training.checkpoint_every or trainer.evaluate_every
        with (self.out / "log.jsonl").open("a" if resume else "w", encoding="utf-8") as log:
            for record in trainer.train():
                yield self.note(record, log.write)
                log.flush()
                if isinstance(record, EvaluationRecord):
                    yield from (
                        self.note(sample, log.write) for sample in self.after_evaluation(record, trainer)
                    )
                if record.step % every == 0:
                    snapshots.save(self.out / "checkpoints", trainer, self.config.training.keep_checkpoints)
        self.keep("last", trainer)
        if not (self.out / "best").exists():
            self.keep("best", trainer)

    def note(self, record: Record | Sample, write: Callable[[str], Any]) -> Record | Sample:
        """Writes a record into the log."""
        write(
            json.dumps({"kind": type(record).__name__.removesuffix("Record").lower()} | asdict(record)) + "\n"
        )
        return record

    def after_evaluation(self, record: EvaluationRecord, trainer: Trainer) -> list[Sample]:
        """Keeps the best model, and lets the model try some held-out texts."""
        if record.is_best:
            self.keep("best", trainer)
        with trainer.average.applied():
            return self.samples(record.step)

    def keep(self, name: str, trainer: Trainer) -> None:
        """Writes the model folder of this name."""
        with trainer.average.applied():
            folder.save(self.out / name, self.checkpoint)

    @torch.inference_mode()
    def samples(self, step: int) -> list[Sample]:
        """Some held-out texts and what the model makes of them."""
        count, task = self.config.training.samples, self.config.task
        if not count or task == "masked-language-model":
            return []
        was_training = self.model.training
        self.model.eval()
        made = SAMPLERS[task](self, count)
        self.model.train(was_training)
        return [Sample(step, *one) for one in made]

    def evaluate(self, split: str = "test") -> dict[str, Any] | None:
        """The numbers of the best model on the test data, or on the validation data where there is none."""
        reader = read_split(self.config.data, self.config.kind, split)  # type: ignore[arg-type]
        if reader is None:
            return None if split == "validation" else self.evaluate("validation")
        best = folder.load(self.out / "best")
        return {"split": split} | Evaluation(best).run(reader, self.config.decoding)


def sample_text(run: Run, count: int) -> list[tuple[str, str]]:
    """What a language model writes from nothing."""
    settings = run.config.decoding.replace(max_tokens=min(120, (run.config.model.context or 121) - 2), seed=1)
    written = Generator(run.checkpoint).write([""] * count, settings)
    return [("", best[0].text) for best in written]


def sample_translations(run: Run, count: int) -> list[tuple[str, str, str]]:
    """Validation pairs, and how the model translates their sources, greedily."""
    pairs = [example for example in held_out(run, count) if isinstance(example, Pair)]
    settings = run.config.decoding.replace(beam=1, temperature=0.0, n_best=1, max_tokens=100)
    written = Generator(run.checkpoint).write([pair.source for pair in pairs], settings)
    return [(pair.source, best[0].text, pair.target) for pair, best in zip(pairs, written, strict=True)]


def sample_classes(run: Run, count: int) -> list[tuple[str, str, str]]:
    """Validation texts, and what the model says of them."""
    texts = [example for example in held_out(run, count) if isinstance(example, Labelled)]
    reader = Reader(run.checkpoint)
    made = reader.classify([reader.ids(text.text) for text in texts])
    return [(text.text, answer.label, text.label) for text, answer in zip(texts, made, strict=True)]


SAMPLERS: dict[str, Callable[[Run, int], list[Any]]] = {
    "language-model": sample_text,
    "translate": sample_translations,
    "classify": sample_classes,
}


def held_out(run: Run, count: int) -> list[Any]:
    """The first validation examples."""
    reader = read_split(run.config.data, run.config.kind, "validation")
    return [] if reader is None else [example for example, _ in zip(reader, range(count), strict=False)]


def make_run(config: RunConfig, out: Path, progress: Listener = unheard) -> Run:
    """Prepares the data, builds the model and makes the plan; nothing is written yet."""
    given = None if config.training.init_from is None else folder.load(config.training.init_from)
    data = prepare(config, progress, None if given is None else tokenizers_of(given))
    settings = model_config(config, data)
    model = build(settings, config.training.seed)
    if given is not None:
        take_weights(model, given.module)
    plan = make_plan(config, data, model)
    lengths = {"steps": plan.steps, "epochs": None, "minutes": None}
    config = config.replace(model=settings, training=config.training.replace(**lengths))
    return Run(config, data, model, plan, out)


def tokenizers_of(given: Checkpoint) -> Tokenizers | None:
    """The tokenizers of a model to start from."""
    if given.tokenizer is None:
        return None
    return Tokenizers(given.source_tokenizer or given.tokenizer, given.tokenizer)


def take_weights(model: Model, given: Model) -> None:
    """Copies the weights that both models have; a new head keeps its own."""
    theirs = dict(given.named_parameters())
    taken = 0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name in theirs and theirs[name].shape == weight.shape:
                weight.copy_(theirs[name])
                taken += 1
    if not taken:
        raise ConfigError(
            "training.init_from holds no weight that fits this model.\nUse the same d, h and blocks in [model]."
        )
