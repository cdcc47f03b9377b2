"""Imports: a Hugging Face folder, a GGUF file or a model of the hub enters, a model folder of ours leaves.

Only data is read: JSON, safetensors, and pickles if the caller allows them. No code of the source is run, and no
more than one tensor is in memory at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import Head, Pool
from clearhead.errors import ConfigError, ModelFolderError, first_few
from clearhead.exchange.families.hf_config import SEVERAL
from clearhead.exchange.families.infer import complete_config
from clearhead.exchange.families.registry import FAMILIES, config_from, family_of
from clearhead.exchange.families.sentence_transformers import read_pooling
from clearhead.exchange.hf_folder import HuggingFaceFolder, check_free
from clearhead.exchange.hub import HUB, download
from clearhead.exchange.spelling import describe_unknown_words
from clearhead.exchange.tokenizers.read import Pair, read_tokenizers
from clearhead.exchange.weights.import_weights import import_weights
from clearhead.exchange.weights.read import StoredTensor, read_weights
from clearhead.exchange.weights.zero_start import check_positions
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
    notes: list[str] = field(default_factory=list)  # what was inferred, and what is suspicious

    def empty(self) -> Model:
        """A model with its settings on the meta device, which takes no memory."""
        return empty(self.config)


def import_model(
    source: str | Path,
    out: str | Path,
    allow_pickle: bool = False,
    head: Head | None = None,
    has_tokenizer: bool = True,
    pool: Pool | None = None,
    ignore: Sequence[str] = (),
) -> SourceModel:
    """Writes the model folder `out` from a folder of Hugging Face, or a GGUF file.

    `head` is the head to import and `pool` how it makes one vector of a text, by default those of the source; weights
    whose names match a pattern of `ignore` are skipped.
    """
    out = Path(out)
    check_free(out)
    found = read_source(source, allow_pickle, head, has_tokenizer, ignore)
    found = found if pool is None else replace(found, config=with_pool(found.config, pool))
    module = found.empty()
    tokenizer, source_tokenizer = found.tokenizers
    bundle = Bundle(module, tokenizer, source_tokenizer, found.labels, card_of(found, module))
    with new_folder(out, bundle) as place:
        import_weights(place, module, FAMILIES[found.family].weight_names, found.weights)
    return found


def read_source(
    source: str | Path,
    allow_pickle: bool = False,
    head: Head | None = None,
    has_tokenizer: bool = True,
    ignore: Sequence[str] = (),
) -> SourceModel:
    """Reads a folder, a GGUF file, or `hub:OWNER/NAME@COMMIT`; without its tokenizer if it is not wanted."""
    found = read_any(source, allow_pickle, head, has_tokenizer, ignore)
    return found if has_tokenizer else replace(found, tokenizers=(None, None))


def read_any(
    source: str | Path, allow_pickle: bool, head: Head | None, has_tokenizer: bool, ignore: Sequence[str]
) -> SourceModel:
    """The same, by the kind of the source."""
    if isinstance(source, str) and source.startswith(HUB):
        return read_folder(download(source, allow_pickle), source, allow_pickle, head, ignore)
    path = Path(source)
    if path.is_file() and path.suffix == ".gguf":
        from clearhead.exchange.families.import_gguf import from_gguf

        config, every, tokenizer = from_gguf(path, has_tokenizer)
        weights = without_ignored(every, ignore)
        ours = config_from(config, head, weights)
        return SourceModel(str(path), config["model_type"], ours, weights, (tokenizer, None))
    if not path.is_dir():
        what = "is a file, but not a .gguf file" if path.exists() else "does not exist"
        raise ModelFolderError(
            f"{source} {what}.\nGive a Hugging Face folder, a .gguf file, or a model of the hub at one commit: "
            f"{HUB}OWNER/NAME@COMMIT."
        )
    return read_folder(path, str(path), allow_pickle, head, ignore)


def read_folder(
    path: Path, where: str, allow_pickle: bool, head: Head | None, ignore: Sequence[str]
) -> SourceModel:
    """Reads a Hugging Face folder and checks everything but the numbers of its weights."""
    folder = HuggingFaceFolder(path)
    check_not_ctranslate2(path)
    config = folder.config()
    if config.get("model_type") is not None:
        family_of(config)
    weights = without_ignored(read_weights(folder, allow_pickle), ignore)
    config, head, notes = complete_config(config, weights, head)
    ours = config_from(config, head, weights)
    check_problem_type(config, ours)
    if config["model_type"] == "marian":
        check_positions(weights, ours)
    if ours.head == "none":
        ours = ours.replace(**read_pooling(folder))
    tokenizers = read_tokenizers(folder, config, ours)
    notes += [note for one in tokenizers if one is not None and (note := describe_unknown_words(one))]
    labels = read_labels(config, ours)
    return SourceModel(where, str(config["model_type"]), ours, weights, tokenizers, labels, notes)


def check_not_ctranslate2(path: Path) -> None:
    """Refuses a folder of CTranslate2, and says the way round."""
    vocabularies = ("shared_vocabulary", "source_vocabulary", "vocabulary")
    if (path / "model.bin").is_file() and any(list(path.glob(f"{name}.*")) for name in vocabularies):
        raise ModelFolderError(
            f"{path} is a model of CTranslate2 (model.bin): its weights are fused, and often quantised.\n"
            "Import the Hugging Face folder that it was converted from. In the other direction, "
            "`clearhead export` writes a folder that ct2-transformers-converter converts."
        )


def without_ignored(
    weights: Mapping[str, StoredTensor], patterns: Sequence[str]
) -> Mapping[str, StoredTensor]:
    """The weights whose names match none of these patterns; each pattern must match one."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in weights):
            raise ConfigError(
                f"--ignore {pattern!r} matches no weight of the source.\nIt has: {first_few(sorted(weights), 8)}."
            )
    return {
        name: stored
        for name, stored in weights.items()
        if not any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def with_pool(config: ModelConfig, pool: Pool) -> ModelConfig:
    """The settings with another way to make one vector of a text; a classifier has learned its own."""
    if config.head == "classifier":
        raise ConfigError(
            f"--pool {pool}: this classifier has learned with pool = {config.pool!r}.\n"
            "Omit --pool, or import the model without its head: --head none."
        )
    return config.replace(pool=pool)


def check_problem_type(config: Mapping[str, Any], ours: ModelConfig) -> None:
    """Refuses a classifier that assigns no classes."""
    problem = config.get("problem_type")
    if ours.head == "classifier" and problem not in (None, "single_label_classification", SEVERAL):
        raise ConfigError(
            f"config.json: problem_type = {problem!r} is unsupported; a text has classes, not numbers.\n"
            "Import the model without its head: --head none."
        )


def read_labels(config: Mapping[str, Any], ours: ModelConfig) -> list[str] | None:
    """The names of the classes, if config.json has them."""
    table = config.get("id2label")
    if isinstance(table, list):
        table = {str(number): label for number, label in enumerate(table)}
    if ours.classes is None or not isinstance(table, dict) or not table:
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
