"""Our weight names and Hugging Face's, one table for each family; `rules` reads a table both ways.

Theirs stand on the left, without the prefix that a head puts before the names of the model it stands on.
"""

from clearhead.config.model import GATED, ModelConfig
from clearhead.exchange.rules import FUSED, ROW, TRANSPOSED, Names, Rule


def is_gated(config: ModelConfig) -> bool:
    """Whether the feed-forward has a third matrix W_g."""
    return config.feedforward in GATED


def is_plain(config: ModelConfig) -> bool:
    """Whether it has two."""
    return not is_gated(config)


def is_shared(config: ModelConfig) -> bool:
    """Whether encoder and decoder look tokens up in one table."""
    return config.is_shared


GPT2 = Names(
    prefix="transformer.",
    trunk=[
        Rule("wte.weight", "decoder.tokens.weight"),
        Rule("wpe.weight", "decoder.positions.weight"),
        Rule("h.{i}.ln_1.{p}", "decoder.blocks.{i}.add_self.norm.{p}"),
        Rule("h.{i}.attn.c_attn.{p}", tuple(f"decoder.blocks.{{i}}.self.W_{x}.{{p}}" for x in "qkv"), FUSED),
        Rule("h.{i}.attn.c_proj.{p}", "decoder.blocks.{i}.self.W_o.{p}", TRANSPOSED),
        Rule("h.{i}.ln_2.{p}", "decoder.blocks.{i}.add_ffn.norm.{p}"),
        Rule("h.{i}.mlp.c_fc.{p}", "decoder.blocks.{i}.ffn.W_1.{p}", TRANSPOSED),
        Rule("h.{i}.mlp.c_proj.{p}", "decoder.blocks.{i}.ffn.W_2.{p}", TRANSPOSED),
        Rule("ln_f.{p}", "decoder.norm.{p}"),
    ],
    heads={
        "language": [Rule("lm_head.weight", "head.table.weight")],
        "classifier": [Rule("score.weight", "head.out.weight")],
    },
    unused=["h.*.attn.bias", "h.*.attn.masked_bias"],  # the causal mask
)

LLAMA = Names(  # Llama 2 and 3, Mistral, Qwen 2 (biases of q, k, v) and 3 (norms of q and k)
    prefix="model.",
    trunk=[
        Rule("embed_tokens.weight", "decoder.tokens.weight"),
        Rule("layers.{i}.input_layernorm.weight", "decoder.blocks.{i}.add_self.norm.weight"),
        Rule("layers.{i}.self_attn.{qkvo}_proj.{p}", "decoder.blocks.{i}.self.W_{qkvo}.{p}"),
        Rule("layers.{i}.self_attn.{qk}_norm.weight", "decoder.blocks.{i}.self.norm_{qk}.weight"),
        Rule("layers.{i}.post_attention_layernorm.weight", "decoder.blocks.{i}.add_ffn.norm.weight"),
        Rule("layers.{i}.mlp.gate_proj.{p}", "decoder.blocks.{i}.ffn.W_g.{p}"),
        Rule("layers.{i}.mlp.up_proj.{p}", "decoder.blocks.{i}.ffn.W_1.{p}"),
        Rule("layers.{i}.mlp.down_proj.{p}", "decoder.blocks.{i}.ffn.W_2.{p}"),
        Rule("norm.weight", "decoder.norm.weight"),
    ],
    heads={
        "language": [Rule("lm_head.weight", "head.table.weight")],
        "classifier": [Rule("score.weight", "head.out.weight")],
    },
    unused=["*rotary_emb.inv_freq"],  # the frequencies of the rotation
)

