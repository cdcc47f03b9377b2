"""Which settings a run uses: a run and the names of overrides enter; one that would change nothing is refused.

Only what was stated on the command line is judged: a recipe may well keep settings for another optimizer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Protocol

from clearhead.config.data import DataConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.config.tasks import ExampleKind, Task, TaskRow
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError


class StatedRun(Protocol):
    """What the rules ask of a run."""

    @property
    def task(self) -> Task: ...
    @property
    def task_row(self) -> TaskRow: ...
    @property
    def kind(self) -> ExampleKind: ...
    @property
    def data(self) -> DataConfig: ...
    @property
    def tokenizer(self) -> TokenizerConfig: ...
    @property
    def model(self) -> AnyModelConfig: ...
    @property
    def training(self) -> TrainingConfig: ...


@dataclass(frozen=True)
class IdleRule:
    """Settings that have no effect on some runs, and the reason there, which ends with what to do."""

    names: tuple[str, ...]
    is_idle: Callable[[StatedRun], bool]
    reason: str  # may name settings of the run: {run.model.positions}


def positions_of(run: StatedRun) -> str:
    """How the model knows the order of tokens; the settings of other families have no such name."""
    return str(getattr(run.model, "positions", "none"))


OMIT = "\nOmit it."
BY_TOKENIZER = "the tokenizer decides it.\nSet tokenizer.vocabulary, or omit it."
DECIDED = {  # in every run
    "model.vocabulary": BY_TOKENIZER,
    "model.source_vocabulary": BY_TOKENIZER,
    "model.word_breaks": BY_TOKENIZER,
    "model.classes": "the labels of the data decide it." + OMIT,
    "model.labels": "the data decide it.\nSet data.labels, or omit it.",
    "model.texts": "the data decide it.\nSet data.texts, or omit it.",
}
RULES = (
    IdleRule(
        ("model.encoder_blocks", "model.encoder_d"),
        lambda run: run.model.shape == "decoder",
        "a model of shape decoder has no encoder.\nSet model.decoder_blocks or model.d, or omit it.",
    ),
    IdleRule(
        ("model.decoder_blocks",),
        lambda run: run.model.shape == "encoder",
        "a model of shape encoder has no decoder.\nSet model.encoder_blocks, or omit it.",
    ),
    IdleRule(
        ("model.bidirectional",),
        lambda run: run.model.shape == "decoder",
        "a model of shape decoder has no encoder." + OMIT,
    ),
    IdleRule(
        ("model.attention",),
        lambda run: run.model.shape != "encoder-decoder",
        "only a translator looks back at a source." + OMIT,
    ),
    IdleRule(
        ("model.dilation",),
        lambda run: run.model.shape == "encoder",
        "the filters of an encoder are not dilated." + OMIT,
    ),
    IdleRule(
        ("model.shared", "tokenizer.shared"),
        lambda run: run.kind != "pair",
        "only a translator has a source and a target." + OMIT,
    ),
    IdleRule(
        ("model.rotary_base",),
        lambda run: positions_of(run) != "rotary",
        "model.positions is {run.model.positions}, not rotary." + OMIT,
    ),
    IdleRule(
        ("model.relative_*",),
        lambda run: positions_of(run) != "relative",
        "model.positions is {run.model.positions}, not relative.\nAdd --model.positions relative, or omit it.",
    ),
    IdleRule(
        ("model.sinusoid_layout",),
        lambda run: positions_of(run) != "sinusoidal",
        "model.positions is {run.model.positions}, not sinusoidal.\nAdd --model.positions sinusoidal, or omit it.",
    ),
    IdleRule(
        ("tokenizer.[!am]*", "tokenizer.minimum_frequency"),  # all but added and markers
        lambda run: run.training.init_from is not None,
        "the model in training.init_from keeps its own tokenizer." + OMIT,
    ),
    IdleRule(
        ("model.tied", "model.head_bias", "model.head_scale", "model.soft_cap"),
        lambda run: run.kind == "labelled",
        "a classifier predicts classes, not tokens." + OMIT,
    ),
    IdleRule(
        ("model.pool_dense", "model.class_bias"),
        lambda run: run.kind != "labelled",
        "only a classifier predicts classes." + OMIT,
    ),
    IdleRule(
        ("data.labels", "data.texts"),
        lambda run: run.kind != "labelled",
        "only a classifier learns from labels." + OMIT,
    ),
    IdleRule(
        ("data.unlabelled",),
        lambda run: run.kind != "labelled" or run.data.labels != "one" or run.data.texts > 1,
        "it is for classifiers of one text with one label each." + OMIT,
    ),
    IdleRule(
        ("data.unlabelled",),
        lambda run: run.tokenizer.kind in ("byte", "dna") or run.training.init_from is not None,
        "the tokens are fixed, so there is nothing to learn from unlabelled texts." + OMIT,
    ),
    IdleRule(
        ("data.label_separator",),
        lambda run: run.data.labels != "several",
        "data.labels is {run.data.labels}, not several.\nAdd --data.labels several, or omit it.",
    ),
    IdleRule(
        ("model.pool", "model.pool_dense"),
        lambda run: run.data.labels == "each-word",
        "data.labels is each-word, so that each vector is read by itself." + OMIT,
    ),
    IdleRule(
        ("tokenizer.vocabulary", "tokenizer.minimum_frequency"),
        lambda run: run.tokenizer.kind in ("byte", "dna"),
        "tokenizer.kind is {run.tokenizer.kind}, whose tokens are fixed.\nAdd --tokenizer.kind bpe, or omit it.",
    ),
    IdleRule(
        ("tokenizer.k",),
        lambda run: run.tokenizer.kind != "dna",
        "tokenizer.kind is {run.tokenizer.kind}, not dna." + OMIT,
    ),
    IdleRule(
        ("tokenizer.byte_fallback",),
        lambda run: run.tokenizer.kind != "character",
        "tokenizer.kind is {run.tokenizer.kind}, not character." + OMIT,
    ),
    IdleRule(
        ("data.count", "data.options.*"),
        lambda run: not run.data.has_builtin,
        "none of the data is a built-in corpus." + OMIT,
    ),
    IdleRule(
        ("data.document_masks",),
        lambda run: run.task != "language-model",
        "task is {run.task}, which learns each text by itself." + OMIT,
    ),
    IdleRule(
        ("training.watch_heads",),
        lambda run: run.model.family != "transformer",
        "a model of family {run.model.family} has no attention heads." + OMIT,
    ),
    IdleRule(
        ("training.matrix_rate", "training.momentum"),
        lambda run: run.training.optimizer != "muon",
        "training.optimizer is {run.training.optimizer}, not muon.\n"
        "Set training.learning_rate, or add --training.optimizer muon.",
    ),
    IdleRule(
        ("training.decay",),
        lambda run: run.training.schedule != "stable",
        "training.schedule is {run.training.schedule}, not stable.\nAdd --training.schedule stable, or omit it.",
    ),
    IdleRule(
        ("training.final_rate",),
        lambda run: run.training.schedule == "constant",
        "training.schedule is constant." + OMIT,
    ),
    IdleRule(
        ("training.average_last",),
        lambda run: run.training.average != "last",
        "training.average is {run.training.average}, not last.\nAdd --training.average last, or omit it.",
    ),
    IdleRule(
        ("training.average_decay",),
        lambda run: run.training.average != "exponential",
        "training.average is {run.training.average}, not exponential.\n"
        "Add --training.average exponential, or omit it.",
    ),
    IdleRule(
        ("training.lora_scale", "training.lora_targets"),
        lambda run: run.training.lora_rank is None,
        "there are no adapters.\nAdd --training.lora_rank 8, or omit it.",
    ),
    IdleRule(
        ("training.patience",),
        lambda run: run.training.patience is not None and run.data.source("validation") is None,
        "no data is held out to evaluate on.\nSet data.validation to a share such as 0.1, or omit it.",
    ),
    IdleRule(
        ("decoding.*",),
        lambda run: run.task_row.verb not in ("generate", "translate"),
        "{run.task_row.noun} generates no text." + OMIT,
    ),
)


def check_decided(name: str) -> None:
    """Refuses an override of what the data decide in every run."""
    if name in DECIDED:
        raise ConfigError(f"--{name} has no effect: {DECIDED[name]}")


def check_effects(run: StatedRun, overrides: Iterable[str]) -> None:
    """Refuses an override that has no effect on this run, with the reason."""
    for name in overrides:
        for rule in RULES:
            if any(fnmatch(name, pattern) for pattern in rule.names) and rule.is_idle(run):
                raise ConfigError(f"--{name} has no effect: {rule.reason.format(run=run)}")
