"""One folder holds everything a model needs: settings, weights, tokenizers, labels, and a card for people.

A model goes in and comes out the same. The folder is written beside its place, flushed and then renamed, so that
a kill leaves the old one or the new one. Nothing in it is executed: JSON and safetensors only, never pickle.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import CheckpointError, ConfigError, TokenizerError
from clearhead.models.build import SHAPES, Model
from clearhead.storage import previous, written_beside
from clearhead.text.tokenizer import Tokenizer

FORMAT = 1
CONFIG, WEIGHTS, LABELS, CARD = "config.json", "model.safetensors", "labels.json", "card.md"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "tokenizer-source.json"
LARGEST_JSON = 1 << 24  # bytes; a config or a list of labels is far smaller


@dataclass
class Checkpoint:
    """A model and what it needs to meet text."""

    module: Model
    tokenizer: Tokenizer | None = None
    source_tokenizer: Tokenizer | None = None  # of the encoder, where source and target differ
    labels: list[str] | None = None
    card: str = ""
    config: ModelConfig = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.module.config


def save(folder: str | Path, checkpoint: Checkpoint) -> None:
    """Writes a model folder; one that stands there is replaced as a whole."""
    check_fit(Path(folder), checkpoint)
    with written_beside(Path(folder)) as place:
        write_all_but_weights(place, checkpoint)
        save_file(weights_of(checkpoint.module), place / WEIGHTS, metadata={"format": "pt"})
        shutil.copymode(place / CONFIG, place / WEIGHTS)  # safetensors lets nobody else read what it writes


def write_all_but_weights(place: Path, checkpoint: Checkpoint) -> None:
    """Settings, tokenizers, labels and card; the module may be one without memory."""
    settings = {"format": FORMAT} | checkpoint.config.model_dump(mode="json")
    (place / CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.save(place / TOKENIZER)
    if checkpoint.source_tokenizer is not None:
        checkpoint.source_tokenizer.save(place / SOURCE_TOKENIZER)
    if checkpoint.labels is not None:
        labels = json.dumps(checkpoint.labels, ensure_ascii=False)
        (place / LABELS).write_text(labels + "\n", encoding="utf-8")
    if checkpoint.card:
        (place / CARD).write_text(checkpoint.card, encoding="utf-8")


def load(folder: str | Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Reads a model folder, or the best one of a run folder, in evaluation mode."""
    folder = find(Path(folder))
    try:
        return read(folder, dtype)
    except (CheckpointError, TokenizerError) as error:
        last = folder.parent / "last"
        if folder.name != "best" or not (last / WEIGHTS).is_file():
            raise
        raise CheckpointError(f"{error}\nThe last model of this run is there too: {last}.") from None


def read(folder: Path, dtype: torch.dtype) -> Checkpoint:
    """The model of a folder, with what it needs to meet text."""
    config = read_config(folder)
    module = read_weights(folder / WEIGHTS, config, dtype)
    labels = read_json(folder / LABELS) if (folder / LABELS).exists() else None
    tokenizer = Tokenizer.load(folder / TOKENIZER) if (folder / TOKENIZER).exists() else None
    source = Tokenizer.load(folder / SOURCE_TOKENIZER) if (folder / SOURCE_TOKENIZER).exists() else None
    card = (folder / CARD).read_text(encoding="utf-8", errors="replace") if (folder / CARD).exists() else ""
    checkpoint = Checkpoint(module, tokenizer, source, labels, card)
    check_fit(folder, checkpoint)
    return checkpoint


def check_fit(folder: Path, checkpoint: Checkpoint) -> None:
    """Labels and tokenizers are those of the model, so that what is saved can be loaded."""
    config, labels = checkpoint.config, checkpoint.labels
    if labels is not None and config.classes is None:
        raise CheckpointError(
            f"{folder / LABELS} names classes, but the model is no classifier.\nLeave the labels out."
        )
    if labels is not None and not is_labels(labels, config.classes):
        raise CheckpointError(
            f"{folder / LABELS} must be a list of {config.classes} different texts, one for each class."
        )
    for tokenizer, size, name in (
        (checkpoint.tokenizer, config.vocabulary, TOKENIZER),
        (checkpoint.source_tokenizer, config.vocabulary_encoder, SOURCE_TOKENIZER),
    ):
        if tokenizer is not None and tokenizer.size > size:
            raise CheckpointError(
                f"{folder / name} has {tokenizer.size} tokens, but the model knows {size}.\n"
                "The folder holds the tokenizer of another model."
            )