BERT_TRUNK = [
    Rule("embeddings.word_embeddings.weight", "encoder.tokens.weight"),
    Rule("embeddings.position_embeddings.weight", "encoder.positions.weight"),
    Rule("embeddings.token_type_embeddings.weight", "encoder.types.weight"),
    Rule("embeddings.LayerNorm.{p}", "encoder.embedding_norm.{p}"),
    Rule("encoder.layer.{i}.attention.self.query.{p}", "encoder.blocks.{i}.self.W_q.{p}"),
    Rule("encoder.layer.{i}.attention.self.key.{p}", "encoder.blocks.{i}.self.W_k.{p}"),
    Rule("encoder.layer.{i}.attention.self.value.{p}", "encoder.blocks.{i}.self.W_v.{p}"),
    Rule("encoder.layer.{i}.attention.output.dense.{p}", "encoder.blocks.{i}.self.W_o.{p}"),
    Rule("encoder.layer.{i}.attention.output.LayerNorm.{p}", "encoder.blocks.{i}.add_self.norm.{p}"),
    Rule("encoder.layer.{i}.intermediate.dense.{p}", "encoder.blocks.{i}.ffn.W_1.{p}"),
    Rule("encoder.layer.{i}.output.dense.{p}", "encoder.blocks.{i}.ffn.W_2.{p}"),
    Rule("encoder.layer.{i}.output.LayerNorm.{p}", "encoder.blocks.{i}.add_ffn.norm.{p}"),
]

BERT = Names(
    prefix="bert.",
    trunk=BERT_TRUNK,
    heads={
        "language": [
            Rule("cls.predictions.transform.dense.{p}", "head.transform.{p}"),
            Rule("cls.predictions.transform.LayerNorm.{p}", "head.transform_norm.{p}"),
            Rule("cls.predictions.bias", "head.bias"),
            Rule("cls.predictions.decoder.bias", "head.bias"),
            Rule("cls.predictions.decoder.weight", "head.table.weight"),
        ],
        "classifier": [
            Rule("bert.pooler.dense.{p}", "head.dense.{p}"),
            Rule("classifier.{p}", "head.out.{p}"),
        ],
    },
    unused=["embeddings.position_ids", "cls.seq_relationship.*"],  # 0, 1, 2 …; a second task of the training
)

ROBERTA = Names(
    prefix="roberta.",
    trunk=BERT_TRUNK,
    heads={
        "language": [
            Rule("lm_head.dense.{p}", "head.transform.{p}"),
            Rule("lm_head.layer_norm.{p}", "head.transform_norm.{p}"),
            Rule("lm_head.bias", "head.bias"),
            Rule("lm_head.decoder.bias", "head.bias"),
            Rule("lm_head.decoder.weight", "head.table.weight"),
        ],
        "classifier": [
            Rule("classifier.dense.{p}", "head.dense.{p}"),
            Rule("classifier.out_proj.{p}", "head.out.{p}"),
        ],
    },
    unused=["embeddings.position_ids", "pooler.dense.*"],  # 0, 1, 2 …; a head of which nothing is made
)

DISTILBERT = Names(
    prefix="distilbert.",
    trunk=[
        Rule("embeddings.word_embeddings.weight", "encoder.tokens.weight"),
        Rule("embeddings.position_embeddings.weight", "encoder.positions.weight"),
        Rule("embeddings.LayerNorm.{p}", "encoder.embedding_norm.{p}"),
        Rule("transformer.layer.{i}.attention.{qkv}_lin.{p}", "encoder.blocks.{i}.self.W_{qkv}.{p}"),
        Rule("transformer.layer.{i}.attention.out_lin.{p}", "encoder.blocks.{i}.self.W_o.{p}"),
        Rule("transformer.layer.{i}.sa_layer_norm.{p}", "encoder.blocks.{i}.add_self.norm.{p}"),
        Rule("transformer.layer.{i}.ffn.lin1.{p}", "encoder.blocks.{i}.ffn.W_1.{p}"),
        Rule("transformer.layer.{i}.ffn.lin2.{p}", "encoder.blocks.{i}.ffn.W_2.{p}"),
        Rule("transformer.layer.{i}.output_layer_norm.{p}", "encoder.blocks.{i}.add_ffn.norm.{p}"),
    ],
    heads={
        "language": [
            Rule("vocab_transform.{p}", "head.transform.{p}"),
            Rule("vocab_layer_norm.{p}", "head.transform_norm.{p}"),
            Rule("vocab_projector.bias", "head.bias"),
            Rule("vocab_projector.weight", "head.table.weight"),
        ],
        "classifier": [
            Rule("pre_classifier.{p}", "head.dense.{p}"),
            Rule("classifier.{p}", "head.out.{p}"),
        ],
    },
    unused=["embeddings.position_ids"],  # 0, 1, 2 …
)

