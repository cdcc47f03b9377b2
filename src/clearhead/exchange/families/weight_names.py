"""Hugging Face's weight names and ours, one table for each family, read both ways by `weights.rename`.

Theirs are on the left, without the prefix that models with a head have.
"""

from clearhead.config.model import GATED, ModelConfig
from clearhead.exchange.weights.rename import FUSED, ROW, TRANSPOSED, Rename, WeightNames


def is_shared(config: ModelConfig) -> bool:
    """Whether encoder and decoder share one table of embeddings."""
    return config.is_shared


def is_squared(config: ModelConfig) -> bool:
    """Whether its activation is relu², which in a family with a gate is relu(a) · a."""
    return config.feedforward == "relu2"


def has_two_matrices(config: ModelConfig) -> bool:
    """Whether its feed-forward has no third matrix W_g."""
    return config.feedforward not in GATED


def has_two_sides(config: ModelConfig) -> bool:
    """Whether export writes a gate in a family that has both."""
    return config.feedforward in GATED or is_squared(config)


def has_words(config: ModelConfig) -> bool:
    """Whether it classifies each token."""
    return config.labels == "each-word"


def is_pooled(config: ModelConfig) -> bool:
    """Whether it classifies whole texts."""
    return not has_words(config)


GPT2 = WeightNames(
    prefix="transformer.",
    trunk=[
        Rename("wte.weight", "decoder.tokens.weight"),
        Rename("wpe.weight", "decoder.positions.weight"),
        Rename("h.{i}.ln_1.{p}", "decoder.blocks.{i}.add_self.norm.{p}"),
        Rename(
            "h.{i}.attn.c_attn.{p}", tuple(f"decoder.blocks.{{i}}.self.W_{x}.{{p}}" for x in "qkv"), FUSED
        ),
        Rename("h.{i}.attn.c_proj.{p}", "decoder.blocks.{i}.self.W_o.{p}", TRANSPOSED),
        Rename("h.{i}.ln_2.{p}", "decoder.blocks.{i}.add_ffn.norm.{p}"),
        Rename("h.{i}.mlp.c_fc.{p}", "decoder.blocks.{i}.ffn.W_1.{p}", TRANSPOSED),
        Rename("h.{i}.mlp.c_proj.{p}", "decoder.blocks.{i}.ffn.W_2.{p}", TRANSPOSED),
        Rename("ln_f.{p}", "decoder.norm.{p}"),
    ],
    heads={
        "language": [Rename("lm_head.weight", "head.table.weight")],
        "classifier": [
            Rename("score.weight", "head.out.weight", when=is_pooled),
            Rename("classifier.{p}", "head.out.{p}", when=has_words),
        ],
    },
    unused=["h.*.attn.bias", "h.*.attn.masked_bias"],  # the causal mask
)

LLAMA_TRUNK = [
    Rename("embed_tokens.weight", "{stack}.tokens.weight"),
    Rename("layers.{i}.input_layernorm.weight", "{stack}.blocks.{i}.add_self.norm.weight"),
    Rename("layers.{i}.self_attn.{qkvo}_proj.{p}", "{stack}.blocks.{i}.self.W_{qkvo}.{p}"),
    Rename("layers.{i}.self_attn.{qk}_norm.weight", "{stack}.blocks.{i}.self.norm_{qk}.weight"),
    Rename("layers.{i}.post_attention_layernorm.weight", "{stack}.blocks.{i}.add_ffn.norm.weight"),
    Rename("layers.{i}.mlp.gate_proj.{p}", "{stack}.blocks.{i}.ffn.W_g.{p}"),
    Rename("layers.{i}.mlp.up_proj.{p}", "{stack}.blocks.{i}.ffn.W_1.{p}"),
    Rename("layers.{i}.mlp.gate_proj.{p}", "{stack}.blocks.{i}.ffn.W_1.{p}", when=is_squared, is_copy=True),
    Rename("layers.{i}.mlp.down_proj.{p}", "{stack}.blocks.{i}.ffn.W_2.{p}"),
    Rename("norm.weight", "{stack}.norm.weight"),
]
ROTATION = "*rotary_emb.inv_freq"  # its frequencies

LLAMA = WeightNames(  # Llama 2 and 3, Mistral, Qwen 2 (biases of q, k, v) and 3 (norms of q and k)
    prefix="model.",
    trunk=LLAMA_TRUNK,
    heads={
        "language": [Rename("lm_head.weight", "head.table.weight")],
        "classifier": [Rename("score.{p}", "head.out.{p}")],
    },
    unused=[ROTATION],
)

