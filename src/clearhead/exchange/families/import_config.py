"""Imports configs: one function for each family, from its config.json to our settings.

Keys that older files omit have the default of their time. Sizes need no such care: if one is wrong, the weights do
not fit.
"""

from typing import Any

from clearhead.config.model import FeedForward, ModelConfig
from clearhead.errors import ConfigError
from clearhead.exchange.families.hf_config import HuggingFaceConfig

POST_NORM_ENCODER: dict[str, Any] = {
    "shape": "encoder",
    "attention_bias": "qkvo",
    "positions": "learned",
    "norm": "layer",
    "norm_placement": "post",
    "embedding_norm": True,
    "feedforward_bias": True,
}


def from_gpt2(hf: HuggingFaceConfig) -> ModelConfig:
    """Radford et al., 2019: learned positions, a layer norm before each sublayer, biases everywhere."""
    hf.expect(scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    return ModelConfig(
        vocabulary=hf["vocab_size"],
        context=hf["n_positions"],
        d=hf["n_embd"],
        decoder_blocks=hf["n_layer"],
        h=hf["n_head"],
        similarity="scaled_dot" if hf.get("scale_attn_weights", True) else "dot",
        attention_bias="qkvo",
        positions="learned",
        norm="layer",
        norm_epsilon=hf.get("layer_norm_epsilon", 1e-5),
        feedforward=hf.activation(hf.get("activation_function", "gelu_new")),
        d_ff=hf.get("n_inner"),
        feedforward_bias=True,
        tied=hf.get("tie_word_embeddings", True),
        dropout=hf.get("resid_pdrop", 0.1),
        attention_dropout=hf.get("attn_pdrop", 0.1),
        **head_of_tokens(hf),
    )


def from_llama(hf: HuggingFaceConfig, **differences: Any) -> ModelConfig:
    """Touvron et al., 2023: rotary positions, rms norms, a gated feed-forward, no biases unless stated."""
    settings = {
        "vocabulary": hf["vocab_size"],
        "context": hf["max_position_embeddings"],
        "d": hf["hidden_size"],
        "decoder_blocks": hf["num_hidden_layers"],
        "h": hf["num_attention_heads"],
        "h_kv": hf.get("num_key_value_heads"),
        "d_k": hf.get("head_dim"),
        "attention_bias": "qkvo" if hf.get("attention_bias", False) else "",
        "positions": "rotary",
        **hf.rotation(),
        "norm": "rms",
        "norm_epsilon": hf.get("rms_norm_eps", 1e-6),
        "feedforward": gate_of(hf, hf.get("hidden_act", "silu")),
        "d_ff": hf["intermediate_size"],
        "feedforward_bias": hf.get("mlp_bias", False),
        "tied": hf.get("tie_word_embeddings", False),
        "attention_dropout": hf.get("attention_dropout", 0.0),
        **head_of_tokens(hf),
    }
    return ModelConfig(**(settings | differences))


def gate_of(hf: HuggingFaceConfig, name: str) -> FeedForward:
    """Our name for the gate; one with relu is relu² if its two sides have the same weights, which import checks."""
    return "relu2" if name == "relu" else hf.gate(name)


def from_mistral(hf: HuggingFaceConfig) -> ModelConfig:
    """Jiang et al., 2023: a Llama with a sliding window."""
    hf.expect(layer_types=None)
    return from_llama(hf, window=hf.values.get("sliding_window", 4096))


def from_qwen2(hf: HuggingFaceConfig) -> ModelConfig:
    """Yang et al., 2024: a Llama with biases in queries, keys and values."""
    return from_llama(hf, window=hf.window(), attention_bias="qkv")


def from_qwen3(hf: HuggingFaceConfig) -> ModelConfig:
    """Yang et al., 2025: a Llama with norms of queries and keys, and an independent head width."""
    return from_llama(hf, window=hf.window(), query_key_norm=True, d_k=hf.get("head_dim", 128))


def from_eurobert(hf: HuggingFaceConfig) -> ModelConfig:
    """Boizard et al., 2025: a Llama whose tokens see those after them too."""
    pools = {"bos": "first", "mean": "mean"}
    settings: dict[str, Any] = {"head": hf.head, "head_bias": hf.get("mlp_bias", False)}
    if hf.head == "classifier" and hf.labels == "each-word":
        settings = head_of_words(hf)
    elif hf.head == "classifier":
        pool = hf.get("classifier_pooling", "late")
        if pool not in pools:
            raise ConfigError(
                f"config.json: classifier_pooling = {pool!r} is unsupported.\n"
                f"Only models with one of {', '.join(pools)} can be imported as classifiers; or use --head none."
            )
        settings = {"head": hf.head, "classes": hf.classes, "pool": pools[pool], "pool_dense": "gelu"}
        settings["labels"] = hf.labels
    settings |= {"encoder_blocks": hf["num_hidden_layers"], "norm_epsilon": hf.get("rms_norm_eps", 1e-5)}
    return from_llama(hf, **({"shape": "encoder", "class_bias": True} | settings))


def from_bert(hf: HuggingFaceConfig, **differences: Any) -> ModelConfig:
    """Devlin et al., 2018: norms after each sublayer and after the embeddings, and token types."""
    hf.expect(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    activation = hf.activation(hf.get("hidden_act", "gelu"))
    settings = POST_NORM_ENCODER | {
        "vocabulary": hf["vocab_size"],
        "context": hf["max_position_embeddings"],
        "token_types": hf.get("type_vocab_size", 2),
        "d": hf["hidden_size"],
        "encoder_blocks": hf["num_hidden_layers"],
        "h": hf["num_attention_heads"],
        "norm_epsilon": hf.get("layer_norm_eps", 1e-12),
        "feedforward": activation,
        "d_ff": hf["intermediate_size"],
        "dropout": hf.get("hidden_dropout_prob", 0.1),
        "attention_dropout": hf.get("attention_probs_dropout_prob", 0.1),
    }
    return ModelConfig(**(settings | head_of_encoder(hf, activation) | differences))


def from_roberta(hf: HuggingFaceConfig) -> ModelConfig:
    """Liu et al., 2019: a BERT whose positions are counted from the row after the padding token's id."""
    offset = hf.get("pad_token_id", 1) + 1
    return from_bert(hf, context=hf["max_position_embeddings"] - offset, position_offset=offset)


def from_distilbert(hf: HuggingFaceConfig) -> ModelConfig:
    """Sanh et al., 2019: a BERT without token types, whose classifier has a relu."""
    activation = hf.activation(hf.get("activation", "gelu"))
    settings = POST_NORM_ENCODER | {
        "vocabulary": hf["vocab_size"],
        "context": hf["max_position_embeddings"],
        "d": hf["dim"],
        "encoder_blocks": hf["n_layers"],
        "h": hf["n_heads"],
        "norm_epsilon": 1e-12,
        "feedforward": activation,
        "d_ff": hf["hidden_dim"],
        "dropout": hf.get("dropout", 0.1),
        "attention_dropout": hf.get("attention_dropout", 0.1),
    }
    return ModelConfig(**(settings | head_of_encoder(hf, activation, pool_dense="relu")))


def from_marian(hf: HuggingFaceConfig) -> ModelConfig:
    """Junczys-Dowmunt et al., 2018: the transformer of 2017 with an output bias."""
    hf.expect(decoder_attention_heads=hf["encoder_attention_heads"])
    d_ff = hf.get("decoder_ffn_dim", hf["encoder_ffn_dim"])
    shared = hf.get("share_encoder_decoder_embeddings", True)
    if shared:
        hf.expect(tie_word_embeddings=True)
    return ModelConfig(
        shape="encoder-decoder",
        vocabulary=hf["vocab_size"] if shared else hf["decoder_vocab_size"],
        source_vocabulary=None if shared else hf["vocab_size"],
        context=hf["max_position_embeddings"],
        shared=shared,
        embedding_scale=hf["d_model"] ** 0.5 if hf.get("scale_embedding", False) else 1.0,
        d=hf["d_model"],
        encoder_blocks=hf["encoder_layers"],
        decoder_blocks=hf["decoder_layers"],
        h=hf["encoder_attention_heads"],
        attention_bias="qkvo",
        positions="sinusoidal",
        sinusoid_layout="halves",
        norm="layer",
        norm_placement="post",
        feedforward=hf.activation(hf.get("activation_function", "gelu")),
        d_ff=d_ff,
        encoder_d_ff=None if d_ff == hf["encoder_ffn_dim"] else hf["encoder_ffn_dim"],
        feedforward_bias=True,
        tied=hf.get("tie_word_embeddings", True),
        head_bias=True,
        dropout=hf.get("dropout", 0.1),
        attention_dropout=hf.get("attention_dropout", 0.0),
        **head_of_tokens(hf),
    )


def from_t5(hf: HuggingFaceConfig) -> ModelConfig:
    """Raffel et al., 2020: dot products without a scale, relative positions, rms norms, no biases."""
    kind, _, activation = hf.get("feed_forward_proj", "relu").rpartition("-")
    activation = (
        "gelu_new" if (kind, activation) == ("gated", "gelu") else activation
    )  # as version 1.1 means it
    dropout = hf.get("dropout_rate", 0.1)
    return ModelConfig(
        shape="encoder-decoder",
        vocabulary=hf["vocab_size"],
        context=None,
        d=hf["d_model"],
        encoder_blocks=hf["num_layers"],
        decoder_blocks=hf.get("num_decoder_layers") or hf["num_layers"],
        h=hf["num_heads"],
        d_k=hf["d_kv"],
        similarity="dot",
        positions="relative",
        relative_buckets=hf.get("relative_attention_num_buckets", 32),
        relative_distance=hf.get("relative_attention_max_distance", 128),
        norm="rms",
        norm_epsilon=hf.get("layer_norm_epsilon", 1e-6),
        feedforward=gate_of(hf, activation) if kind == "gated" else hf.activation(activation),
        d_ff=hf["d_ff"],
        dropout=dropout,
        attention_dropout=dropout,
        **head_of_tokens(hf),
        **head_of_t5(hf),
    )


def head_of_tokens(hf: HuggingFaceConfig) -> dict[str, Any]:
    """A language model's head, a classifier of the last token without a bias, one of each token, or none."""
    if hf.head == "classifier" and hf.labels == "each-word":
        return head_of_words(hf)
    if hf.head == "classifier":
        pooled = {"head": "classifier", "classes": hf.classes, "labels": hf.labels}
        return pooled | {"pool": "last", "class_bias": False}
    return {"head": hf.head}


def head_of_words(hf: HuggingFaceConfig) -> dict[str, Any]:
    """A classifier of each token, which all families have alike."""
    return {"head": "classifier", "classes": hf.classes, "labels": "each-word", "class_bias": True}


def head_of_encoder(hf: HuggingFaceConfig, activation: str, pool_dense: str = "tanh") -> dict[str, Any]:
    """A masked-language-model head, a classifier, or none."""
    if hf.head == "classifier" and hf.labels == "each-word":
        return head_of_words(hf)
    if hf.head == "classifier":
        pooled = {"head": "classifier", "classes": hf.classes, "labels": hf.labels}
        return pooled | {"pool": "first", "pool_dense": pool_dense}
    if hf.head == "none":
        return {"head": "none"}
    hf.expect(tie_word_embeddings=True)
    if activation != "gelu":
        raise ConfigError(
            f"config.json: a masked-language-model head with {activation} is unsupported; only gelu is."
        )
    return {"head": "language", "head_bias": True, "head_transform": True}


def head_of_t5(hf: HuggingFaceConfig) -> dict[str, Any]:
    """A tied head is scaled by d^-½.

    Version 1.1 has its own head and no scale, marked by `tie_word_embeddings` = false. In files written by
    version 5 of `transformers` that is always true and `scale_decoder_outputs` marks the scale; whether the head is
    tied is then read from the weights.
    """
    tied = hf.get("tie_word_embeddings", True)
    scaled = hf.get("scale_decoder_outputs", tied)
    if not (tied and scaled):
        tied = hf.weights is not None and "lm_head.weight" not in hf.weights
    return {"tied": tied, "head_scale": hf["d_model"] ** -0.5 if scaled else 1.0}
