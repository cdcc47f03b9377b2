"""The families of models as settings: what belongs to another family is refused with that family's name."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.config.families import FAMILIES, read_model_config
from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.config.recurrent import RecurrentConfig
from clearhead.config.run import RunConfig
from clearhead.errors import ConfigError

RUN: dict[str, Any] = {"task": "classify", "data": {"train": "a.csv"}}


def test_settings_that_name_no_family_are_those_of_a_transformer() -> None:
    """As in every config.json that was written before there were families."""
    old = Path(__file__).parent.parent / "fixtures/model-folder-1/decoder/config.json"
    settings = json.loads(old.read_text(encoding="utf-8"))
    assert "family" not in settings
    settings.pop("format")
    assert type(read_model_config(settings)) is ModelConfig
    assert type(RunConfig(**RUN).model) is ModelConfig
    assert "family" not in RunConfig(**RUN).to_toml()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_is_read_again_as_what_it_was(family: str) -> None:
    config = read_model_config({"family": family, "d": 16})
    assert read_model_config(json.loads(config.model_dump_json())) == config
    run = RunConfig(**RUN | {"model": config})
    again = RunConfig(**tomllib.loads(run.to_toml()))
    assert type(again.model) is type(config)
    assert again.model == run.model == config.replace(shape="encoder")


def test_what_is_common_is_stated_once() -> None:
    for family in FAMILIES.values():
        own = set(family.__annotations__)
        assert own & set(AnyModelConfig.model_fields) <= {
            "family",
            "encoder_blocks",
            "decoder_blocks",
            "pool",
        }
        assert all(field.description for field in family.model_fields.values())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown family": (
        {"family": "recurent"},
        "model.family = 'recurent' is unknown. Did you mean recurrent?",
    ),
    "no family": (
        {"family": None},
        "model.family = None is unknown. Known: convolutional, recurrent, transformer.",
    ),
    "a list": ({"family": ["recurrent"]}, "model.family = ['recurrent'] is unknown."),
    "heads of an LSTM": (
        {"family": "recurrent", "h": 4},
        "model.h (attention heads) is a setting of family = 'transformer', but this model has family = 'recurrent'.\n"
        "Omit it, or change model.family.",
    ),
    "a cell of a transformer": (
        {"cell": "lstm"},
        "is a setting of family = 'recurrent', but this model has family = 'transformer'.",
    ),
    "the dilation of an LSTM": (
        {"family": "recurrent", "dilation": 2},
        "is a setting of family = 'convolutional'",
    ),
    "a typing error": (
        {"family": "recurrent", "cel": "gru"},
        "model.cel is not a setting. Did you mean cell?",
    ),
    "an unknown cell": ({"family": "recurrent", "cell": "tlstm"}, "it should be 'rnn', 'gru' or 'lstm'"),
    "halves of an odd width": (
        {"family": "recurrent", "shape": "encoder", "d": 9},
        "model.bidirectional = true gives each direction half of model.d = 9, which is odd.\nUse an even d, such as 10",
    ),
    "no block": ({"family": "recurrent", "decoder_blocks": 0}, "model.decoder_blocks = 0 is invalid"),
    "a convolutional translator": (
        {"family": "convolutional", "shape": "encoder-decoder"},
        "has no shape = 'encoder-decoder': a filter sees neighbours",
    ),
    "no width": ({"family": "convolutional", "widths": ()}, "model.widths = () is invalid"),
    "a width of nothing": ({"family": "convolutional", "widths": (0,)}, "model.widths.0 = 0 is invalid"),
    "more widths than filters": (
        {"family": "convolutional", "d": 2, "widths": (1, 2, 3)},
        "model.widths names 3 widths, but there are only 2 filters.",
    ),
    "a period and no room for filters": (
        {"family": "convolutional", "shape": "encoder", "d": 8, "token_d": 16, "period": 3},
        "model.period = 3 sums half of each token vector of width 16, and filters make the rest of d = 8.",
    ),
    "more widths than filters beside sums": (
        {"family": "convolutional", "shape": "encoder", "d": 8, "token_d": 12, "period": 3},
        "model.widths names 3 widths, but there are only 2 filters.",
    ),
    "a period of a decoder": (
        {"family": "convolutional", "period": 3},
        "model.period = 3 is for a convolutional encoder",
    ),
    "a reach beyond everything": (
        {"family": "convolutional", "dilation": 1024, "decoder_blocks": 1024},
        "reaches more than 1,073,741,824 tokens.\nUse fewer blocks",
    ),
    "a convolution of one token": ({"convolution": 1}, "model.convolution = 1 is invalid"),
    "a filter of another family": (
        {"convolution": 3, "widths": (3,)},
        "a setting of family = 'convolutional'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused_with_the_reason(name: str) -> None:
    settings, message = REFUSED[name]
    with pytest.raises(ConfigError) as error:
        read_model_config(settings)
    assert message in str(error.value)


def test_a_class_of_settings_takes_its_own_family_only() -> None:
    with pytest.raises(
        ConfigError, match="'recurrent' was given to ModelConfig, whose family is 'transformer'"
    ):
        ModelConfig(family="recurrent")
    assert RecurrentConfig(family="recurrent") == RecurrentConfig()


def test_overrides_know_the_family() -> None:
    made = RunConfig(**RunConfig.overridden(dict(RUN), {"model.cell": "gru", "model.family": "recurrent"}))
    assert made.model == RecurrentConfig(shape="encoder", cell="gru")
    for overrides, message in (
        (
            {"model.cell": "gru"},
            "a setting of family = 'recurrent', but this model has family = 'transformer'",
        ),
        ({"model.family": "recurrent", "model.h": "2"}, "a setting of family = 'transformer'"),
        ({"model.family": "lstm"}, "it should be 'transformer', 'recurrent' or 'convolutional'"),
    ):
        with pytest.raises(ConfigError, match=message):
            RunConfig.overridden(dict(RUN), overrides)


def test_a_change_of_family_is_named() -> None:
    lines = list(RecurrentConfig().changes(ModelConfig()))  # type: ignore[arg-type]
    assert lines[0] == "model.family = 'recurrent' (was 'transformer')"


def test_how_far_filters_reach() -> None:
    assert ConvolutionalConfig(decoder_blocks=4).reach == 1 + 2 * (1 + 2 + 4 + 8)
    assert ConvolutionalConfig(decoder_blocks=4, dilation=1, widths=(5, 2)).reach == 1 + 4 * 4
    assert ConvolutionalConfig(shape="encoder").reach == 5