def weights_of(module: Model) -> dict[str, Tensor]:
    """Every weight by name; one that is used in two places is there once."""
    return {name: weight.detach().contiguous() for name, weight in module.named_parameters()}


def read_config(folder: Path) -> ModelConfig:
    """The settings of a model folder."""
    settings = read_json(folder / CONFIG)
    if not isinstance(settings, dict) or "format" not in settings:
        raise CheckpointError(
            f"{folder / CONFIG} is not a clearhead config: it has no 'format'.\n"
            "For a folder of Hugging Face use `clearhead import`."
        )
    version = settings.pop("format")
    if version != FORMAT:
        raise CheckpointError(
            f"{folder / CONFIG} has format {version!r}, but this version reads format {FORMAT}.\n"
            "Update clearhead."
        )
    try:
        return ModelConfig(**settings)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None


def read_json(path: Path) -> Any:
    """A small JSON file."""
    check_file(path)
    if path.stat().st_size > LARGEST_JSON:
        raise CheckpointError(
            f"{path} has {path.stat().st_size} bytes; {LARGEST_JSON} is the most that is read."
        )
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not valid JSON: {error}.\nThe file is damaged; copy it again."
        ) from None


def check_file(path: Path) -> None:
    """The file is there."""
    if path.is_dir() or (path.is_symlink() and not path.exists()):
        what = "is a folder" if path.is_dir() else f"is a link to {path.readlink()}, which does not exist"
        raise CheckpointError(f"{path} {what}.\nPut the file itself there.")
    if not path.is_file():
        present = ", ".join(sorted(file.name for file in path.parent.iterdir())) or "nothing"
        raise CheckpointError(f"{path} is missing.\nThe folder holds: {present}.")


def is_labels(labels: Any, classes: int | None) -> bool:
    """A list of as many different texts as there are classes."""
    texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    return texts and len(labels) == len({*labels}) == classes


def read_weights(path: Path, config: ModelConfig, dtype: torch.dtype) -> Model:
    """A model with the weights of a file, which are checked against the config before memory is taken."""
    check_file(path)
    with torch.device("meta"):
        module = SHAPES[config.shape](config)
    try:
        with safe_open(path, framework="pt") as file:
            check_names(path, file, module)
            weights = {
                # Tensor by tensor, so that one copy of the model is in memory, aligned as torch aligns it.
                name: torch.empty(weight.shape, dtype=dtype).copy_(file.get_tensor(name))
                for name, weight in module.named_parameters()
            }
            module.load_state_dict(weights, strict=False, assign=True)  # a weight used twice is named once
    except SafetensorError as error:
        raise CheckpointError(f"{path} {why_unreadable(path, error)}") from None
    return module.eval()


def check_names(path: Path, file: Any, module: Model) -> None:
    """The file holds the model's weights: all of them, no others, in their shapes."""
    expected = {name: list(weight.shape) for name, weight in module.named_parameters()}
    stored = set(file.keys())
    missing, unknown = sorted(expected.keys() - stored), sorted(stored - expected.keys())
    if missing or unknown:
        parts = [f"lacks {some(missing)}"] * bool(missing) + [
            f"holds {some(unknown)}, which the config has no place for"
        ] * bool(unknown)
        raise CheckpointError(
            f"{path} {' and '.join(parts)}.\nconfig.json and {path.name} are of different models."
        )
    for name, shape in expected.items():
        view = file.get_slice(name)
        if view.get_shape() != shape:
            raise CheckpointError(
                f"{path}: {name} has shape {view.get_shape()}, but the config asks for {shape}.\n"
                f"config.json and {path.name} are of different models."
            )


def some(names: list[str]) -> str:
    """The first few of many names."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def why_unreadable(path: Path, error: Exception) -> str:
    """What a file is that should have been safetensors."""
    with path.open("rb") as file:
        start = file.read(2)
    if start in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        return (
            "is a pickle under another name.\n"
            "Pickle can run code, so it is not opened; save the model as safetensors."
        )
    return f"is not a whole safetensors file ({error}).\nIt is damaged or cut short; copy it again."


def model_in(folder: Path) -> Path:
    """The model folder itself, or the best one of a run folder."""
    places = (folder, folder / "best", folder / "last")
    return next((place for place in places if (place / CONFIG).exists()), folder)


def find(folder: Path) -> Path:
    """A model folder, or the one it replaces where a save was killed between its two renames."""
    folder = model_in(folder)
    if not folder.exists() and previous(folder).is_dir():
        return previous(folder)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise CheckpointError(
            f"The model folder {folder} {what}.\nGive a folder with {CONFIG} and {WEIGHTS}."
        )
    return folder
