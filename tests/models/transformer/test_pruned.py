"""A pruned model is the whole one with its other heads and units put to zero; padded, it has its first size again."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError, InputError
from clearhead.inspection.capture import edit, intervene, zero
from clearhead.models.inputs import Inputs
from clearhead.models.transformer.pruned import padded, pruned
from tests.models.cases import CASES, MIXED, Case, gap, read, some_ids, some_source

GROUPS = ("scaled_dot", "norm", "feedforward", "projections", "pool mean", "additive learned", "cosine learned",
          "gaussian learned", "distance none")  # fmt: skip
PRUNABLE = [
    case
    for case in CASES.values()
    if isinstance(case.config, ModelConfig)
    and case.has_attention
    and (case.kind in MIXED or case.kind.startswith(GROUPS))
]
each = pytest.mark.parametrize("case", PRUNABLE, ids=lambda case: case.name)


def plan(config: Any) -> tuple[dict[str, tuple[int, ...]], dict[str, list[int]]]:
    """Something to keep of every sublayer: fewer and fewer heads, none of the last; some units."""
    heads = {name: config.heads(name)[i:] for i, name in enumerate(config.attentions())}
    heads[config.attentions()[-1]] = ()
    return heads, {name: [0, 3, 4, config.units(name) - 1] for name in config.feedforwards()}


def gates(config: Any, heads: dict[str, tuple[int, ...]], units: dict[str, list[int]]) -> list[Any]:
    """The edits that put the others to zero."""
    removed = [
        zero(f"{name}.{head}")
        for name, kept in heads.items()
        for head in config.heads(name)
        if head not in kept
    ]

    def keep(places: list[int]) -> Any:
        def change(H: Tensor) -> Tensor:
            mask = torch.zeros(H.shape[-1])
            mask[places] = 1
            return H * mask

        return change

    return removed + [edit(f"{name}.hidden", keep(places)) for name, places in units.items()]


@each
@pytest.mark.notes("N19")
def test_pruned_is_gated(case: Case) -> None:
    model, tokens, source = case.model(), some_ids(2, 5), some_source(case)
    heads, units = plan(case.config)
    with intervene(model, *gates(case.config, heads, units)):
        gated = read(model, tokens, source)
    smaller = pruned(model, heads, units)
    assert gap(read(smaller, tokens, source), gated) < 1e-5
    assert sum(map(Tensor.numel, smaller.parameters())) < sum(map(Tensor.numel, model.parameters()))
    if getattr(case.config, "projections", "") != "none":
        whole = padded(smaller)
        assert whole.config == case.config.replace(kept_heads={}, kept_units={})
        assert gap(read(whole, tokens, source), gated) < 1e-5


@pytest.mark.parametrize(
    "name", ["decoder: grouped", "encoder-decoder: shared", "decoder: one key head", "decoder: biases"]
)
def test_a_pruned_model_generates_with_a_smaller_cache(name: str) -> None:
    case = CASES[name]
    heads, units = plan(case.config)
    model = pruned(case.model(), heads, units)
    tokens, source = some_ids(2, 5), some_source(case)
    state = model.start(2, 8, source)
    steps = [model.step(tokens[:, :3], state), model.step(tokens[:, 3:], state)]
    assert gap(torch.cat(steps, 1), read(model, tokens, source)) < 1e-5
    whole = case.model().start(2, 8, source)
    case.model().step(tokens, whole)
    assert state.used_bytes < whole.used_bytes


def test_a_pruned_model_can_be_pruned_again() -> None:
    case = CASES["decoder: grouped"]
    once = pruned(case.model(), {"decoder.0.self": [1, 2, 5]}, {"decoder.1.ffn": [2, 4, 6]})
    twice = pruned(once, {"decoder.0.self": [2, 5]}, {"decoder.1.ffn": [0, 2]})
    directly = pruned(case.model(), {"decoder.0.self": [2, 5]}, {"decoder.1.ffn": [2, 6]})
    assert twice.config == directly.config
    assert torch.equal(read(twice, some_ids(2, 5)), read(directly, some_ids(2, 5)))
    assert pruned(once, {"decoder.1.self": range(6)}).config == once.config  # nothing more


def test_a_pruned_model_learns() -> None:
    case = CASES["encoder-decoder: shared"]
    heads, units = plan(case.config)
    model = pruned(deepcopy(case.model()), heads, units)  # they share weights
    model(Inputs(some_ids(2, 5), source=some_source(case))).square().mean().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_what_cannot_be_kept_is_rejected() -> None:
    model = CASES["decoder: grouped"].model()
    for heads, units, message in (
        (
            {"decoder.7.self": [0]},
            {},
            r"decoder.7.self is not a sublayer that can be pruned\. Did you mean decoder",
        ),
        (
            {"decoder.0.self": [0, 6]},
            {},
            "decoder.0.self has no head 6, so it cannot be kept. It has: 0, 1, 2, 3, 4, 5",
        ),
        ({}, {"decoder.0.ffn": [9]}, "decoder.0.ffn has no unit 9, so it cannot be kept. It has: 0 to 8"),
        ({}, {"decoder.0.ffn": []}, "decoder.0.ffn would keep no units"),
    ):
        with pytest.raises(InputError, match=message):
            pruned(model, heads, units)
    with pytest.raises(InputError, match="no heads to prune"):
        pruned(CASES["decoder: recurrence gru"].model())
    single = CASES["decoder: projections none"].model()
    with pytest.raises(ConfigError, match="no weights that could be zero"):
        padded(pruned(single, {"decoder.0.self": []}))
