"""The settings of decoding: defaults, and what cannot work, with the text of the error."""

from typing import Any

import pytest

from clearhead.config.decoding import DecodingConfig
from clearhead.errors import ConfigError


def test_everything_has_a_default_and_a_meaning() -> None:
    DecodingConfig()
    assert all(field.description for field in DecodingConfig.model_fields.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temprature": 1.0}, "decoding.temprature is not a setting. Did you mean temperature?"),
        ({"temperature": -1.0}, "decoding.temperature = -1.0 is invalid"),
        ({"temperature": float("nan")}, "decoding.temperature = nan is invalid"),
        (
            {"temperature": 1e-50},
            "decoding.temperature = 1e-50 is too small to divide by.\n"
            "Use 0, which takes the likeliest token, or at least 1e-30.",
        ),
        ({"logit_bias": {5: 1e300}}, "decoding.logit_bias.5 = 1e+300 is invalid: it should be less than"),
        ({"logit_bias": {5: -1e300}}, "decoding.logit_bias.5 = -1e+300 is invalid: it should be greater"),
        ({"top_p": 0.0}, "decoding.top_p = 0.0 is invalid"),
        ({"top_k": 0}, "decoding.top_k = 0 is invalid"),
        ({"max_tokens": 0}, "decoding.max_tokens = 0 is invalid"),
        ({"repetition_penalty": 0.0}, "decoding.repetition_penalty = 0.0 is invalid"),
        (
            {"stop": ("a", "")},
            "decoding.stop contains an empty string, at which every text would stop.\nRemove it.",
        ),
        (
            {"logit_bias": {3: float("inf")}},
            "decoding.logit_bias.3 = inf is invalid: it should be a finite number.",
        ),
        (
            {"min_tokens": 9, "max_tokens": 8},
            "decoding.min_tokens = 9 is greater than max_tokens = 8.\nLower it.",
        ),
        (
            {"beam": 5, "temperature": 0.8},
            "decoding.beam = 5 searches for the likeliest text, but temperature = 0.8 samples one at random.\n"
            "Give only one of them.",
        ),
        ({"n_best": 100_000}, "decoding.n_best = 100000 is invalid: it should be less than or equal to"),
        ({"n_best": 2, "temperature": 0.8}, "decoding.n_best = 2 searches for the likeliest text"),
        (
            {"n_best": 3, "beam": 2},
            "decoding.n_best = 3 hypotheses cannot come from a beam of 2.\nUse a larger beam.",
        ),
        (
            {"beam": 2, "logprobs": 3},
            "decoding.beam = 2 compares whole texts, so there are no alternatives to report for each "
            "token.\nUse beam = 1, or omit logprobs.",
        ),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DecodingConfig(**settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 1, "temperature": 0.8, "logprobs": 5},
        {"beam": 5, "temperature": 0.0, "n_best": 5},
        {"temperature": 0.0, "top_p": 0.9},
        {"stop": ["a", "b"], "banned": [1], "logit_bias": {"7": 1}},
    ],
)
def test_what_can_work_is_not(settings: dict[str, Any]) -> None:
    assert DecodingConfig(**settings).given().keys() == settings.keys()
