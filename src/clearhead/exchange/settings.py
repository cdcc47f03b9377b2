"""What each family of Hugging Face is in our settings: one function from their config to ours.

Keys that older files leave out have the default of their time. Sizes need no such care: where a size is
wrong, the weights do not fit.
"""

from typing import Any

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError
from clearhead.exchange.source import Source

POST_NORM_ENCODER: dict[str, Any] = {
    "shape": "encoder",
    "attention_bias": "qkvo",
    "positions": "learned",
    "norm": "layer",
    "norm_placement": "post",
    "embedding_norm": True,
    "feedforward_bias": True,
}


def gpt2(source: Source) -> ModelConfig:
    """Radford et al., 2019: learned positions, a layer norm before each sublayer, biases everywhere."""
    source.expect(scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    return ModelConfig(
        vocabulary=source["vocab_size"],
        context=source["n_positions"],
        d=source["n_embd"],
        decoder_blocks=source["n_layer"],
        h=source["n_head"],
        similarity="scaled_dot" if source.get("scale_attn_weights", True) else "dot",
        attention_bias="qkvo",
        positions="learned",
        norm="layer",
        norm_epsilon=source.get("layer_norm_epsilon", 1e-5),
        feedforward=source.activation(source.get("activation_function", "gelu_new")),
        d_ff=source.get("n_inner"),
        feedforward_bias=True,
        tied=source.get("tie_word_embeddings", True),
        dropout=source.get("resid_pdrop", 0.1),
        attention_dropout=source.get("attn_pdrop", 0.1),
        **head_of_tokens(source),
    )


def llama(source: Source, **differences: Any) -> ModelConfig:
    """Touvron et al., 2023: rotary positions, rms norms, a gated feed-forward, no biases unless stated."""
    settings = {
        "vocabulary": source["vocab_size"],
        "context": source["max_position_embeddings"],
        "d": source["hidden_size"],
        "decoder_blocks": source["num_hidden_layers"],
        "h": source["num_attention_heads"],
        "h_kv": source.get("num_key_value_heads"),
        "d_k": source.get("head_dim"),
        "attention_bias": "qkvo" if source.get("attention_bias", False) else "",
        "positions": "rotary",
        **source.rotation(),
        "norm": "rms",
        "norm_epsilon": source.get("rms_norm_eps", 1e-6),
        "feedforward": source.gate(source.get("hidden_act", "silu")),
        "d_ff": source["intermediate_size"],
        "feedforward_bias": source.get("mlp_bias", False),
        "tied": source.get("tie_word_embeddings", False),
        "attention_dropout": source.get("attention_dropout", 0.0),
        **head_of_tokens(source),
    }
    return ModelConfig(**(settings | differences))


def mistral(source: Source) -> ModelConfig:
    """Jiang et al., 2023: a Llama that looks back no further than its window."""
    source.expect(layer_types=None)
    return llama(source, window=source.config.get("sliding_window", 4096))


def qwen2(source: Source) -> ModelConfig:
    """Yang et al., 2024: a Llama with biases of queries, keys and values."""
    return llama(source, window=source.window(), attention_bias="qkv")


def qwen3(source: Source) -> ModelConfig:
    """Yang et al., 2025: a Llama with norms of queries and keys, and heads of a width of their own."""
    return llama(source, window=source.window(), query_key_norm=True, d_k=source.get("head_dim", 128))


def bert(source: Source, **differences: Any) -> ModelConfig:
    """Devlin et al., 2018: norms after each sublayer and after the embeddings, and segments."""
    source.expect(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    activation = source.activation(source.get("hidden_act", "gelu"))
    settings = POST_NORM_ENCODER | {
        "vocabulary": source["vocab_size"],
        "context": source["max_position_embeddings"],
        "token_types": source.get("type_vocab_size", 2),
        "d": source["hidden_size"],
        "encoder_blocks": source["num_hidden_layers"],
        "h": source["num_attention_heads"],
        "norm_epsilon": source.get("layer_norm_eps", 1e-12),
        "feedforward": activation,
        "d_ff": source["intermediate_size"],
        "dropout": source.get("hidden_dropout_prob", 0.1),
        "attention_dropout": source.get("attention_probs_dropout_prob", 0.1),
    }
    return ModelConfig(**(settings | head_of_encoder(source, activation) | differences))


def roberta(source: Source) -> ModelConfig:
    """Liu et al., 2019: a BERT whose positions are counted from the row after the padding token's id."""
    offset = source.get("pad_token_id", 1) + 1
    return bert(source, context=source["max_position_embeddings"] - offset, position_offset=offset)


def distilbert(source: Source) -> ModelConfig:
    """Sanh et al., 2019: a BERT without segments, whose classifier has a relu."""
    activation = source.activation(source.get("activation", "gelu"))
    settings = POST_NORM_ENCODER | {
        "vocabulary": source["vocab_size"],
        "context": source["max_position_embeddings"],
        "d": source["dim"],
        "encoder_blocks": source["n_layers"],
        "h": source["n_heads"],
        "norm_epsilon": 1e-12,
        "feedforward": activation,
        "d_ff": source["hidden_dim"],
        "dropout": source.get("dropout", 0.1),
        "attention_dropout": source.get("attention_dropout", 0.1),
    }
    return ModelConfig(**(settings | head_of_encoder(source, activation, pool_dense="relu")))


def marian(source: Source) -> ModelConfig:
    """Junczys-Dowmunt et al., 2018: the transformer of 2017 with a bias of the output."""
    for size in ("attention_heads", "ffn_dim"):
        source.expect(**{f"decoder_{size}": source[f"encoder_{size}"]})
    shared = source.get("share_encoder_decoder_embeddings", True)
    if shared:
        source.expect(tie_word_embeddings=True)
    return ModelConfig(
        shape="encoder-decoder",
        vocabulary=source["vocab_size"] if shared else source["decoder_vocab_size"],
        source_vocabulary=None if shared else source["vocab_size"],
        context=source["max_position_embeddings"],
        shared=shared,
        embedding_scale=source["d_model"] ** 0.5 if source.get("scale_embedding", False) else 1.0,
        d=source["d_model"],
        encoder_blocks=source["encoder_layers"],
        decoder_blocks=source["decoder_layers"],
        h=source["encoder_attention_heads"],
        attention_bias="qkvo",
        positions="sinusoidal",
        sinusoid_layout="halves",
        norm="layer",
        norm_placement="post",
        feedforward=source.activation(source.get("activation_function", "gelu")),
        d_ff=source["encoder_ffn_dim"],
        feedforward_bias=True,
        tied=source.get("tie_word_embeddings", True),
        head_bias=True,
        dropout=source.get("dropout", 0.1),
        attention_dropout=source.get("attention_dropout", 0.0),
        **head_of_tokens(source),
    )


def t5(source: Source) -> ModelConfig:
    """Raffel et al., 2020: dot products without a scale, relative positions, rms norms, no biases."""
    kind, _, activation = source.get("feed_forward_proj", "relu").rpartition("-")
    activation = (
        "gelu_new" if (kind, activation) == ("gated", "gelu") else activation
    )  # as version 1.1 means it
    dropout = source.get("dropout_rate", 0.1)
    return ModelConfig(
        shape="encoder-decoder",
        vocabulary=source["vocab_size"],
        context=None,
        d=source["d_model"],
        encoder_blocks=source["num_layers"],
        decoder_blocks=source.get("num_decoder_layers") or source["num_layers"],
        h=source["num_heads"],
        d_k=source["d_kv"],
        similarity="dot",
        positions="relative",
        relative_buckets=source.get("relative_attention_num_buckets", 32),
        relative_distance=source.get("relative_attention_max_distance", 128),
        norm="rms",
        norm_epsilon=source.get("layer_norm_epsilon", 1e-6),
        feedforward=source.gate(activation) if kind == "gated" else source.activation(activation),
        d_ff=source["d_ff"],
        dropout=dropout,
        attention_dropout=dropout,
        **head_of_tokens(source),
        **head_of_t5(source),
    )


def head_of_tokens(source: Source) -> dict[str, Any]:
    """A language model's head, classes read from the last token without a bias, or none."""
    if source.head == "classifier":
        return {"head": "classifier", "classes": source.classes, "pool": "last", "class_bias": False}
    return {"head": source.head}


def head_of_encoder(source: Source, activation: str, pool_dense: str = "tanh") -> dict[str, Any]:
    """A head over masked tokens, over classes, or none."""
    if source.head == "classifier":
        return {"head": "classifier", "classes": source.classes, "pool": "first", "pool_dense": pool_dense}
    if source.head == "none":
        return {"head": "none"}
    source.expect(tie_word_embeddings=True)
    if activation != "gelu":
        raise ConfigError(
            f"config.json: a head over masked tokens with {activation} is not known here; gelu is."
        )
    return {"head": "language", "head_bias": True, "head_transform": True}


def head_of_t5(source: Source) -> dict[str, Any]:
    """A tied head is scaled by d^-½.

    Version 1.1 has an own head and no scale, of which `tie_word_embeddings` = false tells. In files written
    by version 5 of their library it is always true, and `scale_decoder_outputs` tells of the scale; whether
    the head is tied is then seen from the weights.
    """
    tied = source.get("tie_word_embeddings", True)
    scaled = source.get("scale_decoder_outputs", tied)
    if not (tied and scaled):
        tied = source.weights is not None and "lm_head.weight" not in source.weights
    return {"tied": tied, "head_scale": source["d_model"] ** -0.5 if scaled else 1.0}
