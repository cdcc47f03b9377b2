"""Tiny models of `transformers` with random weights, one for each thing that a family can be.

Sizes differ from each other, heads are wider or narrower than d / h where the family allows it, and epsilons
are so large that a wrong one shows.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers as hf
from safetensors.torch import load_file
from torch import Tensor, nn

from clearhead import model_folder
from clearhead.exchange.families.registry import family_of
from clearhead.exchange.importing import import_model
from clearhead.exchange.weights.rename import WeightNames
from clearhead.models.model import Model

TOKENS = 61


def random(model: Any) -> Any:
    """Moves every number that was trained, norms and biases too, away from where it starts."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, X in [*model.named_parameters(), *model.named_buffers()]:
            is_trained = isinstance(X, nn.Parameter) and X.requires_grad  # Marian's sinusoids are not
            if is_trained or name == "final_logits_bias":
                X.add_(torch.randn_like(X) * 0.25)
        weights = dict(model.named_parameters())
        gates = {
            "hidden_act": ("relu", "gate_proj", "up_proj"),
            "feed_forward_proj": ("gated-relu", "wi_0", "wi_1"),
        }
        for key, (activation, gate, other) in gates.items():
            for name in weights if getattr(model.config, key, "") == activation else ():
                if f".{gate}." in name:  # relu², the only gate with relu that we have
                    weights[name].copy_(weights[name.replace(f".{gate}.", f".{other}.")])
    return model.eval()


def gpt2(head: str = "LMHeadModel", **changes: Any) -> Any:
    sizes = {"vocab_size": TOKENS, "n_positions": 40, "n_embd": 30, "n_layer": 3, "n_head": 5}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0}
    return getattr(hf, f"GPT2{head}")(hf.GPT2Config(**(sizes | {"layer_norm_epsilon": 0.01} | changes)))


def llama(kind: str, head: str = "ForCausalLM", **changes: Any) -> Any:
    sizes = {
        "vocab_size": TOKENS,
        "hidden_size": 36,
        "intermediate_size": 50,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "rms_norm_eps": 0.02,
    }
    config = getattr(hf, f"{kind}Config")(**(sizes | changes))
    return getattr(hf, f"{kind}{head}")(config)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 300.0,
}
LONG = {"rope_theta": 500_000.0, "original_max_position_embeddings": 8192}
LINEAR = {"rope_type": "linear", "factor": 2.5, "rope_theta": 500.0}


def encoder(kind: str, head: str, **changes: Any) -> Any:
    sizes = {"vocab_size": TOKENS, "max_position_embeddings": 33, "num_labels": 3}
    if kind == "DistilBert":
        sizes |= {"dim": 28, "n_layers": 3, "n_heads": 4, "hidden_dim": 44}
    else:
        sizes |= {
            "hidden_size": 28,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "intermediate_size": 44,
        }
        changes = {"layer_norm_eps": 0.01, "type_vocab_size": 1 if kind == "Roberta" else 2} | changes
    config = getattr(hf, f"{kind}Config")(**(sizes | changes))
    bare = {"add_pooling_layer": False} if head == "Model" and kind != "DistilBert" else {}
    return getattr(hf, f"{kind}{head}")(config, **bare)


def eurobert(head: str, **changes: Any) -> Any:
    """An encoder like a Llama; the ids of its special tokens are within the vocabulary."""
    specials = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "mask_token_id": 4}
    return llama("EuroBert", head, **(specials | {"num_labels": 3, "classifier_pooling": "mean"} | changes))


def marian(**changes: Any) -> Any:
    sizes = {
        "vocab_size": TOKENS,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "max_position_embeddings": 48,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }
    return hf.MarianMTModel(hf.MarianConfig(**(sizes | changes)))


def t5(has_own_head: bool = False, **changes: Any) -> Any:
    sizes = {
        "vocab_size": TOKENS,
        "d_model": 30,
        "d_kv": 7,
        "d_ff": 44,
        "num_layers": 2,
        "num_decoder_layers": 3,
        "num_heads": 4,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 10,
        "layer_norm_epsilon": 0.01,
        "decoder_start_token_id": 0,
    }
    model = hf.T5ForConditionalGeneration(hf.T5Config(**(sizes | changes)))
    if has_own_head:  # as in the files of version 1.1; their library ties the head of every new model
        model.lm_head.weight = nn.Parameter(torch.zeros(TOKENS, 30))
    return model


