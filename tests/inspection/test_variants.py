"""Models without a part: the same weights, and the law that the part had kept is gone."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError
from clearhead.inspection.capture import capture
from clearhead.inspection.variants import PARTS, why_not, without
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


def make(shape: str = "decoder", **settings: Any) -> Model:
    sizes = {"vocabulary": 11, "d": 24, "h": 3, "encoder_blocks": 2, "decoder_blocks": 2, "context": 16}
    model = build(ModelConfig(**{"shape": shape, **sizes, **settings}))
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in model.parameters():  # the table of relative positions begins at zero
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.2)
    return model


@torch.no_grad()
def run(model: Model, tokens: Tensor = TOKENS) -> Tensor:
    return model(Inputs(tokens, source=tokens[:, :4] if model.translates else None))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("shape", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("positions", ["rotary", "learned", "alibi", "relative"])
def test_the_weights_are_shared_and_the_model_is_left_alone(part: str, shape: str, positions: str) -> None:
    model = make(shape, positions=positions)
    if part in why_not(model.config):
        pytest.skip(why_not(model.config)[part])
    before = run(model)
    other = without(model, part)
    own = {name: weight.data_ptr() for name, weight in model.named_parameters()}
    assert all(weight.data_ptr() == own[name] for name, weight in other.named_parameters())
    assert not torch.allclose(run(other), before, atol=1e-4)
    assert torch.equal(run(model), before)


@pytest.mark.notes("N12")
def test_no_scaling_leaves_the_dot_product() -> None:
    other = without(make(), "scaling")
    with torch.no_grad(), capture(other, "decoder.0.self.*") as trace:
        other(Inputs(TOKENS))
    Q, K = trace["decoder.0.self.q"], trace["decoder.0.self.k"]
    assert torch.allclose(trace["decoder.0.self.scores"], Q @ K.mT, atol=1e-5)


@pytest.mark.notes("N15")
def test_no_mask_sees_the_future() -> None:
    model = make()
    later = TOKENS.clone()
    later[0, -1] = 7
    assert torch.equal(run(model)[0, 0], run(model, later)[0, 0])
    assert not torch.allclose(run(without(model, "mask"))[0, 0], run(without(model, "mask"), later)[0, 0])


@pytest.mark.notes("N14")
@pytest.mark.parametrize("positions", ["rotary", "learned", "alibi", "relative", "sinusoidal"])
def test_no_positions_maps_sets_to_sets(positions: str) -> None:
    model = without(make("encoder", positions=positions), "positions")
    order = torch.tensor([4, 0, 6, 2, 1, 5, 3])
    assert torch.allclose(run(model, TOKENS[:, order]), run(model)[:, order], atol=1e-5)


@pytest.mark.notes("N10")
def test_no_projections_compares_x_with_x() -> None:
    model = make(norm_placement="post", positions="learned")
    other = without(model, "projections", "scaling")
    with torch.no_grad(), capture(other) as trace:
        other(Inputs(TOKENS))
    X = trace["decoder.embeddings.out"]
    S = (X @ X.mT).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    for head in range(3):
        assert torch.allclose(trace["decoder.0.self.weights"][:, head], S.softmax(-1), atol=1e-5)
    with torch.no_grad(), capture(model, "decoder.0.self.v") as own:
        model(Inputs(TOKENS))
    assert torch.allclose(trace["decoder.0.self.v"], own["decoder.0.self.v"], atol=1e-6)


def test_the_scale_without_projections_is_that_of_x() -> None:
    other = without(make(positions="learned"), "projections")
    with torch.no_grad(), capture(other, "decoder.1.self.*") as trace:
        other(Inputs(TOKENS))
    Q = trace["decoder.1.self.q"]
    assert torch.allclose(trace["decoder.1.self.scores"], Q @ Q.mT / 24**0.5, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "part", "message"),
    [
        ({"shape": "encoder"}, "mask", "An encoder has no mask"),
        ({"similarity": "dot"}, "scaling", "Its scores are not scaled."),
        ({"positions": "none"}, "positions", "This model has no positions."),
        ({"similarity": "additive"}, "projections", "does not compare x with x"),
        ({"projections": "none", "h": 1, "d_k": None}, "projections", "This model has no projections."),
        ({}, "mush", "'mush' is not a part that can be removed. Did you mean mask?"),
    ],
)
def test_parts_that_cannot_be_left_out(settings: dict[str, Any], part: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        without(make(**settings), part)
    assert message in str(caught.value)