EUROBERT = WeightNames(
    prefix="model.",
    trunk=LLAMA_TRUNK,
    heads={
        "language": [Rename("lm_head.weight", "head.table.weight"), Rename("lm_head.bias", "head.bias")],
        "classifier": [Rename("dense.{p}", "head.dense.{p}"), Rename("classifier.{p}", "head.out.{p}")],
    },
    unused=[ROTATION],
)

BERT_TRUNK = [
    Rename("embeddings.word_embeddings.weight", "encoder.tokens.weight"),
    Rename("embeddings.position_embeddings.weight", "encoder.positions.weight"),
    Rename("embeddings.token_type_embeddings.weight", "encoder.types.weight"),
    Rename("embeddings.LayerNorm.{p}", "encoder.embedding_norm.{p}"),
    Rename("encoder.layer.{i}.attention.self.query.{p}", "encoder.blocks.{i}.self.W_q.{p}"),
    Rename("encoder.layer.{i}.attention.self.key.{p}", "encoder.blocks.{i}.self.W_k.{p}"),
    Rename("encoder.layer.{i}.attention.self.value.{p}", "encoder.blocks.{i}.self.W_v.{p}"),
    Rename("encoder.layer.{i}.attention.output.dense.{p}", "encoder.blocks.{i}.self.W_o.{p}"),
    Rename("encoder.layer.{i}.attention.output.LayerNorm.{p}", "encoder.blocks.{i}.add_self.norm.{p}"),
    Rename("encoder.layer.{i}.intermediate.dense.{p}", "encoder.blocks.{i}.ffn.W_1.{p}"),
    Rename("encoder.layer.{i}.output.dense.{p}", "encoder.blocks.{i}.ffn.W_2.{p}"),
    Rename("encoder.layer.{i}.output.LayerNorm.{p}", "encoder.blocks.{i}.add_ffn.norm.{p}"),
]

BERT = WeightNames(
    prefix="bert.",
    trunk=BERT_TRUNK,
    heads={
        "language": [
            Rename("cls.predictions.transform.dense.{p}", "head.transform.{p}"),
            Rename("cls.predictions.transform.LayerNorm.{p}", "head.transform_norm.{p}"),
            Rename("cls.predictions.bias", "head.bias"),
            Rename("cls.predictions.decoder.bias", "head.bias"),
            Rename("cls.predictions.decoder.weight", "head.table.weight"),
        ],
        "classifier": [
            Rename("bert.pooler.dense.{p}", "head.dense.{p}"),
            Rename("classifier.{p}", "head.out.{p}"),
        ],
    },
    unused=["embeddings.position_ids", "cls.seq_relationship.*"],  # 0, 1, 2 …; a second task of pre-training
)

ROBERTA = WeightNames(
    prefix="roberta.",
    trunk=BERT_TRUNK,
    heads={
        "language": [
            Rename("lm_head.dense.{p}", "head.transform.{p}"),
            Rename("lm_head.layer_norm.{p}", "head.transform_norm.{p}"),
            Rename("lm_head.bias", "head.bias"),
            Rename("lm_head.decoder.bias", "head.bias"),
            Rename("lm_head.decoder.weight", "head.table.weight"),
        ],
        "classifier": [
            Rename("classifier.dense.{p}", "head.dense.{p}"),
            Rename("classifier.out_proj.{p}", "head.out.{p}", when=is_pooled),
            Rename("classifier.{p}", "head.out.{p}", when=has_words),
        ],
    },
    unused=["embeddings.position_ids", "pooler.dense.*"],  # 0, 1, 2 …; a head that is unused
)

DISTILBERT = WeightNames(
    prefix="distilbert.",
    trunk=[
        Rename("embeddings.word_embeddings.weight", "encoder.tokens.weight"),
        Rename("embeddings.position_embeddings.weight", "encoder.positions.weight"),
        Rename("embeddings.LayerNorm.{p}", "encoder.embedding_norm.{p}"),
        Rename("transformer.layer.{i}.attention.{qkv}_lin.{p}", "encoder.blocks.{i}.self.W_{qkv}.{p}"),
        Rename("transformer.layer.{i}.attention.out_lin.{p}", "encoder.blocks.{i}.self.W_o.{p}"),
        Rename("transformer.layer.{i}.sa_layer_norm.{p}", "encoder.blocks.{i}.add_self.norm.{p}"),
        Rename("transformer.layer.{i}.ffn.lin1.{p}", "encoder.blocks.{i}.ffn.W_1.{p}"),
        Rename("transformer.layer.{i}.ffn.lin2.{p}", "encoder.blocks.{i}.ffn.W_2.{p}"),
        Rename("transformer.layer.{i}.output_layer_norm.{p}", "encoder.blocks.{i}.add_ffn.norm.{p}"),
    ],
    heads={
        "language": [
            Rename("vocab_transform.{p}", "head.transform.{p}"),
            Rename("vocab_layer_norm.{p}", "head.transform_norm.{p}"),
            Rename("vocab_projector.bias", "head.bias"),
            Rename("vocab_projector.weight", "head.table.weight"),
        ],
        "classifier": [
            Rename("pre_classifier.{p}", "head.dense.{p}"),
            Rename("classifier.{p}", "head.out.{p}"),
        ],
    },
    unused=["embeddings.position_ids"],  # 0, 1, 2 …
)