DECODERS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: gpt2(),
    "gpt2-own-head": lambda: gpt2(tie_word_embeddings=False, n_inner=41, scale_attn_weights=False),
    "llama2": lambda: llama("Llama"),
    "llama3": lambda: llama("Llama", rope_parameters=LLAMA3, head_dim=10),
    "llama-linear": lambda: llama(
        "Llama", rope_parameters=LINEAR, attention_bias=True, mlp_bias=True, tie_word_embeddings=True
    ),
    "mistral": lambda: llama("Mistral", sliding_window=5, head_dim=8),
    "mistral-no-window": lambda: llama("Mistral", sliding_window=None),
    "qwen2": lambda: llama("Qwen2", tie_word_embeddings=True),
    "qwen2-window": lambda: llama("Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=0),
    "qwen3": lambda: llama("Qwen3", head_dim=10),
    "qwen3-relu2": lambda: llama("Qwen3", head_dim=10, hidden_act="relu"),
    "qwen3-bias": lambda: llama("Qwen3", head_dim=4, attention_bias=True, hidden_act="gelu_pytorch_tanh"),
}
CLASSES: dict[str, Any] = {"head": "ForSequenceClassification", "num_labels": 3, "pad_token_id": 1}
CLASSIFIERS: dict[str, Callable[[], Any]] = {  # on causal models; those on encoders are among the encoders
    "gpt2-classifier": lambda: gpt2(**CLASSES),
    "gpt2-tagger": lambda: gpt2(**CLASSES | {"head": "ForTokenClassification"}),
    "llama-classifier": lambda: llama("Llama", **CLASSES),
    "mistral-classifier": lambda: llama("Mistral", sliding_window=5, **CLASSES),
    "qwen2-classifier": lambda: llama("Qwen2", **CLASSES),
    "qwen3-classifier": lambda: llama("Qwen3", head_dim=10, **CLASSES),
}
TRANSLATORS: dict[str, Callable[[], Any]] = {
    "marian": lambda: marian(),
    "marian-two-tables": lambda: marian(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=TOKENS - 4
    ),
    "marian-own-head": lambda: marian(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=TOKENS, tie_word_embeddings=False
    ),
    "marian-two-widths": lambda: marian(encoder_ffn_dim=52),
    "t5": lambda: t5(),
    "t5-1.1": lambda: t5(has_own_head=True, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "t5-relu2": lambda: t5(feed_forward_proj="gated-relu"),
    "t5-1.1-tied": lambda: t5(feed_forward_proj="gated-silu", tie_word_embeddings=False),
}
ENCODERS: dict[str, Callable[[], Any]] = {
    f"{kind}{head}": partial(encoder, kind, head)
    for kind in ("Bert", "Roberta", "DistilBert")
    for head in ("ForMaskedLM", "ForSequenceClassification", "Model")
}
ENCODERS |= {
    "BertForTokenClassification": lambda: encoder("Bert", "ForTokenClassification"),
    "RobertaForTokenClassification": lambda: encoder("Roberta", "ForTokenClassification"),
    "EuroBertForMaskedLM": lambda: eurobert("ForMaskedLM", hidden_act="relu", tie_word_embeddings=True),
    "EuroBertForMaskedLM-biases": lambda: eurobert("ForMaskedLM", mlp_bias=True, attention_bias=True),
    "EuroBertForSequenceClassification": lambda: eurobert("ForSequenceClassification"),
    "EuroBertForSequenceClassification-first": lambda: eurobert(
        "ForSequenceClassification", classifier_pooling="bos", rope_parameters=LINEAR
    ),
    "EuroBertModel": lambda: eurobert("Model"),
}
ALL: dict[str, Callable[[], Any]] = DECODERS | CLASSIFIERS | TRANSLATORS | ENCODERS
SIZES: dict[str, Callable[[], Any]] = {  # of which only the sizes are of interest
    "llama-32": lambda: llama("Llama", hidden_size=96, intermediate_size=64, head_dim=16),
    "llama3-long": lambda: llama("Llama", rope_parameters=LLAMA3 | LONG, head_dim=10),
    "llama-tokens": lambda: llama("Llama", vocab_size=520, num_hidden_layers=1),
}


@dataclass(frozen=True)
class Pair:
    """A model of theirs, what it writes into its folder, and the model that we make of that."""

    theirs: Any
    config: dict[str, Any]
    weights: dict[str, Tensor]
    ours: Model

    @property
    def names(self) -> WeightNames:
        """The names of its weights."""
        return family_of(self.config).weight_names


@cache
def pair(name: str) -> Pair:
    """Their tiny model of this name, and ours."""
    theirs = random((ALL | SIZES)[name]())
    with TemporaryDirectory() as place:
        folder, out = Path(place) / "theirs", Path(place) / "ours"
        theirs.save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "model.safetensors")
        import_model(folder, out)
        return Pair(theirs, config, weights, model_folder.load(out).module)
