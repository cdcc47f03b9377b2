"""Which servers accept an exported folder: a representation enters, one sentence for each server leaves.

vLLM's own graphs of Llama, Mistral and Qwen have silu in the gate; other models it runs by the code of `transformers`.
"""

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError
from clearhead.exchange.families.choose_family import Representation
from clearhead.exchange.families.export_config import score_scale
from clearhead.exchange.families.export_gguf import choose_architecture

WITH_TRANSFORMERS = "with --model-impl transformers"
SILU_ONLY = ("llama", "mistral", "qwen2", "qwen3")


def accepted_by(made: Representation, config: ModelConfig) -> dict[str, str]:
    """What vLLM and llama.cpp say to a folder of this family."""
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
    return WITH_TRANSFORMERS if made.family == "distilbert" else "yes"


def accepted_by_llama_cpp(config: ModelConfig) -> str:
    """Whether an export to GGUF is possible, or the first reason why not."""
    try:
        return f"export it to a .gguf file, as {choose_architecture(config).architecture}"
    except ConfigError as error:
        reasons = str(error).splitlines()
        return f"no: {next((line.strip() for line in reasons if line.startswith('  ')), reasons[0])}"
