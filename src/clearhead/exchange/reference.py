"""Runs a source as a reference: a source enters, a function from ids to logits leaves.

A Hugging Face model runs in `transformers`, a model folder in clearhead. `clearhead check MODEL --against SOURCE`
compares with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.families.infer import complete_config
from clearhead.exchange.hf_folder import CONFIG, HuggingFaceFolder, check_no_code
from clearhead.exchange.hub import HUB, download
from clearhead.exchange.weights.read import read_weights
from clearhead.models.inputs import Inputs


def class_for(config: AnyModelConfig) -> str:
    """The class of `transformers` for a head and a shape."""
    match config.head, config.shape:
        case "language", "decoder":
            return "AutoModelForCausalLM"
        case "language", "encoder":
            return "AutoModelForMaskedLM"
        case "language", _:
            return "AutoModelForSeq2SeqLM"
        case "classifier", _:
            kind = "Token" if config.labels == "each-word" else "Sequence"
            return f"AutoModelFor{kind}Classification"
    return "AutoModel"


@dataclass(frozen=True)
class Reference:
    """Another implementation of a model, and the one id that it may treat differently."""

    run: Callable[[Inputs], Tensor]  # of one sequence, without padding
    padding: int | None = None


def reference_of(source: str | Path, config: AnyModelConfig, allow_pickle: bool = False) -> Reference:
    """The source of a model, loaded."""
    if isinstance(source, str) and source.startswith(HUB):
        return huggingface_reference(download(source, allow_pickle), config, allow_pickle)
    path = model_folder.model_in(Path(source))
    if path.is_file() and path.suffix == ".gguf":
        return huggingface_reference(path.parent, config, allow_pickle, gguf_file=path.name)
    if not path.is_dir():
        raise ModelFolderError(
            f"{source} is neither a folder nor a .gguf file.\nGive the source from which the model was imported."
        )
    settings = HuggingFaceFolder(path).table(CONFIG)
    if "format" in settings and "model_type" not in settings:
        return clearhead_reference(path, config)
    return huggingface_reference(path, config, allow_pickle)


def clearhead_reference(path: Path, config: AnyModelConfig) -> Reference:
    """Another model folder as the reference."""
    module = model_folder.load(path).module
    check_comparable(path, "shape", config.shape, module.config.shape)
    check_comparable(path, "vocabulary", config.vocabulary, module.config.vocabulary)
    check_comparable(path, "source_vocabulary", config.vocabulary_encoder, module.config.vocabulary_encoder)

    return Reference(torch.no_grad()(module.outputs))


def check_comparable(path: Path, name: str, ours: str | int, theirs: str | int) -> None:
    """Refuses a reference that cannot take the same input."""
    if ours != theirs:
        raise ModelFolderError(
            f"{path} has {name} = {theirs}, but the model has {ours}; they cannot be compared.\n"
            "Give the source of the model, or a model that was made from it."
        )


def huggingface_reference(path: Path, config: AnyModelConfig, allow_pickle: bool, **more: Any) -> Reference:
    """A Hugging Face model in `transformers`, which runs no code from the folder either."""
    package = import_transformers(path)
    if not more:
        folder = HuggingFaceFolder(path)
        settings = folder.config()
        check_no_code(CONFIG, settings)
        complete, _, _ = complete_config(settings, read_weights(folder, allow_pickle), config.head)
        if complete != settings:  # what `transformers` cannot read by itself
            family = str(complete.pop("model_type"))
            more = {"config": package.AutoConfig.for_model(family, **complete)}
    loader = getattr(package, class_for(config))
    safe = {} if allow_pickle or "gguf_file" in more else {"use_safetensors": True}
    try:
        theirs = loader.from_pretrained(
            path, local_files_only=True, trust_remote_code=False, dtype=torch.float32, **safe, **more
        ).eval()
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        reason = (str(error).splitlines() or [repr(error)])[0]
        raise ConfigError(f"transformers cannot load {path}: {reason}") from error
    rows = theirs.get_input_embeddings().num_embeddings  # padding rows beyond ours do no harm
    check_comparable(path, "vocabulary", config.vocabulary, min(config.vocabulary, rows))

    @torch.no_grad()
    def run(inputs: Inputs) -> Tensor:
        given = {"input_ids": inputs.tokens}
        if inputs.source is not None:
            given = {"input_ids": inputs.source, "decoder_input_ids": inputs.tokens}
        out = theirs(**given)
        return out.last_hidden_state if config.head == "none" else out.logits

    return Reference(run, theirs.config.pad_token_id)


def import_transformers(path: Path) -> ModuleType:
    """The package that runs the source."""
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            f"{path} needs the package transformers, which is not installed.\n"
            "Install it (pip install transformers), or compare with a model folder of clearhead."
        ) from None
    return transformers
