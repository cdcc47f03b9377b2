"""Small models with random weights and the tokenizers to use them with."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.tokenizer import Tokenizer

SENTENCES = [
    "my dog wanted to see the red ball",
    "the boy kicks the red ball and is happy",
    "he is old but she is a great friend",
    "the cat sat on the green table",
]


@cache
def tokenizer(kind: str) -> Tokenizer:
    """A small tokenizer of a kind."""
    settings: dict[str, Any] = {"kind": kind, "minimum_frequency": 1}
    return Tokenizer.train(SENTENCES * 3, TokenizerConfig(**settings))


def random_model(shape: str, kind: str = "byte", seed: int = 1, **settings: Any) -> Bundle:
    """A tiny model of a shape over a tokenizer of a kind, with decided opinions: its logits lie far apart."""
    words = tokenizer(kind)
    sizes = {
        "d": 24,
        "h": 3,
        "encoder_blocks": 2,
        "decoder_blocks": 2,
        "context": 48,
        "vocabulary": words.size,
    }
    module = build(ModelConfig(**{"shape": shape, **sizes, **settings}), seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.25)
    return Bundle(module, words)


@cache
def language_model(kind: str = "byte", **settings: Any) -> Bundle:
    """A decoder; the same object for every test, so nobody may change it."""
    return random_model("decoder", kind, **settings)


@cache
def translator(kind: str = "byte", **settings: Any) -> Bundle:
    """An encoder-decoder."""
    return random_model("encoder-decoder", kind, **settings)


@cache
def classifier(kind: str = "word", **settings: Any) -> Bundle:
    """An encoder with three classes and their names."""
    bundle = random_model("encoder", kind, 7, head="classifier", classes=3, **settings)
    bundle.labels = ["bad", "good", "so-so"]
    return bundle


def next_logits(bundle: Bundle, ids: list[int], source: list[int] | None = None) -> Tensor:
    """The logits after some ids by one whole pass, without a cache: (vocabulary,)."""
    inputs = Inputs(torch.tensor([ids]), source=None if source is None else torch.tensor([source]))
    with torch.no_grad():
        return bundle.module(inputs)[0, -1]


def assert_same_or_tied(
    bundle: Bundle,
    prompt: list[int],
    ours: list[int],
    theirs: list[int],
    source: list[int] | None = None,
) -> None:
    """Equal ids, or at the first difference two tokens that are equally likely up to rounding."""
    if ours == theirs:
        return
    place = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    assert place is not None, f"one text is longer: {ours} and {theirs}"
    Z = next_logits(bundle, prompt + ours[:place], source)
    gap = float((Z[ours[place]] - Z[theirs[place]]).abs())
    assert gap < 2e-4 * max(1.0, float(Z.abs().max())), f"{ours} and {theirs} part at {place}, by {gap}"
