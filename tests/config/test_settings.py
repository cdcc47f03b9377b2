"""What all settings share: frozen, checked, and errors that name the setting as the user wrote it."""

from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from clearhead.config.settings import Settings
from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError, suggest


class Oven(Settings):
    """A group of settings."""

    section: ClassVar[str] = "kitchen"
    minutes: int = Field(30, gt=0, description="how long it bakes")
    degrees: float = Field(180.0, description="how hot it is")
    heat: Literal["top", "bottom", "fan"] = Field("fan", description="where the heat comes from")
    cake: str = Field(description="what is in it")


def test_settings_are_frozen() -> None:
    oven = Oven(cake="apple")
    with pytest.raises(ValidationError, match="frozen"):
        oven.minutes = 5  # type: ignore[misc]
    assert oven.minutes == 30


def test_an_unknown_key_gets_the_nearest_known_name() -> None:
    message = "kitchen.minuts is not a setting. Did you mean minutes? Known: cake, degrees, heat, minutes."
    with pytest.raises(ConfigError) as caught:
        Oven(cake="apple", minuts=3)  # type: ignore[call-arg]
    assert str(caught.value) == message
    with pytest.raises(ConfigError, match=r"kitchen.zzz is not a setting. Known: cake"):
        Oven(cake="apple", zzz=3)  # type: ignore[call-arg]


def test_a_wrong_value_is_shown_with_what_it_should_be_and_what_it_means() -> None:
    with pytest.raises(ConfigError) as caught:
        Oven(cake="apple", minutes=0)
    assert str(caught.value) == (
        "kitchen.minutes = 0 is invalid: it should be greater than 0.\nMeaning: how long it bakes."
    )
    with pytest.raises(ConfigError, match=r"kitchen.heat = 'left' .* it should be 'top', 'bottom' or 'fan'"):
        Oven(cake="apple", heat="left")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"kitchen.minutes = 'long'"):
        Oven(cake="apple", minutes="long")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_are_finite(value: float) -> None:
    with pytest.raises(ConfigError, match=r"kitchen.degrees = .* it should be a finite number"):
        Oven(cake="apple", degrees=value)


def test_a_missing_setting_is_explained() -> None:
    with pytest.raises(ConfigError, match=r"kitchen.cake is required: what is in it."):
        Oven()  # type: ignore[call-arg]


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Oven(minutes=0, heat="left", temperature=3)  # type: ignore[call-arg,arg-type]
    for name in ("kitchen.cake", "kitchen.minutes", "kitchen.heat", "kitchen.temperature"):
        assert name in str(caught.value)


def test_a_list_with_a_wrong_item_is_one_mistake() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingConfig.model_validate({"lora_targets": ["W_x"]})
    assert str(caught.value) == (
        "training.lora_targets.0 = 'W_x' is invalid: it should be 'W_q', 'W_k', 'W_v', 'W_o', 'W_1', 'W_2' or "
        "'W_g'.\nMeaning: matrices of the blocks that get an adapter."
    )
    with pytest.raises(ConfigError, match="at least 1 item"):
        TrainingConfig.model_validate({"lora_targets": []})


def test_a_copy_with_changes_is_checked_again() -> None:
    oven = Oven(cake="apple", heat="top")
    other = oven.replace(minutes=10)
    assert (other.minutes, other.heat, oven.minutes) == (10, "top", 30)
    assert other.given() == {"minutes": 10, "heat": "top", "cake": "apple"}
    with pytest.raises(ConfigError, match=r"kitchen.minutes = -1"):
        oven.replace(minutes=-1)


@given(st.text(max_size=12), st.sets(st.text(min_size=1, max_size=8), max_size=100))
def test_a_suggestion_never_fails_and_stays_readable(name: str, known: set[str]) -> None:
    sentence = suggest(name, known)
    assert sentence.endswith(".")
    assert known or sentence == "None is known."
    assert sum(1 for other in known if other in sentence) <= len(known)
    if len(known) <= 60:
        assert all(other in sentence for other in known)
    else:
        assert f"and {len(known) - 12} more" in sentence
