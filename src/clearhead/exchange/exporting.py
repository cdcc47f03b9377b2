"""Exports: a model folder of ours enters, a folder that `transformers` loads without our code leaves.

Config, weights and tokenizer are written for the first family that can represent the model. Weights go from file
to file, one tensor at a time.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.families.choose_family import Representation, choose_family, filling
from clearhead.exchange.families.embedding_norm import with_normed_table
from clearhead.exchange.families.registry import FAMILIES
from clearhead.exchange.families.sentence_transformers import pooling_files
from clearhead.exchange.hf_folder import CONFIG, check_free, write_json
from clearhead.exchange.tokenizers.read import TARGET
from clearhead.exchange.tokenizers.write import special_token_ids, unsuitable_families, write_tokenizer
from clearhead.exchange.weights.export_weights import Change, export_weights, scaled
from clearhead.exchange.weights.read import StoredTensor, read_safetensors
from clearhead.exchange.weights.zero_start import check_zero_start, starting_from_zero
from clearhead.folder_files import changed_files, check_file, read_checksums, read_json, refuse_changes
from clearhead.model_folder import (
    CALIBRATION,
    CARD,
    CHECKED,
    LABELS,
    SOURCE_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
    check_names,
    find,
    is_labels,
    read_calibration,
    read_config,
    read_tensor,
)
from clearhead.models.build import empty
from clearhead.models.int8 import SCALE
from clearhead.storage import atomic_folder
from clearhead.text.tokenizers.tokenizer import Tokenizer


def export_model(folder: str | Path, out: str | Path, for_ctranslate2: bool = False) -> Representation:
    """Writes the folder `out` for `transformers`; returns the family and what had to be added.

    `for_ctranslate2` lets a Marian start from a zero vector, as its converter expects (see `zero_start`).
    """
    folder, out = find(Path(folder)), Path(out)
    check_free(out)
    config = exportable_config(folder)
    target, source = (load_tokenizer(folder / name) for name in (TOKENIZER, SOURCE_TOKENIZER))
    made = choose_family(config, without=unsuitable_families(source or target))
    model, weights = empty(made.target), checked_weights(folder, config)
    check_padding(made, source or target)
    special = special_token_ids(config, target)
    change: Change | None = None
    if for_ctranslate2 and needs_zero_start(made, special):
        check_zero_start(config)
        change = partial(starting_from_zero, config=made.target, begin=special["decoder_start_token_id"])
        made, special = with_zero_start(made, special)
    settings = special | made.config | label_settings(folder, config)
    settings["dtype"] = str(next(iter(weights.values())).dtype).removeprefix("torch.")
    calibration = read_calibration(folder / CALIBRATION)
    fill = scaled(
        filling(made, config), {} if calibration is None else {"head.out.": 1 / calibration.temperature}
    )
    names = FAMILIES[made.family].weight_names
    with atomic_folder(out) as place:
        write_json(place / CONFIG, settings)
        export_weights(place / WEIGHTS, model, names, weights, fill, change)
        write_pooling_and_card(place, folder, config)
        if target is not None:
            write_json(place / "generation_config.json", special)
            write_tokenizer(place, source or target, config)
            if source is not None:
                write_tokenizer(place / TARGET, target, config)
    return replace(made, config=settings)


def needs_zero_start(made: Representation, special: dict[str, Any]) -> bool:
    """Whether CTranslate2 would start a translator otherwise than it was trained."""
    if made.target.shape != "encoder-decoder":
        raise ConfigError(
            f"--for ctranslate2 applies to translators, and this model has shape = {made.target.shape!r}.\n"
            "Export it without --for."
        )
    start, padding = special["decoder_start_token_id"], special["pad_token_id"]
    return made.family == "marian" and not start == padding == made.target.vocabulary - 1


def with_zero_start(made: Representation, special: dict[str, Any]) -> tuple[Representation, dict[str, Any]]:
    """A Marian with one more token, from which its decoder starts, and with which texts are padded."""
    last = made.target.vocabulary
    sizes = {"vocab_size": last + 1, "decoder_vocab_size": last + 1}
    ids = {"decoder_start_token_id": last, "pad_token_id": last, "bad_words_ids": [[last]]}
    target = made.target.replace(vocabulary=last + 1)
    return replace(made, target=target, config=made.config | sizes), special | ids


def exportable_config(folder: Path) -> ModelConfig:
    """The settings of a model folder, which must be those of a transformer."""
    config = read_config(folder)
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            f"{folder} has model.family = {config.family!r}, and other programs have no such architecture: "
            "only transformers can be exported.\nShare the model folder itself; it is JSON and safetensors."
        )
    if pruned := next(iter({**config.kept_heads, **config.kept_units}), None):
        raise ConfigError(
            f"{folder} is pruned, as {pruned} is, and other programs want the same number of heads and units in every "
            "block.\nExport it at its former size, with zeros in the place of what was removed: --pad."
        )
    return config


def checked_weights(folder: Path, config: ModelConfig) -> dict[str, StoredTensor]:
    """The weights of a model folder, which must be those of its config, as other programs can have them."""
    check_file(folder / WEIGHTS)
    refuse_changes(folder, changed_files(folder, read_checksums(folder), CHECKED))
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        check_names(folder / WEIGHTS, file, empty(config))
    stored = without_scales(folder / WEIGHTS, read_safetensors(folder / WEIGHTS))
    return with_normed_table(config, stored)


def without_scales(path: Path, weights: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """The weights of a file, in float32 where the file has int8 and scales: other programs read no scales."""

    def whole(name: str, stored: StoredTensor) -> StoredTensor:
        def read() -> Tensor:
            with safe_open(path, framework="pt") as file:
                return read_tensor(file, name)

        return StoredTensor(stored.shape, torch.float32, read) if stored.dtype == torch.int8 else stored

    return {name: whole(name, stored) for name, stored in weights.items() if not name.endswith(SCALE)}


def load_tokenizer(path: Path) -> Tokenizer | None:
    """A tokenizer of the model folder, if it exists."""
    return Tokenizer.load(path) if path.exists() else None


def write_pooling_and_card(place: Path, folder: Path, config: ModelConfig) -> None:
    """How sentence vectors are pooled, and the card as README.md."""
    if config.head == "none":
        for name, content in pooling_files(config).items():
            write_json(place / name, content)
    if (folder / CARD).exists():
        card = (folder / CARD).read_text(encoding="utf-8", errors="replace")
        (place / "README.md").write_text(card, encoding="utf-8")


def check_padding(made: Representation, tokenizer: Tokenizer | None) -> None:
    """RoBERTa derives its first position from the id of the padding token."""
    expected = made.target.position_offset - 1
    if (
        made.family == "roberta"
        and tokenizer is not None
        and tokenizer.specials.padding not in (None, expected)
    ):
        raise ConfigError(
            f"model.position_offset = {expected + 1} requires {expected} as the padding id in a RoBERTa, but the "
            f"tokenizer's padding id is {tokenizer.specials.padding}.\n"
            "No other family has an offset; train without one."
        )


def label_settings(folder: Path, config: ModelConfig) -> dict[str, Any]:
    """The names of the classes for `config.json`."""
    if config.classes is None or not (folder / LABELS).exists():
        return {}
    labels = read_json(folder / LABELS)
    if not is_labels(labels, config.classes):
        raise ModelFolderError(f"{folder / LABELS} must be a list of {config.classes} different texts.")
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
