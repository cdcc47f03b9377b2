"""From a folder of Hugging Face, a GGUF file or a model of the hub to a model folder of ours.

What comes in is data: JSON, safetensors, and pickles only where the caller says so. No code of the source is
run, and no more than one tensor is in memory at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.checkpoint import (
    WEIGHTS,
    Checkpoint,
    check_fit,
    is_labels,
    write_all_but_weights,
)
from clearhead.config.model import Head, ModelConfig
from clearhead.errors import CheckpointError, ConfigError
from clearhead.exchange.families import config_from, family_of
from clearhead.exchange.folder import Folder, check_free
from clearhead.exchange.hub import HUB, download
from clearhead.exchange.sentences import sentence_settings
from clearhead.exchange.stored import Stored, find_weights
from clearhead.exchange.tokens import Pair, find_tokenizers
from clearhead.exchange.writing import write_weights
from clearhead.models.build import SHAPES, Model
from clearhead.storage import written_beside


@dataclass(frozen=True)
class Foreign:
    """A model of theirs, understood but not yet read: settings, tensors in their files, tokenizers, labels."""

    where: str
    family: str
    config: ModelConfig
    weights: Mapping[str, Stored]
    tokenizers: Pair = (None, None)
    labels: list[str] | None = None

    def empty(self) -> Model:
        """A model of its settings that takes no memory."""
        with torch.device("meta"):
            return SHAPES[self.config.shape](self.config)


def import_model(
    source: str | Path, out: str | Path, allow_pickle: bool = False, head: Head | None = None
) -> Foreign:
    """Writes the model folder `out` from a source; `head` is what shall be read from the top, if not theirs."""
    out = Path(out)
    check_free(out)
    foreign = find_foreign(source, allow_pickle, head)
    module = foreign.empty()
    tokenizer, source_tokenizer = foreign.tokenizers
    around = Checkpoint(module, tokenizer, source_tokenizer, foreign.labels, card_of(foreign, module))
    check_fit(out, around)
    with written_beside(out) as place:
        write_all_but_weights(place, around)
        write_weights(
            place / WEIGHTS, module, family_of({"model_type": foreign.family}).names, foreign.weights
        )
    return foreign


def find_foreign(source: str | Path, allow_pickle: bool = False, head: Head | None = None) -> Foreign:
    """What a source is: a folder, a GGUF file, or `hub:OWNER/NAME@REVISION`."""
    if isinstance(source, str) and source.startswith(HUB):
        return from_folder(download(source, allow_pickle), source, allow_pickle, head)
    path = Path(source)
    if path.is_file() and path.suffix == ".gguf":
        from clearhead.exchange.gguf_model import from_gguf

        config, weights, tokenizer = from_gguf(path)
        ours = config_from(config, head, weights)
        return Foreign(str(path), config["model_type"], ours, weights, (tokenizer, None))
    if not path.is_dir():
        what = "is a file, and no .gguf" if path.exists() else "does not exist"
        raise CheckpointError(
            f"{source} {what}.\nGive a folder of Hugging Face, a .gguf file, or a model of the hub with the "
            f"commit that is meant: {HUB}OWNER/NAME@COMMIT."
        )
    return from_folder(path, str(path), allow_pickle, head)


def from_folder(path: Path, where: str, allow_pickle: bool, head: Head | None) -> Foreign:
    """A folder of theirs, all of it checked but for the numbers of the weights."""
    folder = Folder(path)
    config = folder.config()
    family_of(config)
    weights = find_weights(folder, allow_pickle)
    ours = config_from(config, head, weights)
    check_problem(config, ours)
    if ours.head == "none":
        ours = ours.replace(**sentence_settings(folder))
    tokenizers = find_tokenizers(folder, config, ours)
    return Foreign(where, str(config["model_type"]), ours, weights, tokenizers, labels_of(config, ours))


def check_problem(config: Mapping[str, Any], ours: ModelConfig) -> None:
    """Refuses a head that is no choice among classes."""
    problem = config.get("problem_type")
    if ours.head == "classifier" and problem not in (None, "single_label_classification"):
        raise ConfigError(
            f"config.json: problem_type = {problem!r} has no counterpart here, where a text has one class.\n"
            "Bring the model in without its head: --head none."
        )


def labels_of(config: Mapping[str, Any], ours: ModelConfig) -> list[str] | None:
    """The names of the classes, where their config has them."""
    table = config.get("id2label")
    if ours.classes is None or not isinstance(table, dict):
        return None
    labels = [table.get(str(number)) for number in range(ours.classes)]
    if not is_labels(labels, ours.classes):
        raise ConfigError(
            f"config.json: id2label does not name {ours.classes} different classes 0 to {ours.classes - 1}.\n"
            "Mend it there."
        )
    return [str(label) for label in labels]


def card_of(foreign: Foreign, module: Model) -> str:
    """What people should know of a model that was made elsewhere."""
    count = sum(weight.numel() for weight in module.parameters())
    return (
        f"# {Path(foreign.where).name}\n\n"
        f"Imported from `{foreign.where}`: family {foreign.family}, shape {foreign.config.shape}, "
        f"head {foreign.config.head}, {count:,} weights.\n\n"
        "Trained elsewhere; data, licence and quality are told by its source.\n"
    )
