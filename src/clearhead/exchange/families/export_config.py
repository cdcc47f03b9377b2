"""Exports configs: one function for each family, from our settings to its config.json.

Each writes what its family can represent. Whether that is everything is not decided here: `choose_family` imports
the result again and compares.
"""

from typing import Any

from clearhead.config.model import GATED, ModelConfig
from clearhead.exchange.families.hf_config import GATES, TOKENS

# Hugging Face's names for our activations; if a family lacks one, the difference shows when it is imported again.
NAMES_OF_ACTIVATIONS = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "silu": "silu",
}
NAMES_OF_GATES = {
    gated: {"gelu_tanh": "gelu_pytorch_tanh"}.get(plain, plain) for plain, gated in GATES.items()
} | {"relu2": "relu"}  # relu(a)² = relu(a) · a: a gate with relu whose two sides have the same weights


def activation_name(config: ModelConfig) -> str:
    """Hugging Face's name for the activation."""
    return NAMES_OF_ACTIVATIONS.get(config.feedforward, "gelu")


def score_scale(config: ModelConfig) -> float:
    """The factor of the product of query and key."""
    if config.scale is not None:
        return config.scale
    return config.width_k**-0.5 if config.similarity == "scaled_dot" else 1.0


def to_gpt2(config: ModelConfig) -> dict[str, Any]:
    """Learned positions, a layer norm before each sublayer, biases everywhere."""
    return {
        "architectures": [
            architecture_for_head(config, "GPT2LMHeadModel", "GPT2ForSequenceClassification", "GPT2Model")
        ],
        "vocab_size": config.vocabulary,
        "n_positions": config.context or 1024,
        "n_embd": config.d,
        "n_layer": config.decoder_blocks,
        "n_head": config.h,
        "n_inner": config.d_ff,
        "activation_function": activation_name(config),
        "layer_norm_epsilon": config.norm_epsilon,
        "scale_attn_weights": score_scale(config) != 1.0,
        "tie_word_embeddings": config.tied,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
    }


def llama_like(config: ModelConfig, name: str) -> dict[str, Any]:
    """What Llama, Mistral and Qwen share."""
    heads = [f"{name}ForCausalLM", f"{name}ForSequenceClassification", f"{name}Model"]
    return {
        "architectures": [architecture_for_head(config, *heads)],
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context or 1 << 20,
        "hidden_size": config.d,
        "num_hidden_layers": config.decoder_blocks,
        "num_attention_heads": config.h,
        "num_key_value_heads": config.groups,
        "head_dim": config.width_k,
        "intermediate_size": config.width_ff(config.d),
        "hidden_act": NAMES_OF_GATES.get(config.feedforward, activation_name(config)),
        "rms_norm_eps": config.norm_epsilon,
        "rope_parameters": rope_parameters(config),
        "rope_theta": config.rotary_base,  # for readers older than rope_parameters
        "tie_word_embeddings": config.tied,
        "attention_dropout": config.attention_dropout,
    }


def to_llama(config: ModelConfig) -> dict[str, Any]:
    """Rotary positions, rms norms, a gated feed-forward, biases everywhere or nowhere.

    A feed-forward without a gate needs biases there: it becomes one with a gate whose other side is always 1.
    """
    biased = config.feedforward_bias or config.feedforward not in (*GATED, "relu2")
    biases = {"attention_bias": bool(config.attention_bias), "mlp_bias": biased}
    return llama_like(config, "Llama") | biases


def to_mistral(config: ModelConfig) -> dict[str, Any]:
    """A Llama with a window."""
    return llama_like(config, "Mistral") | {"sliding_window": config.window}


def to_qwen2(config: ModelConfig) -> dict[str, Any]:
    """A Llama with biases in queries, keys and values."""
    return llama_like(config, "Qwen2") | qwen_window(config)


def to_qwen3(config: ModelConfig) -> dict[str, Any]:
    """A Llama with norms of queries and keys."""
    biases = {"attention_bias": bool(config.attention_bias)}
    return llama_like(config, "Qwen3") | biases | qwen_window(config)


def to_eurobert(config: ModelConfig) -> dict[str, Any]:
    """A Llama whose tokens see those after them too."""
    heads = ["EuroBertForMaskedLM", "EuroBertForSequenceClassification", "EuroBertModel"]
    return to_llama(config) | {
        "architectures": [architecture_for_head(config, *heads)],
        "num_hidden_layers": config.encoder_blocks,
        "classifier_pooling": {"first": "bos", "mean": "mean"}.get(config.pool, "late"),
    }


def qwen_window(config: ModelConfig) -> dict[str, Any]:
    """A window in all blocks, or in none."""
    wide, kind = config.window is None, "full_attention" if config.window is None else "sliding_attention"
    return {
        "use_sliding_window": not wide,
        "sliding_window": config.window,
        "max_window_layers": config.decoder_blocks if wide else 0,
        "layer_types": [kind] * config.decoder_blocks,
    }


