"""A model folder contains all that a model needs: settings, weights, tokenizers, labels, and a card for people.

A model that is saved and loaded is the same. The folder is written beside its path, flushed and then renamed, so that
a killed process leaves the old one or the new one. Nothing in it is executed: JSON and safetensors, never pickle.
`checksums.json` has the SHA-256 of every file but the card, which people may edit.
"""

import json
import math
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clearhead.config.families import read_model_config
from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import ConfigError, ModelFolderError, TokenizerError, first_few
from clearhead.folder_files import (
    changed_files,
    check_file,
    read_checksums,
    read_json,
    refuse_changes,
    why_unreadable,
    write_checksums,
)
from clearhead.models.build import empty
from clearhead.models.int8 import SCALE, from_int8, pack, round_weights, stored_shapes
from clearhead.models.model import Model
from clearhead.shipped import of_the_package
from clearhead.storage import atomic_folder, backup_of
from clearhead.text.tokenizers.file import CHAT_TEMPLATE
from clearhead.text.tokenizers.tokenizer import Tokenizer

FORMAT = 2  # of folders with int8 weights; others are still written in the first, which every version reads
CONFIG, WEIGHTS, LABELS, CARD = "config.json", "model.safetensors", "labels.json", "card.md"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "tokenizer-source.json"
CALIBRATION = "calibration.json"
CHECKED = (
    CONFIG,
    TOKENIZER,
    CHAT_TEMPLATE,
    SOURCE_TOKENIZER,
    LABELS,
    CALIBRATION,
    WEIGHTS,
)  # the files whose checksums are kept
FOREIGN = (".gguf", ".safetensors", ".bin", ".pt", ".pth")  # files of weights of other programs
LARGEST_VERIFIED = (
    1 << 26
)  # bytes that `load` verifies: 0.15 s without SHA instructions; `check` verifies all


@dataclass(frozen=True)
class Calibration:
    """What makes the probabilities of a classifier as high as its answers are often right (Guo et al., 2017)."""

    temperature: float  # by which logits are divided before their softmax
    examples: int  # of the validation data, on which it was fitted


@dataclass
class Bundle:
    """A model with its tokenizers and labels: the contents of a model folder."""

    module: Model
    tokenizer: Tokenizer | None = None
    source_tokenizer: Tokenizer | None = None  # of the encoder, if source and target differ
    labels: list[str] | None = None
    card: str = ""
    calibration: Calibration | None = None
    is_int8: bool = False  # its weights are rounded to int8, and are saved so
    config: AnyModelConfig = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.module.config
        self.module.is_int8 = self.is_int8

    def quantise(self) -> None:
        """Rounds the weights to int8 with a scale for each row."""
        round_weights(self.module)
        self.is_int8 = self.module.is_int8 = True


def save(folder: str | Path, bundle: Bundle) -> None:
    """Writes a model folder; an existing one is replaced atomically."""
    with new_folder(Path(folder), bundle) as weights:
        packed = pack(bundle.module) if bundle.is_int8 else weights_of(bundle.module)
        save_file(packed, weights, metadata={"format": "pt"})
        shutil.copymode(weights.with_name(CONFIG), weights)  # safetensors writes files that only we may read


@contextmanager
def new_folder(folder: Path, bundle: Bundle) -> Iterator[Path]:
    """A model folder to which the caller adds its weights, at the path that is given; the checksums follow."""
    check_fit(folder, bundle)
    with atomic_folder(folder) as place:
        write_all_but_weights(place, bundle)
        yield place / WEIGHTS
        write_checksums(place, CHECKED)