MARIAN = Names(
    prefix="model.",
    trunk=[
        Rule("shared.weight", "encoder.tokens.weight", when=is_shared),
        Rule("{stack}.embed_tokens.weight", "{stack}.tokens.weight"),
        Rule("{stack}.layers.{i}.self_attn.{qkv}_proj.{p}", "{stack}.blocks.{i}.self.W_{qkv}.{p}"),
        Rule("{stack}.layers.{i}.self_attn.out_proj.{p}", "{stack}.blocks.{i}.self.W_o.{p}"),
        Rule("{stack}.layers.{i}.self_attn_layer_norm.{p}", "{stack}.blocks.{i}.add_self.norm.{p}"),
        Rule("{stack}.layers.{i}.encoder_attn.{qkv}_proj.{p}", "{stack}.blocks.{i}.cross.W_{qkv}.{p}"),
        Rule("{stack}.layers.{i}.encoder_attn.out_proj.{p}", "{stack}.blocks.{i}.cross.W_o.{p}"),
        Rule("{stack}.layers.{i}.encoder_attn_layer_norm.{p}", "{stack}.blocks.{i}.add_cross.norm.{p}"),
        Rule("{stack}.layers.{i}.fc1.{p}", "{stack}.blocks.{i}.ffn.W_1.{p}"),
        Rule("{stack}.layers.{i}.fc2.{p}", "{stack}.blocks.{i}.ffn.W_2.{p}"),
        Rule("{stack}.layers.{i}.final_layer_norm.{p}", "{stack}.blocks.{i}.add_ffn.norm.{p}"),
    ],
    heads={
        "language": [
            Rule("final_logits_bias", "head.bias", ROW),
            Rule("lm_head.weight", "head.table.weight"),
        ]
    },
    unused=["*.embed_positions.weight"],  # the sinusoids
)


def t5_feedforward(stack: str, place: int) -> list[Rule]:
    """The feed-forward is the last sublayer of a block, which has another number in each stack."""
    theirs, ours = f"{stack}.block.{{i}}.layer.{place}", f"{stack}.blocks.{{i}}"
    return [
        Rule(f"{theirs}.layer_norm.weight", f"{ours}.add_ffn.norm.weight"),
        Rule(f"{theirs}.DenseReluDense.wi.weight", f"{ours}.ffn.W_1.weight", when=is_plain),
        Rule(f"{theirs}.DenseReluDense.wi_0.weight", f"{ours}.ffn.W_g.weight", when=is_gated),
        Rule(f"{theirs}.DenseReluDense.wi_1.weight", f"{ours}.ffn.W_1.weight", when=is_gated),
        Rule(f"{theirs}.DenseReluDense.wo.weight", f"{ours}.ffn.W_2.weight"),
    ]


T5 = Names(  # 1.0, and 1.1 with its gate
    trunk=[
        Rule("shared.weight", "encoder.tokens.weight"),
        Rule("{stack}.embed_tokens.weight", "{stack}.tokens.weight"),
        Rule(
            "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "{stack}.positions.weight"
        ),
        Rule("{stack}.block.{i}.layer.0.layer_norm.weight", "{stack}.blocks.{i}.add_self.norm.weight"),
        Rule(
            "{stack}.block.{i}.layer.0.SelfAttention.{qkvo}.weight", "{stack}.blocks.{i}.self.W_{qkvo}.weight"
        ),
        Rule("{stack}.block.{i}.layer.1.layer_norm.weight", "{stack}.blocks.{i}.add_cross.norm.weight"),
        Rule(
            "{stack}.block.{i}.layer.1.EncDecAttention.{qkvo}.weight",
            "{stack}.blocks.{i}.cross.W_{qkvo}.weight",
        ),
        *t5_feedforward("encoder", 1),
        *t5_feedforward("decoder", 2),
        Rule("{stack}.final_layer_norm.weight", "{stack}.norm.weight"),
    ],
    heads={"language": [Rule("lm_head.weight", "head.table.weight")]},
    unused=[
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    ],  # of old files; never read
)
