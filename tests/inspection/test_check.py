"""The self-check holds for sound models of every shape, and notices a model that breaks a law."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.config.families import read_model_config
from clearhead.config.model import ModelConfig
from clearhead.inspection.check import check
from clearhead.layers import attention
from clearhead.layers.cache import DecoderState
from clearhead.layers.masks import View
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder

SMALL: dict[str, object] = {
    "vocabulary": 23,
    "d": 24,
    "h": 3,
    "encoder_blocks": 2,
    "decoder_blocks": 2,
    "context": 40,
}
OTHER: dict[str, object] = {"vocabulary": 23, "d": 12, "decoder_blocks": 2, "context": 40}
RECURRENT, FILTERS = OTHER | {"family": "recurrent"}, OTHER | {"family": "convolutional"}
CASES: dict[str, dict[str, object]] = {
    "decoder": SMALL,
    "window": SMALL | {"window": 5},
    "encoder": SMALL | {"shape": "encoder"},
    "classifier": SMALL | {"shape": "encoder", "head": "classifier", "classes": 3},
    "vectors": SMALL | {"shape": "encoder", "head": "none"},
    "translator": SMALL | {"shape": "encoder-decoder", "positions": "relative"},
    "short context": SMALL | {"context": 3},
    "one token": SMALL | {"context": 1},
    "no blocks": SMALL | {"decoder_blocks": 0},
    "convolution": SMALL | {"convolution": 4},
    "lstm": RECURRENT,
    "lstm translator": RECURRENT | {"shape": "encoder-decoder"},
    "gru classifier": RECURRENT | {"shape": "encoder", "cell": "gru", "head": "classifier", "classes": 3},
    "filters": FILTERS,
    "filters classifier": FILTERS | {"shape": "encoder", "head": "classifier", "classes": 3},
}
HAVE_NO_ATTENTION = ("no blocks", "lstm", "gru classifier", "filters", "filters classifier")


def laws(settings: dict[str, object]) -> dict[str, bool]:
    bundle = Bundle(build(read_model_config(settings)))
    return {law.name: law.holds for law in check(bundle)}


@pytest.mark.parametrize("name", CASES)
def test_every_law_holds_for_a_sound_model(name: str) -> None:
    found = laws(CASES[name])
    assert all(found.values())
    writes = CASES[name].get("shape") != "encoder"
    assert ("cached = uncached" in found) is writes
    assert {"batched = single", "captured = fast", "saved = loaded"} <= found.keys()
    assert ("attention rows sum to 1" in found) is (name not in HAVE_NO_ATTENTION)


def test_a_mask_that_lets_the_future_through_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = attention.fused

    def careless(module, Q, K, V, view):  # type: ignore[no-untyped-def]
        return whole(module, Q, K, V, View(view.at, view.to))

    monkeypatch.setattr(attention, "fused", careless)
    found = laws(CASES["decoder"])
    assert not found["no look at the future"]
    assert not found["captured = fast"]


def test_padding_that_is_looked_at_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = attention.fused
    monkeypatch.setattr(
        attention,
        "fused",
        lambda module, Q, K, V, view: whole(module, Q, K, V, View(view.at, view.to)),
    )
    assert not laws(CASES["encoder"])["batched = single"]


def test_a_cache_that_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Decoder.step

    def careless(self: Decoder, tokens: Tensor, state: DecoderState, *given: Any) -> Tensor:
        state.cache.K[0].zero_()
        return right(self, tokens, state, *given)

    monkeypatch.setattr(Decoder, "step", careless)
    assert broken(laws(SMALL | {"similarity": "gaussian"})) == {"cached = uncached"}


def broken(found: dict[str, bool]) -> set[str]:
    return {name for name, holds in found.items() if not holds}


def test_a_number_that_is_none_is_noticed_wherever_it_stands() -> None:
    model = build(ModelConfig.model_validate(SMALL))
    last = list(model.parameters())[-1]
    with torch.no_grad():
        last[-1] = torch.nan
    assert held(model) == {"attention rows sum to 1"}
    query = model.get_parameter("decoder.blocks.1.self.W_q.weight")
    with torch.no_grad():
        last[-1], query[0] = 0.0, torch.nan
    assert not held(model)


def held(model: Model) -> set[str]:
    """The laws that hold for what PyTorch computes of a model."""
    return {law.name for law in check(Bundle(model)) if law.holds} - {"saved = loaded", "compiled = uncached"}


def test_what_is_saved_and_loaded_is_compared_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_kept(model: Model) -> bool:
        return next(law.holds for law in check(Bundle(model)) if law.name == "saved = loaded")

    model = build(ModelConfig.model_validate(SMALL))
    first = next(model.parameters())
    with torch.no_grad():
        first[0, 0], first[0, 1] = torch.nan, -0.0
    assert is_kept(model)  # a number that is none comes back as it was
    whole = model_folder.load

    def careless(place: str, dtype: torch.dtype) -> Bundle:
        found = whole(place, dtype)
        with torch.no_grad():
            next(found.module.parameters())[0, 1] = 0.0
        return found

    monkeypatch.setattr(model_folder, "load", careless)
    assert not is_kept(model)  # equal as a number, but not the same


def test_weights_that_are_not_a_number_break_the_laws() -> None:
    model = build(ModelConfig.model_validate(SMALL))
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    assert not all(law.holds for law in check(Bundle(model)))
