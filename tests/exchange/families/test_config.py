"""What their configs say in our settings, in the words of old and new files, and what has no counterpart."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clearhead.config.model import ModelConfig, RotaryScaling
from clearhead.config.model_base import Head
from clearhead.errors import ConfigError
from clearhead.exchange.families.registry import FAMILIES, config_from
from clearhead.models.build import empty

GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50,
    "n_positions": 20,
    "n_embd": 12,
    "n_layer": 2,
    "n_head": 3,
}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 50,
    "max_position_embeddings": 40,
    "hidden_size": 24,
    "intermediate_size": 30,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
}
BERT = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "vocab_size": 50,
    "max_position_embeddings": 40,
    "hidden_size": 24,
    "intermediate_size": 30,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
}
DISTILBERT = {
    "model_type": "distilbert",
    "architectures": ["DistilBertForMaskedLM"],
    "vocab_size": 50,
    "max_position_embeddings": 40,
    "dim": 24,
    "hidden_dim": 30,
    "n_layers": 4,
    "n_heads": 3,
}
MARIAN = {
    "model_type": "marian",
    "architectures": ["MarianMTModel"],
    "vocab_size": 50,
    "max_position_embeddings": 40,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 30,
    "decoder_ffn_dim": 30,
}
T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "vocab_size": 50,
    "d_model": 25,
    "d_kv": 7,
    "d_ff": 30,
    "num_layers": 2,
    "num_heads": 3,
}
QWEN = LLAMA | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
EXAMPLES = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "mistral": LLAMA | {"model_type": "mistral"},
    "qwen2": QWEN,
    "qwen3": LLAMA | {"model_type": "qwen3"},
    "eurobert": LLAMA | {"model_type": "eurobert", "classifier_pooling": "mean"},
    "bert": BERT,
    "roberta": BERT | {"model_type": "roberta"},
    "distilbert": DISTILBERT,
    "marian": MARIAN,
    "t5": T5,
}


def test_every_family_has_an_example() -> None:
    assert EXAMPLES.keys() == FAMILIES.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_key_that_is_needed_is_named_when_it_is_missing(family: str) -> None:
    config_from(EXAMPLES[family])
    without = {key: value for key, value in EXAMPLES[family].items() if key != "vocab_size"}
    with pytest.raises(ConfigError, match=r"config\.json lacks vocab_size\."):
        config_from(without)


def test_a_family_that_is_not_known_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"model_type = 'lama' is unsupported. Did you mean llama\? Known: bert, "
    ):
        config_from(LLAMA | {"model_type": "lama"})
    with pytest.raises(ConfigError, match=r"model_type = None is unsupported. "):
        config_from({})


def test_a_model_defined_by_code_of_its_own_is_refused() -> None:
    with pytest.raises(ConfigError, match="auto_map"):
        config_from(LLAMA | {"auto_map": {"AutoModel": "code.Model"}})


def test_old_files_leave_out_what_was_the_default() -> None:
    ours = config_from(GPT2)
    assert ours == ModelConfig(
        vocabulary=50,
        context=20,
        d=12,
        decoder_blocks=2,
        h=3,
        similarity="scaled_dot",
        attention_bias="qkvo",
        positions="learned",
        norm="layer",
        norm_epsilon=1e-5,
        feedforward="gelu_tanh",
        feedforward_bias=True,
        tied=True,
        head="language",
        dropout=0.1,
        attention_dropout=0.1,
    )
    assert ours.width_ff(12) == 48
    assert not config_from(LLAMA).tied


LINEAR = RotaryScaling(kind="linear", factor=2.5)
LLAMA3 = RotaryScaling(kind="llama3", factor=8.0, low=1.5, high=5.0, original_context=32)
FREQUENCIES = {"low_freq_factor": 1.5, "high_freq_factor": 5.0, "original_max_position_embeddings": 32}


@pytest.mark.parametrize(
    ("keys", "base", "scaling"),
    [
        ({}, 10_000.0, None),
        ({"rope_theta": 500.0}, 500.0, None),
        ({"rope_theta": 500.0, "rope_scaling": None}, 500.0, None),
        ({"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.5}}, 500.0, LINEAR),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0} | FREQUENCIES}, 10_000.0, LLAMA3),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, 500.0, None),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.5}}, 500.0, LINEAR),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0} | FREQUENCIES}, 10_000.0, LLAMA3),
    ],
)
def test_rotations_of_old_and_new_files(
    keys: dict[str, Any], base: float, scaling: RotaryScaling | None
) -> None:
    ours = config_from(LLAMA | keys)
    assert (ours.rotary_base, ours.rotary_scaling) == (base, scaling)


@pytest.mark.parametrize("kind", ["dynamic", "yarn", "longrope"])
def test_other_rotations_are_refused(kind: str) -> None:
    with pytest.raises(ConfigError) as error:
        config_from(LLAMA | {"rope_scaling": {"rope_type": kind, "factor": 2.0}})
    assert str(error.value) == (
        f"config.json: rope_type = '{kind}' is unsupported.\n"
        "Only models with rope_type default, linear or llama3 can be imported."
    )


@pytest.mark.parametrize(
    ("keys", "window"),
    [
        ({}, None),
        ({"sliding_window": 6}, None),
        ({"sliding_window": 6, "use_sliding_window": False, "max_window_layers": 0}, None),
        ({"sliding_window": 6, "use_sliding_window": True}, None),
        ({"sliding_window": 6, "use_sliding_window": True, "max_window_layers": 0}, 6),
        ({"sliding_window": 6, "use_sliding_window": True, "layer_types": ["sliding_attention"] * 4}, 6),
        ({"sliding_window": 6, "use_sliding_window": True, "layer_types": ["full_attention"] * 4}, None),
    ],
)
def test_a_window_is_for_all_blocks(keys: dict[str, Any], window: int | None) -> None:
    assert config_from(QWEN | keys).window == window


def test_windows_of_some_blocks_are_refused() -> None:
    with pytest.raises(ConfigError) as error:
        config_from(QWEN | {"sliding_window": 6, "use_sliding_window": True, "max_window_layers": 3})
    assert str(error.value) == (
        "config.json: a window of 6 in 1 of 4 blocks is unsupported.\n"
        "Only models with the same window in all blocks, or in none, can be imported."
    )


@pytest.mark.parametrize(
    ("keys", "weights", "tied", "scaled"),
    [
        ({}, ["shared.weight"], True, True),
        ({"tie_word_embeddings": True}, ["shared.weight", "lm_head.weight"], True, True),
        ({"tie_word_embeddings": False}, None, False, False),
        ({"tie_word_embeddings": False}, ["shared.weight", "lm_head.weight"], False, False),
        ({"tie_word_embeddings": False}, ["shared.weight"], True, False),
        ({"scale_decoder_outputs": True}, ["shared.weight"], True, True),
        ({"scale_decoder_outputs": False}, ["shared.weight", "lm_head.weight"], False, False),
        ({"scale_decoder_outputs": False}, ["shared.weight"], True, False),
        ({"scale_decoder_outputs": True, "tie_word_embeddings": False}, ["lm_head.weight"], False, True),
    ],
)
def test_the_head_of_t5(keys: dict[str, Any], weights: list[str] | None, tied: bool, scaled: bool) -> None:
    ours = config_from(T5 | keys, weights=weights)
    assert ours.tied == tied
    assert ours.head_scale == (0.2 if scaled else 1.0)


@pytest.mark.parametrize(
    ("keys", "classes"),
    [({}, 2), ({"num_labels": 5}, 5), ({"id2label": {"0": "a", "1": "b", "2": "c"}}, 3)],
)
def test_classes_are_counted(keys: dict[str, Any], classes: int) -> None:
    ours = config_from(BERT | keys | {"architectures": ["BertForSequenceClassification"]})
    assert (ours.head, ours.classes, ours.pool) == ("classifier", classes, "first")


def test_a_classifier_on_a_causal_model_reads_the_last_token() -> None:
    ours = config_from(GPT2 | {"architectures": ["GPT2ForSequenceClassification"], "num_labels": 4})
    assert (ours.head, ours.classes, ours.pool, ours.class_bias) == ("classifier", 4, "last", False)


@pytest.mark.parametrize(
    ("architecture", "head"),
    [
        ("BertForMaskedLM", "language"),
        ("BertForPreTraining", "language"),
        ("BertForSequenceClassification", "classifier"),
        ("BertModel", "none"),
    ],
)
def test_the_architecture_tells_of_the_head(architecture: str, head: str) -> None:
    assert config_from(BERT | {"architectures": [architecture]}).head == head
    assert config_from(BERT | {"architectures": [architecture]}, head="none").head == "none"


@pytest.mark.parametrize("architectures", [None, [], ["BertForQuestionAnswering"]])
def test_an_architecture_that_tells_of_no_head_is_refused(architectures: list[str] | None) -> None:
    config = BERT | {"architectures": architectures}
    with pytest.raises(ConfigError, match="names no supported head") as error:
        config_from(config)
    assert "choose the head: language, classifier or none" in str(error.value)
    assert config_from(config, head="language").head == "language"


def test_roberta_counts_positions_from_the_row_after_padding() -> None:
    ours = config_from(BERT | {"model_type": "roberta", "pad_token_id": 1})
    assert (ours.position_offset, ours.context) == (2, 38)


@pytest.mark.parametrize(
    ("keys", "window"), [({}, 4096), ({"sliding_window": 6}, 6), ({"sliding_window": None}, None)]
)
def test_a_mistral_has_a_window_unless_it_says_null(keys: dict[str, Any], window: int | None) -> None:
    assert config_from(EXAMPLES["mistral"] | keys).window == window


# Configs as they are published, without what says nothing about the model, and the weights that are known of each.
PUBLISHED: dict[str, tuple[int, dict[str, Any]]] = {
    "gpt2": (
        124_439_808,
        {
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-05, "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
            "n_positions": 1024, "summary_type": "cls_index", "vocab_size": 50257,
        },
    ),
    "Llama-2-7B": (
        6_738_415_616,
        {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
            "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 4096,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1,
            "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False, "vocab_size": 32000,
        },
    ),
    "Llama-3.2-1B": (
        1_235_814_400,
        {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": False,
            "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192,
            "max_position_embeddings": 131072, "mlp_bias": False, "num_attention_heads": 32,
            "num_hidden_layers": 16, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
            "rope_scaling": {
                "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3",
            },
            "tie_word_embeddings": True, "vocab_size": 128256,
        },
    ),
    "SmolLM-135M": (
        134_515_008,
        {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
            "hidden_size": 576, "intermediate_size": 1536, "max_position_embeddings": 2048,
            "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "rms_norm_eps": 1e-05,
            "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": 49152,
        },
    ),
    "Mistral-7B": (
        7_241_732_096,
        {
            "model_type": "mistral", "architectures": ["MistralForCausalLM"], "hidden_act": "silu",
            "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": False, "vocab_size": 32000,
        },
    ),
    "Qwen2.5-0.5B": (
        494_032_768,
        {
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu",
            "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
            "max_window_layers": 24, "num_attention_heads": 14, "num_hidden_layers": 24,
            "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
            "tie_word_embeddings": True, "use_mrope": False, "use_sliding_window": False, "vocab_size": 151936,
        },
    ),
    "Qwen3-0.6B": (
        596_049_920,
        {
            "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": False,
            "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
            "max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16,
            "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": None,
            "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True,
            "use_sliding_window": False, "vocab_size": 151936,
        },
    ),
    "bert-base-uncased": (
        109_514_298,
        {
            "model_type": "bert", "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
            "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
            "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
            "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12,
            "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": 30522,
        },
    ),
    "roberta-base": (
        124_697_433,
        {
            "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "hidden_act": "gelu",
            "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "hidden_size": 768,
            "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 514,
            "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1, "type_vocab_size": 1,
            "vocab_size": 50265,
        },
    ),
    "distilbert-base-uncased": (
        66_985_530,
        {
            "model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"], "activation": "gelu",
            "attention_dropout": 0.1, "dim": 768, "dropout": 0.1, "hidden_dim": 3072,
            "max_position_embeddings": 512, "n_heads": 12, "n_layers": 6, "sinusoidal_pos_embds": False,
            "tie_weights_": True, "vocab_size": 30522,
        },
    ),
    "t5-small": (
        60_506_624,
        {
            "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64,
            "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1, "is_encoder_decoder": True,
            "layer_norm_epsilon": 1e-06, "n_positions": 512, "num_heads": 8, "num_layers": 6,
            "relative_attention_num_buckets": 32, "vocab_size": 32128,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_make_models_of_the_known_size(name: str) -> None:
    count, config = PUBLISHED[name]
    ours = config_from(config)
    model = empty(ours)
    assert sum(weight.numel() for weight in model.parameters()) == count


REFUSED = [
    (
        GPT2,
        {"scale_attn_by_inverse_layer_idx": True},
        "Only models with scale_attn_by_inverse_layer_idx = False",
    ),
    (GPT2, {"add_cross_attention": True}, "add_cross_attention = True is unsupported"),
    (
        GPT2,
        {"activation_function": "gelu_neu"},
        "the activation gelu_neu is unsupported. Did you mean gelu_new?",
    ),
    (GPT2, {"n_head": 5}, "model.d = 12 does not split into model.h = 5 heads"),
    (GPT2, {"n_layer": "3"}, "n_layer = '3' must be a number above 0"),
    (GPT2, {"tie_word_embeddings": 1}, "tie_word_embeddings = 1 must have the type of True"),
    (LLAMA, {"hidden_act": "relu2"}, "a gate with relu2 is unsupported"),
    (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
    (LLAMA, {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor = 0.5"),
    (LLAMA, {"rope_scaling": {"type": "linear"}}, "config.json lacks factor."),
    (EXAMPLES["mistral"], {"layer_types": ["full_attention"] * 4}, "layer_types = "),
    (
        BERT,
        {"position_embedding_type": "relative_key"},
        "Only models with position_embedding_type = 'absolute'",
    ),
    (BERT, {"is_decoder": True}, "is_decoder = True"),
    (BERT, {"hidden_act": "relu"}, "a masked-language-model head with relu is unsupported"),
    (BERT, {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
    (MARIAN, {"decoder_attention_heads": 4}, "Only models with decoder_attention_heads = 3"),
    (MARIAN, {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
    (MARIAN, {"share_encoder_decoder_embeddings": False}, "config.json lacks decoder_vocab_size."),
    (
        T5,
        {"architectures": ["T5ForSequenceClassification"]},
        "model.head = 'classifier' does not work with shape = 'encoder-decoder'",
    ),
    (
        T5,
        {"architectures": ["T5EncoderModel"]},
        "model.head = 'none' does not work with shape = 'encoder-decoder'",
    ),
]


@pytest.mark.parametrize(("config", "keys", "reason"), REFUSED)
def test_what_has_no_counterpart_is_refused(
    config: dict[str, Any], keys: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        config_from(config | keys)
    assert reason in str(error.value)


class Watched(dict[str, Any]):
    """A config that remembers which keys it was asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


def keys_of_settings() -> Iterator[tuple[str, Head, str]]:
    """Every family, head, and key that its settings are made of."""
    heads: tuple[Head, ...] = ("language", "classifier", "none")
    for family, known in EXAMPLES.items():
        for head in heads if family.endswith("bert") else heads[:1]:
            watched = Watched(known)
            config_from(watched, head=head)
            yield from ((family, head, key) for key in sorted(watched.asked))


KEYS = [*keys_of_settings(), ("bert", None, "architectures")]
numbers = st.integers() | st.floats() | st.sampled_from([0, 10**400, -(10**400)])
scalars = (
    st.none() | st.booleans() | numbers | st.text(max_size=9) | st.sampled_from(["gated-", "-", "linear"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)


@settings(max_examples=400)
@given(which=st.sampled_from(KEYS), value=values)
@example(which=("bert", "classifier", "architectures"), value={"": None})
@example(which=("bert", "classifier", "architectures"), value=True)
def test_a_value_that_cannot_be_is_refused_and_nothing_else_happens(
    which: tuple[str, Head | None, str], value: Any
) -> None:
    family, head, key = which
    with contextlib.suppress(ConfigError):
        assert isinstance(config_from(EXAMPLES[family] | {key: value}, head=head), ModelConfig)
