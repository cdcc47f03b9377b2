"""What a source computes by itself: the same ids through `transformers`, or through another folder of ours.

A source enters; a function from ids to logits leaves, the measure of `clearhead check MODEL --against SOURCE`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from clearhead import checkpoint
from clearhead.config.model import ModelConfig
from clearhead.errors import CheckpointError, ConfigError
from clearhead.exchange.folder import CONFIG, Folder, check_no_code
from clearhead.exchange.hub import HUB, download
from clearhead.exchange.stored import find_weights

# The class of theirs for a head, by the shape of the model where that matters.
CLASSES = {
    ("language", "decoder"): "AutoModelForCausalLM",
    ("language", "encoder"): "AutoModelForMaskedLM",
    ("language", "encoder-decoder"): "AutoModelForSeq2SeqLM",
    ("classifier", "decoder"): "AutoModelForSequenceClassification",
    ("classifier", "encoder"): "AutoModelForSequenceClassification",
    ("none", "decoder"): "AutoModel",
    ("none", "encoder"): "AutoModel",
}


@dataclass(frozen=True)
class Reference:
    """What another implementation computes, and the one id that it may read in a way of its own."""

    run: Callable[[Tensor, Tensor | None], Tensor]  # ids (1, n), of a translator also its source (1, m)
    padding: int | None = None


def reference_of(source: str | Path, config: ModelConfig, allow_pickle: bool = False) -> Reference:
    """The source of a model, ready to run."""
    if isinstance(source, str) and source.startswith(HUB):
        return of_theirs(download(source, allow_pickle), config, allow_pickle)
    path = checkpoint.model_in(Path(source))
    if path.is_file() and path.suffix == ".gguf":
        return of_theirs(path.parent, config, allow_pickle, gguf_file=path.name)
    if not path.is_dir():
        raise CheckpointError(
            f"{source} is no folder and no .gguf file.\nGive the source that the model was imported from."
        )
    settings = Folder(path).table(CONFIG)
    if "format" in settings and "model_type" not in settings:
        return of_ours(path, config)
    return of_theirs(path, config, allow_pickle)


def of_ours(path: Path, config: ModelConfig) -> Reference:
    """Another model folder."""
    module = checkpoint.load(path).module
    check_comparable(path, "shape", config.shape, module.config.shape)
    check_comparable(path, "vocabulary", config.vocabulary, module.config.vocabulary)
    check_comparable(path, "source_vocabulary", config.vocabulary_encoder, module.config.vocabulary_encoder)

    @torch.no_grad()
    def run(tokens: Tensor, source: Tensor | None) -> Tensor:
        given = (tokens,) if source is None else (tokens, source)
        call = module.vectors if module.config.head == "none" else module
        return call(*given)

    return Reference(run)


def check_comparable(path: Path, name: str, ours: str | int, theirs: str | int) -> None:
    """Refuses a reference that cannot read what the model reads."""
    if ours != theirs:
        raise CheckpointError(
            f"{path} is a model of another {name}, {theirs} and not {ours}, so there is nothing to compare.\n"
            "Give the source of the model, or a model that was made from it."
        )


def of_theirs(path: Path, config: ModelConfig, allow_pickle: bool, **more: Any) -> Reference:
    """A folder of Hugging Face in `transformers`, which runs no code of the folder either."""
    if not more:
        folder = Folder(path)
        check_no_code(CONFIG, folder.config())
        find_weights(folder, allow_pickle)
    package = import_transformers(path)
    loader = getattr(package, CLASSES[config.head, config.shape])
    safe = {} if allow_pickle or more else {"use_safetensors": True}
    try:
        theirs = loader.from_pretrained(
            path, local_files_only=True, trust_remote_code=False, dtype=torch.float32, **safe, **more
        ).eval()
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        reason = (str(error).splitlines() or [repr(error)])[0]
        raise ConfigError(f"transformers cannot load {path}: {reason}") from error
    rows = theirs.get_input_embeddings().num_embeddings  # more than ours do no harm
    check_comparable(path, "vocabulary", config.vocabulary, min(config.vocabulary, rows))

    @torch.no_grad()
    def run(tokens: Tensor, source: Tensor | None) -> Tensor:
        given = (
            {"input_ids": tokens} if source is None else {"input_ids": source, "decoder_input_ids": tokens}
        )
        out = theirs(**given)
        return out.last_hidden_state if config.head == "none" else out.logits

    return Reference(run, theirs.config.pad_token_id)


def import_transformers(path: Path) -> ModuleType:
    """The package that is the measure."""
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            f"To run {path} as its makers do, the package transformers is needed, which is not installed.\n"
            "Install it (pip install transformers), or compare with a model folder of ours."
        ) from None
    return transformers
