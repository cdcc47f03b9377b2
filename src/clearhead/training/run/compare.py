"""Several runs side by side: recipes become runs of the same budget, and finished runs become rows of one table.

OUT/compare.json          which recipes, with which budget and seeds
OUT/NAME/, NAME-seed-2/   ordinary run folders; a finished one is not trained again
OUT/compare.html          the page
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from clearhead import model_folder
from clearhead.config.run import RunConfig
from clearhead.decoding.generate import Generator
from clearhead.decoding.read import Reader
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Example, Labelled, Pair, Split
from clearhead.folder_files import read_json
from clearhead.model_folder import Bundle
from clearhead.storage import write_atomically
from clearhead.text.sources.read import ExampleReader, read_split
from clearhead.training.evaluation.labels import Progress
from clearhead.training.evaluation.paired import Scored
from clearhead.training.evaluation.per_example import ExampleEvaluation
from clearhead.training.reporting.history import History, read_log
from clearhead.training.run.folder import QUALITY, RECIPE, RunFolder, holds_run
from clearhead.training.run.requirements import lasting_bytes
from clearhead.training.run.run import keep_length

STARTED = "compare.json"
PROMPTS, WRITTEN = 8, 64  # texts, and tokens of each, that the speed of decoding is measured on
READ = 64  # texts that the speed of a classifier is measured on
WORDS = 4  # of a text that are its prompt


@dataclass(frozen=True)
class Budget:
    """How long each run trains: so many tokens, or minutes, or as its recipe says."""

    tokens: int | None = None
    minutes: float | None = None

    def apply(self, config: RunConfig) -> RunConfig:
        """The recipe with this length."""
        training, length = config.training, {"steps": None, "epochs": None, "minutes": None}
        if self.tokens is not None:
            steps = max(1, round(self.tokens / training.batch_tokens))
            return config.replace(training=training.replace(**length | {"steps": steps}))
        if self.minutes is not None:
            return config.replace(training=training.replace(**length | {"minutes": self.minutes}))
        return config


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison: a recipe with one seed, and its folder."""

    group: str
    seed: int
    config: RunConfig
    place: Path

    @property
    def is_finished(self) -> bool:
        """Whether the run has been trained and evaluated."""
        return (self.place / QUALITY).is_file()

    @property
    def is_started(self) -> bool:
        """Whether there is something to resume."""
        return holds_run(self.place)

    def to_continue(self) -> RunConfig:
        """The recipe to resume with: as long as the plan has made it."""
        return (
            keep_length(RunConfig.read(self.place / RECIPE), self.config) if self.is_started else self.config
        )


def plan_runs(recipes: Sequence[str], out: Path, budget: Budget, seeds: int) -> list[PlannedRun]:
    """The runs of a comparison; recipes that cannot be compared are refused before anything is written."""
    configs = [RunConfig.read(recipe).anchored(Path.cwd()) for recipe in recipes]
    for name, config in zip(recipes[1:], configs[1:], strict=True):
        check_alike(recipes[0], configs[0], name, config)
    runs = []
    for group, config in zip(names_of(recipes), configs, strict=True):
        first = config.training.seed
        for number in range(seeds):
            seeded = config.replace(training=config.training.replace(seed=first + number))
            name = group if number == 0 else f"{group}-seed-{first + number}"
            runs.append(PlannedRun(group, first + number, budget.apply(seeded), out / name))
    return runs


def check_alike(one: str, config: RunConfig, other: str, another: RunConfig) -> None:
    """Refuses recipes of different tasks or data."""
    if config.task != another.task:
        raise ConfigError(
            f"{one} has task = {config.task!r}, and {other} has task = {another.task!r}.\n"
            "Only recipes of one task can be compared."
        )
    if changes := list(another.data.changes(config.data)):
        raise ConfigError(
            f"{one} and {other} learn from different data. In {other}: {'; '.join(changes)}.\n"
            "Give both the same [data]."
        )


def names_of(recipes: Sequence[str]) -> list[str]:
    """A name for each recipe: that of its file, with a number if it is taken."""
    names: list[str] = []
    for recipe in recipes:
        stem = Path(recipe).stem
        same = sum(name == stem or name.startswith(f"{stem}-") for name in names)
        names.append(f"{stem}-{same + 1}" if stem in names else stem)
    return names


def claim(out: Path, runs: Sequence[PlannedRun], budget: Budget) -> None:
    """Writes which comparison a folder contains, or checks that it is this one."""
    facts = {
        "format": 1,
        "tokens": budget.tokens,
        "minutes": budget.minutes,
        "runs": {run.place.name: sha256(run.config.to_toml().encode()).hexdigest() for run in runs},
    }
    place = out / STARTED
    if place.is_file():
        if read_json(place) != facts:
            raise ConfigError(
                f"{out} contains another comparison: other recipes, another budget or other seeds.\n"
                "Give the same command to continue it, or another --out."
            )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not an empty folder.\nName another --out, or empty it first.")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(place, json.dumps(facts, indent=2) + "\n")


