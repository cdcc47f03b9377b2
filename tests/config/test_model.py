"""The settings of a model: what follows from them, what is refused, and the fix that each refusal names."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.model import ModelConfig, RotaryScaling
from clearhead.errors import ConfigError

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "heads that do not divide d": (
        {"d": 250, "h": 8},
        "model.d = 250 does not split into model.h = 8 heads.\n"
        "Use a multiple of 8, such as 248 or 256, or set model.d_k.",
    ),
    "fewer features than heads": (
        {"d": 3, "h": 4},
        "model.d = 3 does not split into model.h = 4 heads.\nUse a multiple of 4, such as 4, or set model.d_k.",
    ),
    "uneven groups": (
        {"d": 24, "h": 6, "h_kv": 4},
        "model.h = 6 query heads do not share model.h_kv = 4 heads of keys evenly.\nUse an h_kv that divides 6.",
    ),
    "more heads of keys than of queries": ({"d": 24, "h": 6, "h_kv": 12}, "Use an h_kv that divides 6."),
    "heads of an attention that is not there": (
        {"kept_heads": {"decoder.4.self": (0,)}},
        "model.kept_heads names decoder.4.self, which this model does not have.\nIt has: decoder.0.self, decoder.1",
    ),
    "a unit too many": (
        {"kept_units": {"decoder.0.ffn": 9999}},
        "model.kept_units['decoder.0.ffn'] = 9999, but the feed-forward has 1024 units.",
    ),
    "units of no block": ({"kept_units": {"decoder.9.ffn": 3}}, "model.kept_units names decoder.9.ffn"),
    "a head that is not there": (
        {"kept_heads": {"decoder.0.self": (1, 4)}},
        "= [1, 4] must be different heads from 0 to 3, in order; an empty list for none.",
    ),
    "heads out of order": (
        {"kept_heads": {"decoder.0.self": (2, 1)}},
        "= [2, 1] must be different",
    ),
    "a head twice": ({"kept_heads": {"decoder.0.self": (1, 1)}}, "= [1, 1] must be different"),
    "a table of unknown length": (
        {"positions": "learned", "context": None},
        "model.positions = 'learned' needs one vector per position.\nSet model.context.",
    ),
    "an odd head under rotary": (
        {"d": 20, "h": 4},
        "model.positions = 'rotary' rotates pairs of numbers, but a head has d_k = 5, which is odd.\n"
        "Use an even model.d_k, such as 6, or use other positions.",
    ),
    "an odd width under sinusoids": (
        {"d": 15, "h": 3, "positions": "sinusoidal"},
        "needs sines and cosines in pairs, so an even width.\nChange model.d = 15 (or encoder_d) to an even number.",
    ),
    "an odd encoder under sinusoids": (
        {"shape": "encoder-decoder", "encoder_d": 15, "positions": "sinusoidal"},
        "Change model.d = 256 (or encoder_d) to an even number.",
    ),
    "buckets that do not halve twice": (
        {"positions": "relative", "relative_buckets": 30},
        "model.relative_buckets = 30 must be a multiple of 4, and relative_distance = 128 larger than half of it.\n"
        "T5 uses 32 and 128.",
    ),
    "a distance within the buckets": (
        {"positions": "relative", "relative_distance": 16},
        "relative_distance = 16 larger than half of it",
    ),
    "an offset without a table": (
        {"position_offset": 2},
        "model.position_offset = 2 shifts a learned table, but positions = 'rotary'.\n"
        "Use positions = 'learned', or omit the offset.",
    ),
    "a stretch of nothing": (
        {"positions": "alibi", "rotary_scaling": {"kind": "linear", "factor": 2.0}},
        "model.rotary_scaling needs positions = 'rotary', not 'alibi'.\nOmit it, or use rotary.",
    ),
    "a stretch upside down": (
        {"rotary_scaling": {"kind": "llama3", "factor": 2.0, "low": 4.0, "high": 1.0}},
        "model.rotary_scaling.high = 1.0 must be greater than low = 4.0.\nLlama 3 uses 4 and 1.",
    ),
    "a stretch of an unknown kind": (
        {"rotary_scaling": {"kind": "square", "factor": 2.0}},
        "model.rotary_scaling.kind = 'square' is invalid: it should be 'linear' or 'llama3'.",
    ),
    "distance under rotary": (
        {"similarity": "distance"},
        "model.similarity = 'distance' has no queries and keys that rotary positions could rotate.\n"
        "Use positions = 'none'; the similarity itself depends on the distance.",
    ),
    "distance with normed queries": (
        {"similarity": "distance", "positions": "none", "query_key_norm": True},
        "model.similarity = 'distance' has no queries and keys to normalise.\nOmit query_key_norm.",
    ),
    "no projections, but heads": (
        {"projections": "none"},
        "Change h = 4, h_kv = 4: set h = 1 and omit h_kv, d_k, d_v, encoder_d and attention_bias.",
    ),
    "no projections, but biases": (
        {"projections": "none", "h": 1, "attention_bias": "qk"},
        "one head as wide as x, and no matrices.\nChange attention_bias = qk:",
    ),
    "no projections between two widths": (
        {"projections": "none", "h": 1, "shape": "encoder-decoder", "encoder_d": 128, "positions": "none"},
        "Change encoder_d = 128:",
    ),
    "a whole norm in a decoder": (
        {"norm": "whole"},
        "model.norm = 'whole' takes mean and variance over all tokens of the sequence, so a causal stack would "
        "see the future.\nFor this shape use norm = 'layer'.",
    ),
    "a whole norm in a translator": (
        {"norm": "whole", "shape": "encoder-decoder"},
        "For this shape set encoder_norm = 'whole' and norm = 'layer'.",
    ),
    "a norm of no encoder": (
        {"encoder_norm": "rms"},
        "model.encoder_norm = 'rms', but shape = 'decoder' has no encoder.\nOmit it.",
    ),
    "two widths of one stack": (
        {"shape": "encoder", "encoder_d": 128},
        "model.encoder_d = 128 differs from d = 256, but shape = 'encoder' has only one stack.\n"
        "Give its width as d and omit encoder_d.",
    ),
    "a second vocabulary without a second stack": (
        {"source_vocabulary": 99},
        "model.source_vocabulary = 99 is for shape = 'encoder-decoder'.\nUse vocabulary.",
    ),
    "a classifier without classes": (
        {"head": "classifier"},
        "model.head = 'classifier' with classes = None.\n"
        "A classifier needs head = 'classifier' and classes = the number of labels; other heads have no classes.",
    ),
    "classes without a classifier": ({"classes": 3}, "model.head = 'language' with classes = 3."),
    "a classifier that writes": (
        {"shape": "encoder-decoder", "head": "classifier", "classes": 3},
        "model.head = 'classifier' does not work with shape = 'encoder-decoder', which generates text.\n"
        "Use shape = 'encoder' or 'decoder' for a classifier or for vectors.",
    ),
    "a token that has seen nothing": (
        {"head": "classifier", "classes": 3, "pool": "first"},
        "model.pool = 'first' reads a token that sees no other in a causal stack.\n"
        "Use pool = 'last' or 'mean'.",
    ),
    "letters of no matrix": ({"attention_bias": "qx"}, "model.attention_bias = 'qx' is invalid"),
    "dropping everything": (
        {"dropout": 1.0},
        "model.dropout = 1.0 is invalid: it should be less than 1.",
    ),
    "an unknown kind": ({"similarity": "dots"}, "model.similarity = 'dots' is invalid: it should be"),
    "an unknown setting": ({"heads": 4}, "model.heads is not a setting. Did you mean head?"),
    "a misspelt setting": (
        {"similarty": "dot"},
        "model.similarty is not a setting. Did you mean similarity?",
    ),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_cannot_work_is_refused_with_a_way_out(wrong: str) -> None:
    settings, message = REFUSED[wrong]
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**settings)
    assert message in str(caught.value)


SIZES = [
    "vocabulary", "source_vocabulary", "context", "d", "encoder_d", "encoder_blocks", "decoder_blocks", "h",
    "d_k", "d_v", "d_ff", "position_offset", "relative_buckets", "token_types", "classes",
]  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_no_machine_holds_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"model.{name} = 1099511627776 is invalid: it should be less"):
        ModelConfig(**{name: 1 << 40})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*SIZES, "h_kv", "window"])
def test_a_size_below_what_makes_sense_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"model.{name} = -1 is invalid: it should be greater than"):
        ModelConfig(**{name: -1})  # type: ignore[arg-type]


def test_what_follows_from_the_settings() -> None:
    config = ModelConfig(d=24, h=6)
    assert (config.width_k, config.width_v, config.groups, config.width_ff(24)) == (4, 4, 6, 96)
    assert ModelConfig(d=24, h=6, d_k=8).width_v == 8
    assert ModelConfig(d=24, h=6, d_k=8, d_v=2).width_v == 2
    assert ModelConfig(d=24, h=6, feedforward="swiglu").width_ff(24) == 64
    assert ModelConfig(d=24, h=6, d_ff=5).width_ff(24) == 5
    assert ModelConfig(d=24, h=6, h_kv=2).groups == 2
    assert ModelConfig(projections="none", h=1, d=24).width_k == 24
    translator = ModelConfig(shape="encoder-decoder", d=24, h=6, encoder_d=18, source_vocabulary=99)
    assert (translator.width_encoder, translator.width_top, translator.vocabulary_encoder) == (18, 24, 99)
    assert not translator.is_shared
    assert ModelConfig(shape="encoder-decoder").is_shared
    assert not ModelConfig(shape="encoder-decoder", shared=False).is_shared
    assert not ModelConfig(shape="decoder").is_shared


def test_a_stack_ends_with_a_norm_unless_every_block_does() -> None:
    assert ModelConfig().has_final_norm
    assert not ModelConfig(norm_placement="post").has_final_norm
    assert ModelConfig(norm_placement="post", final_norm=True).has_final_norm


def test_the_distance_between_two_texts_has_no_meaning() -> None:
    config = ModelConfig(similarity="distance", positions="none", shape="encoder-decoder")
    assert config.cross_similarity == "scaled_dot"
    assert ModelConfig(similarity="cosine").cross_similarity == "cosine"


def test_attentions_have_names() -> None:
    config = ModelConfig(
        shape="encoder-decoder", encoder_blocks=1, decoder_blocks=2, kept_heads={"decoder.1.cross": (0, 3)}
    )
    names = ["encoder.0.self", "decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    assert config.attentions() == names
    assert config.heads("decoder.1.cross") == (0, 3)
    assert config.heads("decoder.0.cross") == (0, 1, 2, 3)
    assert ModelConfig(decoder_blocks=1).attentions() == ["decoder.0.self"]
    assert ModelConfig(shape="encoder", encoder_blocks=1).attentions() == ["encoder.0.self"]


@given(st.integers(1, 512), st.integers(1, 64))
def test_the_way_out_of_an_uneven_split_works(d: int, h: int) -> None:
    try:
        ModelConfig(d=d, h=h, positions="none")
    except ConfigError as error:
        near = str(error).split("such as ")[1].split(", or set")[0]
        for width in near.split(" or "):
            ModelConfig(d=int(width), h=h, positions="none")
    else:
        assert d % h == 0


def test_settings_survive_json() -> None:
    config = ModelConfig(
        d=24,
        h=6,
        kept_heads={"decoder.0.self": (0, 2)},
        rotary_scaling=RotaryScaling(kind="linear", factor=2.0),
    )
    assert ModelConfig(**config.model_dump(mode="json")) == config


def test_every_setting_has_a_meaning_of_one_line() -> None:
    for group in (ModelConfig, RotaryScaling):
        for name, field in group.model_fields.items():
            assert field.description, name
            assert "\n" not in field.description
            assert not field.description.endswith(".")
