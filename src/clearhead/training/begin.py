"""Where a run begins: with random weights, or with those of another model, which it fine-tunes (N36).

A recipe enters; it leaves with the settings of the model to start from, with its tokenizers, and with rates that
keep what the model knows. Once the new model is built, it takes the weights that both have. Notes tell what was
taken, what is new, what was left behind, and what the recipe states in vain.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead import checkpoint as folder
from clearhead.checkpoint import Checkpoint, some
from clearhead.config.model import ModelConfig, Shape
from clearhead.config.run import RunConfig, Task
from clearhead.config.settings import Settings
from clearhead.config.training import TrainingConfig
from clearhead.data.prepare import Prepared
from clearhead.data.tokenizers import Tokenizers
from clearhead.errors import CheckpointError, ConfigError
from clearhead.models.build import Model
from clearhead.models.translator import Translator
from clearhead.training.adapters import make_learnable
from clearhead.training.place import CHECKPOINTS
from clearhead.training.snapshots import snapshots

# What a recipe means that starts from a model and states no other: steps that are small against its weights.
GENTLE: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 2e-4,
    "batch_tokens": 2048,
    "warmup": 0.1,
}
GENTLE_LORA: dict[str, Any] = {"learning_rate": 1e-3}  # an adapter begins at zero and has further to go
GENTLE_MUON: dict[str, Any] = {"optimizer": "muon", "matrix_rate": 2e-3}  # where the recipe asks for muon
OF_MUON = {"matrix_rate", "momentum"}

# What a recipe may say of a model that starts from another one; all else is as it is there.
OWN = ("pool", "pool_dense", "dropout", "attention_dropout")
# What follows from the task, the data and the tokenizers.
IMPLIED = ("shape", "head", "classes", "vocabulary", "source_vocabulary", "unit_length")

SHAPES: dict[Task, tuple[Shape, ...]] = {
    "language-model": ("decoder",),
    "masked-language-model": ("encoder", "encoder-decoder"),
    "translate": ("encoder-decoder",),
    "classify": ("encoder", "decoder", "encoder-decoder"),
}
REASONS: dict[tuple[Task, Shape], str] = {
    (
        "language-model",
        "encoder",
    ): "each of its tokens sees those after it, so it cannot learn to predict them",
    ("language-model", "encoder-decoder"): "its decoder has learned to write what a source says",
    ("masked-language-model", "decoder"): "none of its tokens sees those after it, which filling gaps needs",
    ("translate", "decoder"): "it has no encoder to read a source with",
    ("translate", "encoder"): "it has no decoder to write with",
}
TABLES = ("tokens.weight", "table.weight", "head.bias")  # a row for each token
NOISE = 0.1  # of a new token's row, as a share of the spread of the others, so that no two begin the same


@dataclass
class Beginning:
    """What a run begins with; `given` is the model to start from, where there is one."""

    config: RunConfig
    given: Checkpoint | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def tokenizers(self) -> Tokenizers | None:
        """Those of the model to start from; of a translator whose encoder is taken, that of the source."""
        if self.given is None or self.given.tokenizer is None:
            return None
        source = self.given.source_tokenizer or self.given.tokenizer
        return Tokenizers(self.given.tokenizer if self.config.task == "translate" else source, source)

    def enter(self, model: Model, data: Prepared) -> None:
        """Gives a new model its first weights, and says which of them learn."""
        new: list[str] = []
        if self.given is not None and self.tokenizers is not None:
            is_same_head = self.given.labels == list(data.labels)
            taken = take_weights(model, self.given.module, is_same_head)
            grown = fill_rows(model, self.tokenizers, data.tokenizers, self.config.training.seed)
            self.notes += self.told(taken, data)
            new = [*taken.new, *grown]
        make_learnable(model, self.config.training, new)
        every = sum(weight.numel() for weight in model.parameters())
        learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        self.notes += [f"{learning:,} of {every:,} parameters learn"] * (learning < every)

    def told(self, taken: "Taken", data: Prepared) -> list[str]:
        """What became of the weights and of the vocabulary."""
        assert self.tokenizers is not None
        parts = [f"{len(taken.taken)} weights of {self.config.training.init_from} are taken"]
        parts += [f"new: {some(taken.new)}"] * bool(taken.new)
        parts += [f"left behind: {some(taken.left)}"] * bool(taken.left)
        before, now = self.tokenizers.target.size, data.tokenizers.target.size
        added = [f"{now - before} tokens are added to the {before:,} of its tokenizer"] * (now > before)
        return ["; ".join(parts), *added]


def begin(config: RunConfig, out: Path | None = None) -> Beginning:
    """The settings of a run with those of the model that it starts from, if it starts from one.

    `out` is the run folder, in which a run that goes on may find what it needs.
    """
    if config.training.init_from is None:
        return Beginning(config)
    place = folder.model_in(Path(config.training.init_from).expanduser().absolute())
    given = folder.load(place if place.is_dir() else in_place_of(place, config.training, out))
    if given.tokenizer is None:
        raise ConfigError(
            f"{place} has no tokenizer.json, so nobody knows what the rows of its embeddings mean.\n"
            "Put the tokenizer that the model was trained with there."
        )
    settings = begun_from(given.config, config.model, config.task)
    gentle = gentle_settings(config.training)
    notes = []
    idle = [key for key in differing(config.model, settings) if key not in (*OWN, *IMPLIED)]
    if idle:
        notes.append(f"{shown(config.model, idle)}: not used, since the model to start from has its own")
    cut = [key for key in config.tokenizer.given() if key not in ("added", "markers")]
    if cut:
        notes.append(
            f"{shown(config.tokenizer, cut)}: not used, since the model's own tokenizer is, with "
            f"{given.tokenizer.size:,} tokens"
        )
    training = config.training.replace(init_from=str(place), **gentle)
    if gentle:
        notes.append(f"{shown(training, list(gentle))}: gentle steps, which keep what the model knows")
    return Beginning(config.replace(model=settings, training=training), given, notes)


def in_place_of(gone: Path, training: TrainingConfig, out: Path | None) -> Path:
    """The folder to read in place of one that is gone: the model that the run itself has kept.

    What learns is in the checkpoint, and what is frozen is the same in every model of a run. Only beside adapters
    it is not: there the model that was kept has them inside its matrices.
    """
    if out is None or not snapshots(out / CHECKPOINTS):
        return gone  # nothing has begun: whoever loads it says that it is not there
    kept = folder.model_in(out)
    if training.lora_rank is None and kept != out:
        return kept
    lacking = "a run of adapters needs its weights" if training.lora_rank else f"{out} has kept no model yet"
    raise CheckpointError(
        f"The model that the run began with is gone: {gone} does not exist, and {lacking}.\n"
        "Put it back, or say where it is now: --training.init_from FOLDER."
    )


def gentle_settings(training: TrainingConfig) -> dict[str, Any]:
    """The settings of a fine-tuning run that the recipe has left open."""
    stated = training.model_fields_set
    asks_for_muon = training.optimizer == "muon" and ("optimizer" in stated or not OF_MUON.isdisjoint(stated))
    gentle = GENTLE | (GENTLE_LORA if training.lora_rank else {}) | (GENTLE_MUON if asks_for_muon else {})
    return {key: value for key, value in gentle.items() if key not in stated}


def begun_from(given: ModelConfig, stated: ModelConfig, task: Task) -> ModelConfig:
    """The settings of the model to start from, so that its weights fit; the recipe says what is read from its top."""
    if given.shape not in SHAPES[task]:
        raise ConfigError(
            f"task = {task!r} cannot start from a model of shape = {given.shape!r}: {REASONS[task, given.shape]}.\n"
            f"Start from a model of shape {' or '.join(SHAPES[task])}, or leave training.init_from out."
        )
    settings = encoder_of(given) if given.shape == "encoder-decoder" and task != "translate" else given
    # Dropout of the weights leaves the fused kernel, so it has to be asked for.
    own: dict[str, Any] = {"attention_dropout": 0.0}
    if settings.shape == "decoder" and settings.head != "classifier":
        own["pool"] = "last"  # the only token that has seen all others
    own |= {key: getattr(stated, key) for key in OWN if key in stated.model_fields_set}
    # Of a classifier only the data know the classes.
    return settings.replace(head="language", classes=None, unit_length=False, **own)


def encoder_of(given: ModelConfig) -> ModelConfig:
    """The settings of a translator's encoder by itself."""
    return given.replace(
        shape="encoder",
        d=given.width_encoder,
        d_k=given.width_k,
        d_ff=given.width_ff(given.width_encoder),
        encoder_d=None,
        vocabulary=given.vocabulary_encoder,
        source_vocabulary=None,
        norm=given.norm_encoder,
        encoder_norm=None,
        kept_heads={name: kept for name, kept in given.kept_heads.items() if name.startswith("encoder.")},
    )