def write_all_but_weights(place: Path, bundle: Bundle) -> None:
    """Settings, tokenizers, labels and card; the module may be on the meta device."""
    settings = {"format": FORMAT if bundle.is_int8 else 1} | bundle.config.model_dump(mode="json")
    (place / CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    if bundle.tokenizer is not None:
        bundle.tokenizer.save(place / TOKENIZER)
    if bundle.source_tokenizer is not None:
        bundle.source_tokenizer.save(place / SOURCE_TOKENIZER)
    if bundle.labels is not None:
        labels = json.dumps(bundle.labels, ensure_ascii=False)
        (place / LABELS).write_text(labels + "\n", encoding="utf-8")
    if bundle.calibration is not None:
        write_calibration(place, bundle.calibration)
    if bundle.card:
        (place / CARD).write_text(bundle.card, encoding="utf-8")


def write_calibration(place: Path, calibration: Calibration) -> None:
    """Writes the file of the temperature."""
    (place / CALIBRATION).write_text(json.dumps(asdict(calibration)) + "\n", encoding="utf-8")


def add_calibration(folder: Path, calibration: Calibration) -> None:
    """Replaces a model folder by one with this temperature and the same bits in everything else."""
    with atomic_folder(folder) as place:
        shutil.copytree(folder, place, dirs_exist_ok=True)
        write_calibration(place, calibration)
        write_checksums(place, CHECKED)


def load(folder: str | Path, dtype: torch.dtype = torch.float32, is_verified: bool = True) -> Bundle:
    """Reads a model folder, or the best one of a run folder, in evaluation mode."""
    folder = find(Path(folder))
    try:
        return read(folder, dtype, is_verified)
    except (ModelFolderError, TokenizerError) as error:
        last = folder.parent / "last"
        if folder.name != "best" or not (last / WEIGHTS).is_file():
            raise
        raise ModelFolderError(f"{error}\nThe last model of this run also exists: {last}.") from None


def read(folder: Path, dtype: torch.dtype, is_verified: bool) -> Bundle:
    """The contents of a model folder, verified as far as that is cheap."""
    written = read_checksums(folder)
    config = read_config(folder)
    module, is_int8 = read_weights(folder / WEIGHTS, config, dtype)
    labels = read_json(folder / LABELS) if (folder / LABELS).exists() else None
    tokenizer = Tokenizer.load(folder / TOKENIZER) if (folder / TOKENIZER).exists() else None
    source = Tokenizer.load(folder / SOURCE_TOKENIZER) if (folder / SOURCE_TOKENIZER).exists() else None
    card = (folder / CARD).read_text(encoding="utf-8", errors="replace") if (folder / CARD).exists() else ""
    calibration = read_calibration(folder / CALIBRATION)
    bundle = Bundle(module, tokenizer, source, labels, card, calibration, is_int8)
    check_fit(folder, bundle)
    changed = changed_files(folder, written, CHECKED, LARGEST_VERIFIED) if is_verified else []
    if written is not None and read_checksums(folder) != written:
        return read(folder, dtype, is_verified)  # a run has replaced the folder in the meantime
    refuse_changes(folder, changed)
    return bundle


def read_calibration(path: Path) -> Calibration | None:
    """The temperature of a classifier, if it has one."""
    if not path.exists():
        return None
    try:
        found = Calibration(**read_json(path))
        if math.isfinite(found.temperature) and found.temperature > 0:
            return found
    except TypeError:  # another table, or a text where a number belongs
        pass
    raise ModelFolderError(f"{path} has no temperature above 0.\nThe file is damaged; copy it again.")


def check_fit(folder: Path, bundle: Bundle) -> None:
    """Raises if labels or tokenizers do not belong to the model, so that what is saved can be loaded."""
    config, labels = bundle.config, bundle.labels
    if labels is not None and config.classes is None:
        raise ModelFolderError(
            f"{folder / LABELS} names classes, but the model is not a classifier.\nOmit the labels."
        )
    if labels is not None and not is_labels(labels, config.classes):
        raise ModelFolderError(
            f"{folder / LABELS} must be a list of {config.classes} different texts, one for each class."
        )
    for tokenizer, size, name in (
        (bundle.tokenizer, config.vocabulary, TOKENIZER),
        (bundle.source_tokenizer, config.vocabulary_encoder, SOURCE_TOKENIZER),
    ):
        if tokenizer is not None and tokenizer.size > size:
            raise ModelFolderError(
                f"{folder / name} has {tokenizer.size} tokens, but the model knows {size}.\n"
                "The tokenizer belongs to another model."
            )


def weights_of(module: Model) -> dict[str, Tensor]:
    """Every weight by name; a shared one only once."""
    return {name: weight.detach().contiguous() for name, weight in module.named_parameters()}


def read_config(folder: Path) -> AnyModelConfig:
    """The settings of a model folder."""
    settings = read_json(folder / CONFIG)
    if not isinstance(settings, dict) or "format" not in settings:
        raise ModelFolderError(
            f"{folder / CONFIG} is not a clearhead config: it has no 'format'.\n"
            f"If this is a Hugging Face folder, import it: {import_command(folder)}"
        )
    version = settings.pop("format")
    if version not in range(1, FORMAT + 1):
        raise ModelFolderError(
            f"{folder / CONFIG} has format {version!r}, but this version reads formats 1 to {FORMAT}.\n"
            "Update clearhead."
        )
    try:
        return read_model_config(settings)
    except ConfigError as error:
        raise ModelFolderError(f"{folder / CONFIG}: {error}") from None


def is_labels(labels: Any, classes: int | None) -> bool:
    """A list of as many different texts as there are classes."""
    texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    return texts and len(labels) == len({*labels}) == classes


def read_weights(path: Path, config: AnyModelConfig, dtype: torch.dtype) -> tuple[Model, bool]:
    """A model with the weights of a file, which are checked against the config before memory is allocated.

    Also whether they are int8 in the file; in memory they are the same numbers in another type.
    """
    check_file(path)
    module = empty(config)
    try:
        with safe_open(path, framework="pt") as file:
            check_names(path, file, module)
            is_int8 = any(name.endswith(SCALE) for name in file.keys())  # noqa: SIM118
            weights = {
                # Tensor by tensor, so that one copy of the model is in memory, aligned as torch aligns it.
                name: torch.empty(weight.shape, dtype=dtype).copy_(read_tensor(file, name))
                for name, weight in module.named_parameters()
            }
            module.load_state_dict(weights, strict=False, assign=True)  # a shared weight has one name
    except SafetensorError as error:
        raise ModelFolderError(f"{path} {why_unreadable(path, error)}") from None
    return module.eval(), is_int8 and dtype == torch.float32


def read_tensor(file: Any, name: str) -> Tensor:
    """A weight of an open file, in float32 if it is int8 there."""
    weight: Tensor = file.get_tensor(name)
    return from_int8(weight, file.get_tensor(name + SCALE)) if weight.dtype == torch.int8 else weight


def check_names(path: Path, file: Any, module: Model) -> None:
    """Raises if a file does not contain exactly the model's weights, in their shapes."""
    stored = set(file.keys())
    expected = stored_shapes(module, {name: file.get_slice(name).get_dtype() for name in stored})
    missing, unknown = sorted(expected.keys() - stored), sorted(stored - expected.keys())
    if missing or unknown:
        parts = [f"lacks {first_few(missing)}"] * bool(missing) + [
            f"contains {first_few(unknown)}, which the config does not know"
        ] * bool(unknown)
        raise ModelFolderError(
            f"{path} {' and '.join(parts)}.\nconfig.json and {path.name} belong to different models."
        )
    for name, shape in expected.items():
        view = file.get_slice(name)
        if view.get_shape() != shape:
            raise ModelFolderError(
                f"{path}: {name} has shape {view.get_shape()}, but the config expects {shape}.\n"
                f"config.json and {path.name} belong to different models."
            )


def import_command(source: Path) -> str:
    """The command that makes a model folder of a Hugging Face folder or a GGUF file."""
    name = source.resolve().stem if source.is_file() else source.resolve().name
    return f"clearhead import {shlex.quote(str(source))} {shlex.quote(f'{name}-clearhead')}"


def is_model_folder(folder: Path) -> bool:
    """Whether a folder is one of ours, complete or not."""
    try:
        settings = read_json(folder / CONFIG)
    except ModelFolderError:
        return False
    return isinstance(settings, dict) and "format" in settings


def model_in(folder: Path) -> Path:
    """The model folder itself, or the best one of a run folder."""
    places = (folder, folder / "best", folder / "last")
    return next((place for place in places if (place / CONFIG).exists()), folder)


def find(folder: Path) -> Path:
    """A model folder, also `builtin:NAME`, or the one it was replacing if a save was killed between its two renames."""
    folder = model_in(of_the_package(folder))
    if not folder.exists() and backup_of(folder).is_dir():
        return backup_of(folder)
    if folder.is_file() and folder.suffix.lower() in FOREIGN:
        what = "GGUF file" if folder.suffix.lower() == ".gguf" else "file of weights"
        source = folder if folder.suffix.lower() == ".gguf" else folder.parent
        raise ModelFolderError(
            f"{folder} is a {what}, not a model folder.\nImport it: {import_command(source)}"
        )
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise ModelFolderError(
            f"The model folder {folder} {what}.\nGive a folder with {CONFIG} and {WEIGHTS}."
        )
    return folder
