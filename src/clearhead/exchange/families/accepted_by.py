"""Who can run a model of ours: its settings enter; its family, and one sentence for each server, leave.

vLLM's own graphs of Llama, Mistral and Qwen have silu in the gate; other models it runs by the code of `transformers`.
"""

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import ConfigError
from clearhead.exchange.families.choose_family import Representation, nearest_family
from clearhead.exchange.families.export_config import score_scale
from clearhead.exchange.families.export_gguf import choose_architecture

WITH_TRANSFORMERS = "with --model-impl transformers"
SILU_ONLY = ("llama", "mistral", "qwen2", "qwen3")


def describe_export(config: AnyModelConfig) -> str:
    """As which family a model can be exported, or the settings that prevent it and those that would not."""
    if not isinstance(config, ModelConfig):
        return f"cannot be exported: other programs have no {config.family} models; share the model folder itself"
    nearest = nearest_family(config)
    if nearest is None:
        return "cannot be exported: no Hugging Face architecture has these sizes; make d a multiple of h, and d_k even"
    if not nearest.differences:
        return f"possible, as {nearest.family}"
    ours = ", ".join(
        f"model.{key} = {spelled(mine)}" for key, (mine, _) in sorted(nearest.differences.items())
    )
    theirs = " ".join(
        f"--model.{key} {spelled(other)}" for key, (_, other) in sorted(nearest.differences.items())
    )
    return f"cannot be exported: {ours}; use {theirs} to export it as {nearest.family}"


def spelled(value: object) -> str:
    """A setting as it is written on a command line."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def accepted_by(made: Representation, config: ModelConfig) -> dict[str, str]:
    """What vLLM and llama.cpp, or for a translator CTranslate2, say to a folder of this family."""
    if config.shape == "encoder-decoder":
        return {"vLLM": accepted_by_vllm(made), "CTranslate2": accepted_by_ctranslate2(made)}
    return {"vLLM": accepted_by_vllm(made), "llama.cpp": accepted_by_llama_cpp(config)}


def accepted_by_vllm(made: Representation) -> str:
    """Whether vLLM serves it, and how."""
    target = made.target
    if target.shape == "encoder-decoder":
        return "no, it has no encoder-decoder of this family"
    if made.family in SILU_ONLY and target.feedforward != "swiglu":
        return f"{WITH_TRANSFORMERS}; its own {made.family} has only silu"
    if made.family == "gpt2" and score_scale(target) != target.width_k**-0.5:
        return f"{WITH_TRANSFORMERS}; its own gpt2 has only the scale 1/√d_k"
    if target.shape == "encoder" and target.head == "language":
        return "no, it has no masked language models"
    return WITH_TRANSFORMERS if made.family in ("distilbert", "eurobert") else "yes"


def accepted_by_ctranslate2(made: Representation) -> str:
    """Whether its converter reads a translator."""
    start, padding = (made.config.get(f"{key}_token_id") for key in ("decoder_start", "pad"))
    if made.family == "marian" and not start == padding == made.target.vocabulary - 1:
        return "no, its marian starts from a zero vector in place of the begin token; export with --for ctranslate2"
    return "yes, by ct2-transformers-converter"


def accepted_by_llama_cpp(config: ModelConfig) -> str:
    """Whether an export to GGUF is possible, or the first reason why not."""
    try:
        return f"export it to a .gguf file, as {choose_architecture(config).architecture}"
    except ConfigError as error:
        reasons = str(error).splitlines()
        return f"no: {next((line.strip() for line in reasons if line.startswith('  ')), reasons[0])}"
