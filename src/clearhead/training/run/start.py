"""What a run starts from: random weights, or those of another model, which it fine-tunes (N36).

A recipe enters; it leaves with the settings of the model to start from, with its tokenizers, and with learning rates
that keep what the model knows. Once the new model is built, the weights that both have are copied into it. Notes say
what was copied, what is new, what was not used, and which settings of the recipe have no effect.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.config.model_base import AnyModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.settings import Settings
from clearhead.config.tasks import TASKS, Task
from clearhead.config.training import TrainingConfig
from clearhead.data.prepare import Prepared
from clearhead.data.tokenizers import Tokenizers
from clearhead.errors import ConfigError, ModelFolderError, first_few
from clearhead.model_folder import Bundle
from clearhead.models.model import Model
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.loop.adapters import freeze_weights
from clearhead.training.run.folder import CHECKPOINTS
from clearhead.training.run.word_embeddings import load_vectors, set_embeddings
from clearhead.vector_folder import VectorTable

# The defaults of a recipe that starts from a model: steps that are small compared with its weights.
GENTLE: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 2e-4,
    "batch_tokens": 2048,
    "warmup": 0.1,
}
GENTLE_LORA: dict[str, Any] = {"learning_rate": 1e-3}  # an adapter starts at zero and has further to go
GENTLE_MUON: dict[str, Any] = {"optimizer": "muon", "matrix_rate": 2e-3}  # if the recipe asks for muon
OF_MUON = {"matrix_rate", "momentum"}

# What a recipe may change of the model that it starts from; all else stays as it is there.
OWN = ("pool", "pool_dense", "dropout", "attention_dropout")
# What follows from the task, the data and the tokenizers.
IMPLIED = ("shape", "head", "classes", "vocabulary", "source_vocabulary", "unit_length")

TABLES = ("tokens.weight", "table.weight", "head.bias")  # a row for each token
NOISE = 0.1  # in a new token's row, as a share of the spread of the others, so that no two rows start equal


@dataclass
class Start:
    """What a run starts from; `given` is the model to fine-tune, if any."""

    config: RunConfig
    given: Bundle | None = None
    vectors: VectorTable | None = None  # of words, from which the embeddings start
    notes: list[str] = field(default_factory=list)

    @property
    def tokenizers(self) -> Tokenizers | None:
        """Those of the model to start from; if only the encoder of a translator is used, that of the source."""
        if self.given is None or self.given.tokenizer is None:
            return None
        source = self.given.source_tokenizer or self.given.tokenizer
        return Tokenizers(self.given.tokenizer if self.config.kind == "pair" else source, source)

    def initialise(self, model: Model, data: Prepared) -> None:
        """Gives a new model its first weights, decides which of them are trainable, and frees the given model."""
        new: list[str] = []
        grown: dict[str, range] = {}
        if self.given is not None and self.tokenizers is not None:
            is_same_head = self.given.labels == list(data.labels)
            copied = copy_weights(model, self.given.module, is_same_head)
            grown = fill_rows(model, self.tokenizers, data.tokenizers, self.config.training.seed)
            self.notes += self.weight_notes(copied, data)
            new = copied.new
            grown = {name: rows for name, rows in grown.items() if name not in new}
        if self.vectors is not None:
            folder = str(self.config.training.embeddings_from)
            self.notes += set_embeddings(model, data.tokenizers, self.vectors, folder)
        freeze_weights(model, self.config.training, new, grown)
        self.given = None
        every = sum(weight.numel() for weight in model.parameters())
        learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        self.notes += [f"{learning:,} of {every:,} parameters are trained"] * (learning < every)

    def weight_notes(self, copied: "CopiedWeights", data: Prepared) -> list[str]:
        """What became of the weights and of the vocabulary."""
        assert self.tokenizers is not None
        parts = [f"{len(copied.names)} weights copied from {self.config.training.init_from}"]
        parts += [f"new: {first_few(copied.new)}"] * bool(copied.new)
        parts += [f"not used: {first_few(copied.unused)}"] * bool(copied.unused)
        before, now = self.tokenizers.target.size, data.tokenizers.target.size
        added = [f"{now - before} tokens added to the {before:,} of its tokenizer"] * (now > before)
        return ["; ".join(parts), *added]


def resolve_start(config: RunConfig, out: Path | None = None) -> Start:
    """The settings of a run, with those of the model that it starts from, if any.

    `out` is the run folder, in which a resumed run may find the model if its first folder is missing.
    """
    if config.training.embeddings_from is not None:
        folder = Path(config.training.embeddings_from).expanduser().absolute()
        config = config.replace(training=config.training.replace(embeddings_from=str(folder)))
    if config.training.init_from is None:
        return Start(config, vectors=load_vectors(config.training, out))
    place = model_folder.model_in(Path(config.training.init_from).expanduser().absolute())
    given = model_folder.load(place if place.is_dir() else substitute_for(place, config.training, out))
    if given.tokenizer is None:
        raise ConfigError(
            f"{place} has no tokenizer.json, so the meaning of its embedding rows is unknown.\n"
            "Copy the tokenizer that the model was trained with into that folder."
        )
    settings = fine_tuned_config(given.config, config.model, config.task)
    gentle = gentle_settings(config.training)
    notes = []
    idle = [key for key in differing(config.model, settings) if key not in (*OWN, *IMPLIED)]
    if idle:
        notes.append(f"{name_settings(config.model, idle)}: ignored, as the model to start from has its own")
    ignored = [key for key in config.tokenizer.given() if key not in ("added", "markers")]
    if ignored:
        notes.append(
            f"{name_settings(config.tokenizer, ignored)}: ignored, as the model keeps its own tokenizer of "
            f"{given.tokenizer.size:,} tokens"
        )
    training = config.training.replace(init_from=str(place), **gentle)
    if gentle:
        notes.append(f"{name_settings(training, list(gentle))}: small steps, to keep what the model knows")
    return Start(config.replace(model=settings, training=training), given, notes=notes)


def substitute_for(missing: Path, training: TrainingConfig, out: Path | None) -> Path:
    """The folder to read instead of a missing one: the model that the run itself has saved.

    Trainable weights are in the checkpoint, and frozen ones are the same in every model of a run; except with
    adapters, which a saved model has merged into its matrices.
    """
    if out is None or not list_checkpoints(out / CHECKPOINTS):
        return missing  # no run to resume: loading it reports that it does not exist
    kept = model_folder.model_in(out)
    if training.lora_rank is None and kept != out:
        return kept
    reason = "adapters need its weights" if training.lora_rank else f"{out} contains no model yet"
    raise ModelFolderError(
        f"The model that the run started from is missing: {missing} does not exist, and {reason}.\n"
        "Restore it, or name its new place: --training.init_from FOLDER."
    )


def gentle_settings(training: TrainingConfig) -> dict[str, Any]:
    """The defaults of a fine-tuning run, for settings that the recipe omits."""
    stated = training.model_fields_set
    asks_for_muon = training.optimizer == "muon" and ("optimizer" in stated or not OF_MUON.isdisjoint(stated))
    gentle = GENTLE | (GENTLE_LORA if training.lora_rank else {}) | (GENTLE_MUON if asks_for_muon else {})
    return {key: value for key, value in gentle.items() if key not in stated}


def fine_tuned_config(given: AnyModelConfig, stated: AnyModelConfig, task: Task) -> AnyModelConfig:
    """The settings of the model to start from, so that its weights fit; the task decides about the head."""
    if "family" in stated.model_fields_set and stated.family != given.family:
        raise ConfigError(
            f"model.family = {stated.family!r}, but the model in training.init_from has family = {given.family!r}, "
            "and no weights that the other could use.\nOmit model.family, or training.init_from."
        )
    row = TASKS[task]
    if reason := row.cannot_start_from.get(given.shape):
        raise ConfigError(
            f"task = {task!r} cannot start from a model of shape = {given.shape!r}: {reason}.\n"
            f"Start from a model of shape {' or '.join(row.starts_from)}, or omit training.init_from."
        )
    takes_encoder = given.shape == "encoder-decoder" and given.shape not in row.shapes
    settings = given.encoder_alone() if takes_encoder else given
    # Attention dropout prevents the fused kernel, so it must be asked for.
    own: dict[str, Any] = {"attention_dropout": 0.0}
    if settings.shape == "decoder" and settings.head != "classifier":
        own["pool"] = "last"  # the only token that sees all others
    own |= {key: getattr(stated, key) for key in OWN if key in stated.model_fields_set}
    # Only the data determine the classes of a classifier.
    own = {key: value for key, value in own.items() if key in type(settings).model_fields}
    return settings.replace(head="language", classes=None, labels="one", texts=1, unit_length=False, **own)


def differing(stated: Settings, found: Settings) -> list[str]:
    """The settings that were stated, but have other values."""
    return [key for key, value in stated.given().items() if value != getattr(found, key, None)]


def name_settings(settings: Settings, keys: list[str]) -> str:
    """Names and values of settings, as in a recipe."""
    return ", ".join(f"{settings.name(key)} = {getattr(settings, key)!r}" for key in keys)


@dataclass(frozen=True)
class CopiedWeights:
    """The names of the weights copied from another model, of those that are new, and of those not used."""

    names: list[str]
    new: list[str]
    unused: list[str]


@torch.no_grad()
def copy_weights(model: Model, given: Model, is_same_head: bool = True) -> CopiedWeights:
    """Copies the weights that both models have; a head for other labels, and what is new, stays as it is.

    Of a table with more rows than the other's, the rows that both have are copied.
    """
    takes_encoder = given.translates and not model.translates
    theirs = {
        name: weight
        for name, weight in given.named_parameters()
        if name.startswith("encoder.") or not takes_encoder
    }
    ours = dict(model.named_parameters())
    names = []
    for name, weight in ours.items():
        other = theirs.get(name)
        if other is None or (name.startswith("head.out.") and not is_same_head):
            continue
        grows = name.endswith(TABLES) and len(weight) >= len(other)
        if weight.shape[1:] == other.shape[1:] and (grows or len(weight) == len(other)):
            weight[: len(other)] = other
            names.append(name)
    new = [name for name in ours if name not in names]
    return CopiedWeights(names, new, [name for name, _ in given.named_parameters() if name not in names])


@torch.no_grad()
def fill_rows(model: Model, old: Tokenizers, new: Tokenizers, seed: int) -> dict[str, range]:
    """Gives added tokens the mean row of the others, with a little noise; the names of such tables, and the rows."""
    generator = torch.Generator().manual_seed(seed)
    grown = {}
    for name, weight in model.named_parameters():
        is_source = name.startswith("encoder.")
        before, now = (pair.source.size if is_source else pair.target.size for pair in (old, new))
        if name.endswith(TABLES) and now > before:
            weight[before:now] = near_the_mean(weight[:before], now - before, generator)
            grown[name] = range(before, now)
    return grown


def near_the_mean(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """New rows for a table, amid the present ones: a token never seen is like any other."""
    noise = torch.randn(count, *rows.shape[1:], generator=generator).to(rows)
    return rows.mean(0) + NOISE * rows.std(0) * noise
