"""Gradients: finite everywhere, the same on both paths, and zero only where a reason is written down.

In float64, so that a gradient that is zero by a law is told from one that is only small.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pytest
import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.inspection.capture import capture
from clearhead.models.build import FAMILIES, build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from tests.models.cases import CASES, B, Case, N, configure, random_model, say, some_ids, some_source
from tests.models.test_laws import cases

ZERO = 1e-12


@dataclass(frozen=True)
class Silence:
    """Weights whose gradient is zero, when, and why."""

    names: str
    when: Callable[[AnyModelConfig, str], bool]
    reason: str


def is_plain_dot(config: AnyModelConfig, name: str) -> bool:
    """Whether keys meet queries in a dot product, with nothing in between."""
    if not isinstance(config, ModelConfig):
        return False
    is_cross = ".cross." in name
    kind = config.cross_similarity if is_cross else config.similarity
    turned = config.positions == "rotary" and not is_cross
    bare = config.projections == "linear" and not config.query_key_norm
    return kind in ("dot", "scaled_dot") and bare and not turned


def is_deaf(config: AnyModelConfig, name: str) -> bool:
    """Whether no block of the decoder looks at the source."""
    return config.shape == "encoder-decoder" and config.decoder_blocks == 0


def reads_first(config: AnyModelConfig, name: str) -> bool:
    """Whether only the first state of a recurrence is read, which follows from no other."""
    return config.head == "classifier" and config.pool == "first" and "weight" in name


def reads_last(config: AnyModelConfig, name: str) -> bool:
    """Whether only the last state is read, the first of a recurrence that reads backwards."""
    return config.head == "classifier" and config.pool == "last" and "weight" in name


SILENCES = [
    Silence("*.W_k.bias", is_plain_dot, "q · b_k is the same for every key, and softmax ignores a constant"),
    Silence("encoder.*", is_deaf, "no block looks at the source"),
    Silence("encoder.blocks.1.directions.0.*_hh_l0", reads_first, "there is no state before the first token"),
    Silence(
        "encoder.blocks.1.directions.1.*_hh_l0", reads_last, "read backwards, there is none before the last"
    ),
]
# At the first step of a model that starts as the identity:
W_O, W_2 = "W_o is zero and blocks what is before it", "W_2 is zero and blocks what is before it"
FIRST_STEP = [
    Silence("*.self.*", lambda config, name: ".W_o." not in name, W_O),
    Silence("*.cross.*", lambda config, name: ".W_o." not in name, W_O),
    Silence("*.ffn.*", lambda config, name: ".W_2." not in name, W_2),
    Silence("*.add_*", lambda config, name: True, "a norm before a sublayer acts only through it"),
    Silence("encoder.*", lambda config, name: config.shape == "encoder-decoder", f"in cross-attention {W_O}"),
    Silence("*", lambda config, name: not config.tied and name != "head.table.weight", "the head is zero"),
]


def reason_for(config: AnyModelConfig, name: str, silences: list[Silence]) -> str | None:
    """Why a weight has no gradient, or nothing."""
    fitting = (s for s in silences if fnmatchcase(name, s.names) and s.when(config, name))
    return next((silence.reason for silence in fitting), None)


def gradients(model: Model, case: Case, *watched: str) -> dict[str, Tensor]:
    """The gradient of a random sum of all that the model says, for every weight."""
    tokens, source = some_ids(B, N + 1), some_source(case)
    with capture(model, *watched, attached=True):
        logits = model(Inputs(tokens)) if case.config.head == "classifier" else say(model, tokens, source)
    loss = (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(3)).double()).sum()
    weights = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True, allow_unused=True)
    return dict(zip(weights, found, strict=True))


@cases(is_crossed=False)
def test_every_weight_has_a_finite_gradient_that_is_zero_only_for_a_reason(case: Case) -> None:
    model = deepcopy(random_model(case.name)).double()
    fast = gradients(model, case, "")
    for name, gradient in fast.items():
        assert gradient.isfinite().all(), name
        size = float(gradient.abs().max())
        reason = reason_for(case.config, name, SILENCES)
        assert (size < ZERO) == (reason is not None), f"{name}: {size}, {reason}"
    slow = gradients(model, case)  # every site watched: the plain formula
    for name, gradient in fast.items():
        assert torch.allclose(slow[name], gradient, atol=1e-10), name


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shape", FAMILIES["transformer"])
def test_a_model_that_starts_as_the_identity_learns_from_the_outside_in(shape: str, tied: bool) -> None:
    config = configure(shape, {"zero_outputs": True, "tied": tied, "norm": "layer"})
    for name, gradient in gradients(build(config).double(), Case(shape, config), "").items():
        reason = reason_for(config, name, FIRST_STEP)
        assert bool(gradient.abs().max() < ZERO) == (reason is not None), f"{name}: {reason}"


def test_a_relu_that_leaves_a_query_empty_does_not_spoil_the_gradient() -> None:
    """cosine of a zero vector: the gradient is finite."""
    case = CASES["decoder: relu cosine"]
    model = deepcopy(random_model(case.name)).double()
    with torch.no_grad():
        model.get_parameter("decoder.blocks.0.self.W_q.weight").zero_()
    for name, gradient in gradients(model, case, "").items():
        assert gradient.isfinite().all(), name
