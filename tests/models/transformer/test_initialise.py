"""Where weights start: repeatable, at the promised sizes, and quiet at the output of every sublayer."""

import math

import pytest
import torch

from clearhead.config.model import ModelConfig
from clearhead.models.build import FAMILIES, build
from clearhead.models.inputs import Inputs
from tests.models.cases import configure, some_ids

WIDE = {"d": 256, "h": 4, "d_ff": 512, "vocabulary": 500, "decoder_blocks": 3, "encoder_blocks": 2}


@pytest.mark.parametrize("shape", FAMILIES["transformer"])
def test_the_same_seed_gives_the_same_model(shape: str) -> None:
    config = configure(shape, {"positions": "learned", "similarity": "additive"})
    one, same, other = (dict(build(config, seed).named_parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("name", "deviation"),
    [
        ("decoder.tokens.weight", 256**-0.5),
        ("decoder.positions.weight", 256**-0.5),
        ("decoder.blocks.1.self.W_q.weight", 256**-0.5),
        ("decoder.blocks.1.self.W_o.weight", 256**-0.5 / math.sqrt(6)),  # 2 sublayers in each of 3 blocks
        ("decoder.blocks.2.ffn.W_1.weight", 256**-0.5),
        ("decoder.blocks.2.ffn.W_2.weight", 512**-0.5 / math.sqrt(6)),
        ("head.table.weight", 256**-0.5),
    ],
)
def test_weights_start_at_these_sizes(name: str, deviation: float) -> None:
    model = build(ModelConfig(**WIDE, positions="learned", tied=False))  # type: ignore[arg-type]
    assert float(model.get_parameter(name).detach().std()) == pytest.approx(deviation, rel=0.03)


def test_a_translator_has_three_sublayers_to_quiet() -> None:
    model = build(ModelConfig(**WIDE, shape="encoder-decoder"))  # type: ignore[arg-type]
    cross = model.get_parameter("decoder.blocks.0.cross.W_o.weight")
    assert float(cross.detach().std()) == pytest.approx(256**-0.5 / 3, rel=0.03)
    own = model.get_parameter("encoder.blocks.0.self.W_o.weight")
    assert float(own.detach().std()) == pytest.approx(256**-0.5 / 2, rel=0.03)


def test_norms_and_biases_start_where_nothing_is_preferred() -> None:
    settings = {"norm": "layer", "attention_bias": "qkvo", "feedforward_bias": True, "positions": "relative"}
    for name, weight in build(configure("decoder", settings)).named_parameters():
        if "norm" in name and name.endswith("weight"):
            assert (weight == 1).all()
        elif name.endswith(("bias", "positions.weight")):
            assert (weight == 0).all()
        else:
            assert (weight != 0).all()


def test_logits_start_small_and_the_stream_does_not_grow_with_depth() -> None:
    """A tied head starts with logits of variance about 1, whatever the depth."""
    for blocks in (1, 12):
        model = build(ModelConfig(**{**WIDE, "decoder_blocks": blocks}))  # type: ignore[arg-type]
        logits = model(Inputs(some_ids(4, 16, below=500)))
        assert 0.7 < float(logits.detach().std()) < 1.4


@pytest.mark.parametrize("shape", FAMILIES["transformer"])
def test_with_zero_outputs_every_block_starts_as_the_identity(shape: str) -> None:
    config = configure(shape, {"zero_outputs": True, "norm": "none"})
    model, tokens = build(config), some_ids(2, 5)
    bare = build(config.replace(encoder_blocks=0, decoder_blocks=0))
    bare.load_state_dict({k: v for k, v in model.state_dict().items() if ".blocks." not in k})
    inputs = Inputs(tokens, source=some_ids(2, 7) if model.translates else None)
    assert torch.equal(model(inputs), bare(inputs))


def test_a_model_is_built_for_use_not_for_training() -> None:
    assert not build(configure("decoder", {"dropout": 0.5})).training