@dataclass(frozen=True)
class FinishedRun:
    """A run that is trained, and where its test data comes from."""

    name: str
    group: str
    place: Path
    config: RunConfig
    split: Split
    digest: str  # of the test data

    def reader(self) -> ExampleReader:
        """The test data."""
        reader = read_split(self.config.data, self.config.kind, self.split)
        assert reader is not None
        return reader


def open_run(place: Path, name: str, group: str | None = None) -> FinishedRun:
    """A run folder with a model, and its test data; its validation data if there is no other."""
    if not holds_run(place):
        raise ConfigError(f"{place} is not a run folder: it has no {RECIPE}.\nGive run folders, or recipes.")
    if not (RunFolder(place).best / model_folder.CONFIG).is_file():
        raise ConfigError(
            f"{place} has no model in best/: the run has not finished.\nResume it: clearhead train {place} --resume"
        )
    config = RunConfig.read(place / RECIPE)
    splits: tuple[Split, ...] = ("test", "validation")
    for split in splits:
        reader = read_split(config.data, config.kind, split)
        if reader is not None:
            return FinishedRun(name, group or name, place, config, split, digest_of(reader))
    raise DataError(f"{place} has neither test nor validation data.\nA comparison needs held-out data.")


def digest_of(examples: Iterable[Example]) -> str:
    """A hash of some examples, in their order."""
    digest = sha256()
    for example in examples:
        digest.update(repr(example).encode())
    return digest.hexdigest()


def check_comparable(runs: Sequence[FinishedRun]) -> None:
    """Refuses runs of different tasks, or with different test data."""
    first = runs[0]
    for run in runs[1:]:
        if run.config.task != first.config.task:
            raise ConfigError(
                f"{first.place} is a run of the task {first.config.task}, and {run.place} of {run.config.task}.\n"
                "Only runs of one task can be compared."
            )
        if run.digest != first.digest:
            raise ConfigError(
                f"{first.place} and {run.place} have different {run.split} data.\n"
                "Only scores on the same data can be compared; train both with the same [data]."
            )


@dataclass(frozen=True)
class ComparedRun:
    """A row of the comparison."""

    run: FinishedRun
    history: History
    quality: dict[str, Any]
    scored: Scored | None
    parameters: int
    seconds: float
    tokens_per_second: float
    decoding_per_second: float | None  # tokens that it writes, or texts that it classifies
    memory_bytes: int  # of weights, gradients and optimizer in training
    unknown: float  # share of the tokens of the test data that a language model's tokenizer does not know


def measure(run: FinishedRun, progress: Progress = lambda done: None) -> ComparedRun:
    """Evaluates the best model of a run on its test data, and times it."""
    bundle = model_folder.load(run.place)
    evaluation = ExampleEvaluation(bundle, run.config.training.batch_tokens)
    quality = {"split": run.split} | evaluation.run(run.reader(), run.config.decoding, progress=progress)
    history = read_log(RunFolder(run.place).log)
    steps = history.steps
    speeds = sorted(record.tokens_per_second for record in steps)
    return ComparedRun(
        run=run,
        history=history,
        quality=quality,
        scored=evaluation.scored,
        parameters=sum(weight.numel() for weight in bundle.module.parameters()),
        seconds=steps[-1].seconds if steps else 0.0,
        tokens_per_second=speeds[len(speeds) // 2] if speeds else 0.0,
        decoding_per_second=decoding_speed(bundle, run),
        memory_bytes=lasting_bytes(run.config.training, bundle.module),
        unknown=evaluation.unknown,
    )


def decoding_speed(bundle: Bundle, run: FinishedRun) -> float | None:
    """Tokens that a model writes per second, or texts that it classifies; None for one that does neither."""
    if bundle.config.head == "classifier":
        reader = Reader(bundle)
        labelled = [example for example in islice(run.reader(), READ) if isinstance(example, Labelled)]
        items = [reader.item(example.text, example.second, truncate=True) for example in labelled]
        start = perf_counter()
        reader.classify(items)
        return len(items) / (perf_counter() - start)
    texts = [text_of(example) for example in islice(run.reader(), READ)]
    if not bundle.module.generates:
        return None
    prompts = texts if bundle.module.translates else [" ".join(text.split()[:WORDS]) for text in texts]
    settings = run.config.decoding.replace(max_tokens=WRITTEN)
    generator = Generator(bundle)
    generator.write(prompts[:1], settings)  # what is only done once
    start = perf_counter()
    written = generator.write(prompts[:PROMPTS], settings)
    return sum(len(best[0].tokens) for best in written) / (perf_counter() - start)


def text_of(example: Example) -> str:
    """What a model reads of an example."""
    return example.source if isinstance(example, Pair) else example.text


def with_names(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """The runs, with names that differ: those of the folders, or the whole paths."""
    names = [run.place.name for run in runs]
    return [
        replace(run, name=name if names.count(name) == 1 else str(run.place), group=name)
        for run, name in zip(runs, names, strict=True)
    ]
