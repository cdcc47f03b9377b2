"""Rounding for a model's own texts: the same every time, like the nearest numbers for models that write none."""

from copy import deepcopy

import torch

from clearhead.data.frames import document_frame
from clearhead.decoding.own_texts import TOKENS, own_texts, quantise
from clearhead.models.int8 import round_weights
from tests.decoding.tiny import language_model, translator


def test_texts_start_again_after_their_ends() -> None:
    bundle = language_model("word")
    assert bundle.tokenizer is not None
    frame = document_frame(bundle.tokenizer.specials)
    texts = own_texts(bundle.module, bundle.tokenizer)
    assert texts.shape == (TOKENS // 48, 48)
    assert bool((texts[:, 0] == frame.before[0]).all())
    ends = texts[:, :-1] == frame.after[0]
    assert bool(ends.any())
    assert bool((texts[:, 1:][ends] == frame.before[0]).all())


def test_the_same_every_time_and_what_is_being_done_is_shown() -> None:
    stages: set[str] = set()
    one, two = deepcopy(language_model("word")), deepcopy(language_model("word"))
    quantise(one, lambda stage, detail: stages.add(stage))
    quantise(two)
    assert one.is_int8
    assert stages == {"Writing texts to round for", "Reading them", "Rounding"}
    nearest = deepcopy(language_model("word")).module
    round_weights(nearest)
    same = [torch.equal(*pair) for pair in zip(one.module.parameters(), two.module.parameters(), strict=True)]
    assert all(same)
    assert not all(map(torch.equal, one.module.parameters(), nearest.parameters()))


def test_a_translator_is_rounded_to_the_nearest() -> None:
    one, nearest = deepcopy(translator("word")), deepcopy(translator("word")).module
    quantise(one)
    round_weights(nearest)
    assert one.is_int8
    assert all(map(torch.equal, one.module.parameters(), nearest.parameters()))