MARIAN = WeightNames(
    prefix="model.",
    trunk=[
        Rename("shared.weight", "encoder.tokens.weight", when=is_shared),
        Rename("{stack}.embed_tokens.weight", "{stack}.tokens.weight"),
        Rename("{stack}.layers.{i}.self_attn.{qkv}_proj.{p}", "{stack}.blocks.{i}.self.W_{qkv}.{p}"),
        Rename("{stack}.layers.{i}.self_attn.out_proj.{p}", "{stack}.blocks.{i}.self.W_o.{p}"),
        Rename("{stack}.layers.{i}.self_attn_layer_norm.{p}", "{stack}.blocks.{i}.add_self.norm.{p}"),
        Rename("{stack}.layers.{i}.encoder_attn.{qkv}_proj.{p}", "{stack}.blocks.{i}.cross.W_{qkv}.{p}"),
        Rename("{stack}.layers.{i}.encoder_attn.out_proj.{p}", "{stack}.blocks.{i}.cross.W_o.{p}"),
        Rename("{stack}.layers.{i}.encoder_attn_layer_norm.{p}", "{stack}.blocks.{i}.add_cross.norm.{p}"),
        Rename("{stack}.layers.{i}.fc1.{p}", "{stack}.blocks.{i}.ffn.W_1.{p}"),
        Rename("{stack}.layers.{i}.fc2.{p}", "{stack}.blocks.{i}.ffn.W_2.{p}"),
        Rename("{stack}.layers.{i}.final_layer_norm.{p}", "{stack}.blocks.{i}.add_ffn.norm.{p}"),
    ],
    heads={
        "language": [
            Rename("final_logits_bias", "head.bias", ROW),
            Rename("lm_head.weight", "head.table.weight"),
        ]
    },
    unused=["*.embed_positions.weight"],  # the sinusoids
)


def t5_feedforward(stack: str, place: int) -> list[Rename]:
    """The feed-forward is the last sublayer of a block, whose index differs between the stacks."""
    theirs, ours = f"{stack}.block.{{i}}.layer.{place}", f"{stack}.blocks.{{i}}"
    return [
        Rename(f"{theirs}.layer_norm.weight", f"{ours}.add_ffn.norm.weight"),
        Rename(f"{theirs}.DenseReluDense.wi_0.weight", f"{ours}.ffn.W_g.weight"),
        Rename(f"{theirs}.DenseReluDense.wi_1.weight", f"{ours}.ffn.W_1.weight", when=has_two_sides),
        Rename(f"{theirs}.DenseReluDense.wi.weight", f"{ours}.ffn.W_1.weight", when=has_two_matrices),
        Rename(
            f"{theirs}.DenseReluDense.wi_0.weight", f"{ours}.ffn.W_1.weight", when=is_squared, is_copy=True
        ),
        Rename(f"{theirs}.DenseReluDense.wo.weight", f"{ours}.ffn.W_2.weight"),
    ]


T5 = WeightNames(  # 1.0, and 1.1 with its gate
    trunk=[
        Rename("shared.weight", "encoder.tokens.weight"),
        Rename("{stack}.embed_tokens.weight", "{stack}.tokens.weight"),
        Rename(
            "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "{stack}.positions.weight"
        ),
        Rename("{stack}.block.{i}.layer.0.layer_norm.weight", "{stack}.blocks.{i}.add_self.norm.weight"),
        Rename(
            "{stack}.block.{i}.layer.0.SelfAttention.{qkvo}.weight", "{stack}.blocks.{i}.self.W_{qkvo}.weight"
        ),
        Rename("{stack}.block.{i}.layer.1.layer_norm.weight", "{stack}.blocks.{i}.add_cross.norm.weight"),
        Rename(
            "{stack}.block.{i}.layer.1.EncDecAttention.{qkvo}.weight",
            "{stack}.blocks.{i}.cross.W_{qkvo}.weight",
        ),
        *t5_feedforward("encoder", 1),
        *t5_feedforward("decoder", 2),
        Rename("{stack}.final_layer_norm.weight", "{stack}.norm.weight"),
    ],
    heads={"language": [Rename("lm_head.weight", "head.table.weight")]},
    unused=[
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    ],  # in old files; never used
)
