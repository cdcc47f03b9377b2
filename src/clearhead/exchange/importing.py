"""Imports: a Hugging Face folder, a GGUF file or a model of the hub enters, a model folder of ours leaves.

Only data is read: JSON, safetensors, and pickles if the caller allows them. No code of the source is run, and no
more than one tensor is in memory at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.config.model import Head, ModelConfig
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.families.registry import FAMILIES, config_from, family_of
from clearhead.exchange.families.sentence_transformers import read_pooling
from clearhead.exchange.hf_folder import HuggingFaceFolder, check_free
from clearhead.exchange.hub import HUB, download
from clearhead.exchange.tokenizers.read import Pair, read_tokenizers
from clearhead.exchange.weights.import_weights import import_weights
from clearhead.exchange.weights.read import StoredTensor, read_weights
from clearhead.model_folder import (
    Bundle,
    is_labels,
    new_folder,
)
from clearhead.models.build import empty
from clearhead.models.model import Model


@dataclass(frozen=True)
class SourceModel:
    """A model to import: its settings are ours already, its tensors are still in their files."""

    where: str
    family: str
    config: ModelConfig
    weights: Mapping[str, StoredTensor]
    tokenizers: Pair = (None, None)
    labels: list[str] | None = None

    def empty(self) -> Model:
        """A model with its settings on the meta device, which takes no memory."""
        return empty(self.config)


def import_model(
    source: str | Path,
    out: str | Path,
    allow_pickle: bool = False,
    head: Head | None = None,
    has_tokenizer: bool = True,
) -> SourceModel:
    """Writes the model folder `out`; `head` is the head to import, by default the one that the source has."""
    out = Path(out)
    check_free(out)
    found = read_source(source, allow_pickle, head, has_tokenizer)
    module = found.empty()
    tokenizer, source_tokenizer = found.tokenizers
    bundle = Bundle(module, tokenizer, source_tokenizer, found.labels, card_of(found, module))
    with new_folder(out, bundle) as place:
        import_weights(place, module, FAMILIES[found.family].weight_names, found.weights)
    return found


def read_source(
    source: str | Path, allow_pickle: bool = False, head: Head | None = None, has_tokenizer: bool = True
) -> SourceModel:
    """Reads a folder, a GGUF file, or `hub:OWNER/NAME@COMMIT`; without its tokenizer if it is not wanted."""
    found = read_any(source, allow_pickle, head, has_tokenizer)
    return found if has_tokenizer else replace(found, tokenizers=(None, None))


def read_any(source: str | Path, allow_pickle: bool, head: Head | None, has_tokenizer: bool) -> SourceModel:
    """The same, by the kind of the source."""
    if isinstance(source, str) and source.startswith(HUB):
        return read_folder(download(source, allow_pickle), source, allow_pickle, head)
    path = Path(source)
    if path.is_file() and path.suffix == ".gguf":
        from clearhead.exchange.families.import_gguf import from_gguf

        config, weights, tokenizer = from_gguf(path, has_tokenizer)
        ours = config_from(config, head, weights)
        return SourceModel(str(path), config["model_type"], ours, weights, (tokenizer, None))
    if not path.is_dir():
        what = "is a file, but not a .gguf file" if path.exists() else "does not exist"
        raise ModelFolderError(
            f"{source} {what}.\nGive a Hugging Face folder, a .gguf file, or a model of the hub at one commit: "
            f"{HUB}OWNER/NAME@COMMIT."
        )
    return read_folder(path, str(path), allow_pickle, head)


def read_folder(path: Path, where: str, allow_pickle: bool, head: Head | None) -> SourceModel:
    """Reads a Hugging Face folder and checks everything but the numbers of its weights."""
    folder = HuggingFaceFolder(path)
    config = folder.config()
    family_of(config)
    weights = read_weights(folder, allow_pickle)
    ours = config_from(config, head, weights)
    check_problem_type(config, ours)
    if ours.head == "none":
        ours = ours.replace(**read_pooling(folder))
    tokenizers = read_tokenizers(folder, config, ours)
    return SourceModel(where, str(config["model_type"]), ours, weights, tokenizers, read_labels(config, ours))


def check_problem_type(config: Mapping[str, Any], ours: ModelConfig) -> None:
    """Refuses a classifier that does not assign exactly one class."""
    problem = config.get("problem_type")
    if ours.head == "classifier" and problem not in (None, "single_label_classification"):
        raise ConfigError(
            f"config.json: problem_type = {problem!r} is unsupported; a text has one class.\n"
            "Import the model without its head: --head none."
        )


def read_labels(config: Mapping[str, Any], ours: ModelConfig) -> list[str] | None:
    """The names of the classes, if config.json has them."""
    table = config.get("id2label")
    if ours.classes is None or not isinstance(table, dict):
        return None
    labels = [table.get(str(number)) for number in range(ours.classes)]
    if not is_labels(labels, ours.classes):
        raise ConfigError(
            f"config.json: id2label does not name {ours.classes} different classes 0 to {ours.classes - 1}.\n"
            "Fix it there."
        )
    return [str(label) for label in labels]


def card_of(source: SourceModel, module: Model) -> str:
    """The model card of a model that was trained elsewhere."""
    count = sum(weight.numel() for weight in module.parameters())
    return (
        f"# {Path(source.where).name}\n\n"
        f"Imported from `{source.where}`: family {source.family}, shape {source.config.shape}, "
        f"head {source.config.head}, {count:,} weights.\n\n"
        "Trained elsewhere; see the source for data, licence and quality.\n"
    )