def differing(stated: Settings, found: Settings) -> list[str]:
    """The settings that were stated, but are found to be others."""
    return [key for key, value in stated.given().items() if value != getattr(found, key)]


def shown(settings: Settings, keys: list[str]) -> str:
    """Settings as a recipe says them."""
    return ", ".join(f"{settings.name(key)} = {getattr(settings, key)!r}" for key in keys)


@dataclass(frozen=True)
class Taken:
    """The names of the weights that a model took from another, of those it has for itself, and of those it left."""

    taken: list[str]
    new: list[str]
    left: list[str]


@torch.no_grad()
def take_weights(model: Model, given: Model, is_same_head: bool = True) -> Taken:
    """Copies the weights that both models have; classes of other labels, and what is new, keep their own.

    A table with more rows than the other's takes the rows that both have.
    """
    takes_encoder = isinstance(given, Translator) and not isinstance(model, Translator)
    theirs = {
        name: weight
        for name, weight in given.named_parameters()
        if name.startswith("encoder.") or not takes_encoder
    }
    ours = dict(model.named_parameters())
    taken = []
    for name, weight in ours.items():
        other = theirs.get(name)
        if other is None or (name.startswith("head.out.") and not is_same_head):
            continue
        grows = name.endswith(TABLES) and len(weight) >= len(other)
        if weight.shape[1:] == other.shape[1:] and (grows or len(weight) == len(other)):
            weight[: len(other)] = other
            taken.append(name)
    new = [name for name in ours if name not in taken]
    return Taken(taken, new, [name for name, _ in given.named_parameters() if name not in taken])


@torch.no_grad()
def fill_rows(model: Model, old: Tokenizers, new: Tokenizers, seed: int) -> list[str]:
    """Gives tokens that were added the mean row of the others, and little noise; the names of such tables."""
    generator = torch.Generator().manual_seed(seed)
    grown = []
    for name, weight in model.named_parameters():
        is_source = name.startswith("encoder.")
        before, now = (pair.source.size if is_source else pair.target.size for pair in (old, new))
        if name.endswith(TABLES) and now > before:
            weight[before:now] = near_the_mean(weight[:before], now - before, generator)
            grown.append(name)
    return grown


def near_the_mean(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """New rows for a table, between those that are there: a token that was never seen is like any other."""
    noise = torch.randn(count, *rows.shape[1:], generator=generator).to(rows)
    return rows.mean(0) + NOISE * rows.std(0) * noise