def rope_parameters(config: ModelConfig) -> dict[str, Any]:
    """The rotary base and its scaling, if any."""
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": config.rotary_base}
    scaling = config.rotary_scaling
    if scaling is None:
        return rope
    rope |= {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "llama3":
        rope |= {
            "low_freq_factor": scaling.low,
            "high_freq_factor": scaling.high,
            "original_max_position_embeddings": scaling.original_context,
        }
    return rope


def to_bert(config: ModelConfig) -> dict[str, Any]:
    """Norms after each sublayer and after the embeddings, and token types."""
    return bert_like(config, "Bert") | {
        "max_position_embeddings": config.context or 1024,
        "type_vocab_size": config.token_types or 1,
    }


def to_roberta(config: ModelConfig) -> dict[str, Any]:
    """A BERT whose positions are counted from the row after the padding token's id."""
    return bert_like(config, "Roberta") | {
        "max_position_embeddings": (config.context or 1024) + config.position_offset,
        "type_vocab_size": config.token_types or 1,
        "pad_token_id": config.position_offset - 1,
    }


def bert_like(config: ModelConfig, name: str) -> dict[str, Any]:
    """What BERT and RoBERTa share."""
    heads = [f"{name}ForMaskedLM", f"{name}ForSequenceClassification", f"{name}Model"]
    return {
        "architectures": [architecture_for_head(config, *heads)],
        "vocab_size": config.vocabulary,
        "hidden_size": config.d,
        "num_hidden_layers": config.encoder_blocks,
        "num_attention_heads": config.h,
        "intermediate_size": config.width_ff(config.d),
        "hidden_act": activation_name(config),
        "layer_norm_eps": config.norm_epsilon,
        "position_embedding_type": "absolute",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "tie_word_embeddings": True,
    }


def to_distilbert(config: ModelConfig) -> dict[str, Any]:
    """A BERT without token types, whose classifier has a relu."""
    heads = ["DistilBertForMaskedLM", "DistilBertForSequenceClassification", "DistilBertModel"]
    return {
        "architectures": [architecture_for_head(config, *heads)],
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context or 1024,
        "dim": config.d,
        "n_layers": config.encoder_blocks,
        "n_heads": config.h,
        "hidden_dim": config.width_ff(config.d),
        "activation": activation_name(config),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "seq_classif_dropout": config.dropout,
        "tie_word_embeddings": True,
    }


def to_marian(config: ModelConfig) -> dict[str, Any]:
    """Sinusoids in halves, norms after each sublayer, an output bias."""
    sizes = {
        f"{stack}_{key}": value
        for stack, blocks in (("encoder", config.encoder_blocks), ("decoder", config.decoder_blocks))
        for key, value in (
            ("layers", blocks),
            ("attention_heads", config.h),
            ("ffn_dim", config.width_ff(config.d, is_encoder=stack == "encoder")),
        )
    }
    return sizes | {
        "architectures": ["MarianMTModel"],
        "vocab_size": config.vocabulary_encoder,
        "decoder_vocab_size": config.vocabulary,
        "share_encoder_decoder_embeddings": config.is_shared,
        "max_position_embeddings": config.context or 1024,
        "d_model": config.d,
        "scale_embedding": config.embedding_scale != 1.0,
        "activation_function": activation_name(config),
        "tie_word_embeddings": config.tied,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "is_encoder_decoder": True,
    }


def to_t5(config: ModelConfig) -> dict[str, Any]:
    """Dot products without a scale, relative positions, rms norms, no biases.

    A tied head is scaled. An own one is as `tie_word_embeddings` says; whether it is own is read from the weights.
    """
    gated = {"swiglu": "gated-silu", "geglu_tanh": "gated-gelu", "relu2": "gated-relu"}
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": config.vocabulary,
        "d_model": config.d,
        "d_kv": config.width_k,
        "d_ff": config.width_ff(config.d),
        "num_layers": config.encoder_blocks,
        "num_decoder_layers": config.decoder_blocks,
        "num_heads": config.h,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_distance,
        "layer_norm_epsilon": config.norm_epsilon,
        "feed_forward_proj": gated.get(config.feedforward, activation_name(config)),
        "tie_word_embeddings": config.tied or config.head_scale != 1.0,
        "dropout_rate": config.dropout,
        "is_encoder_decoder": True,
    }


def architecture_for_head(config: ModelConfig, language: str, classifier: str, none: str) -> str:
    """The architecture with this head."""
    if config.labels == "each-word":
        classifier = classifier.replace("ForSequenceClassification", TOKENS)
    return {"language": language, "classifier": classifier, "none": none}[config.head]
