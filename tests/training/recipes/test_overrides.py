"""Overrides of a recipe that is made for files: a recipe leaves, or an error that names the setting."""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_origin

import pytest

from clearhead.config.effects import DECIDED, RULES
from clearhead.config.families import FAMILIES
from clearhead.config.overrides import find_setting, group_of
from clearhead.config.run import RunConfig
from clearhead.config.settings import Settings
from clearhead.errors import ClearheadError, ConfigError
from clearhead.training.recipes.suggest import recipe_for


def names_of(group: type[Settings], inside: str = "") -> Iterator[str]:
    """Every setting that an override can name."""
    for key, field in group.model_fields.items():
        below = group_of(field)
        if below is not None:
            yield from names_of(below, f"{inside}{key}.")
        elif get_origin(field.annotation) is dict:
            yield f"{inside}{key}.some"
        else:
            yield f"{inside}{key}"


NAMES = list(names_of(RunConfig))
HUGE = ("9" * 100_000, "-" + "9" * 100_000, "0x" + "f" * 100_000, "123456789" * 20)
BAD = (
    "abc",
    "",
    "0",
    "-1",
    "64.5",
    "64.0",
    "true",
    "nan",
    "inf",
    "1e400",
    "none",
    "[",
    "[" * 100_000,
    "a,b",
    "{}",
)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    lines = [f"{mood} film number {k},{mood}" for k in range(30) for mood in ("good", "bad")]
    Path("films.csv").write_text("\n".join(["text,label", *lines]))
    return "films.csv"


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_takes_a_value_or_names_itself(name: str, table: str) -> None:
    for text in (*BAD, *HUGE):
        with suppress(ClearheadError):
            made, _ = recipe_for("classify", [table], overrides={name: text})
            assert RunConfig.model_validate(made.model_dump()) == made


@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_does_not_fit_is_refused_by_name(name: str) -> None:
    setting = find_setting(RunConfig, name)
    for text in (*BAD, *HUGE):
        if name not in DECIDED and not setting.takes(setting.convert(text)):
            with pytest.raises(ConfigError) as error:
                RunConfig.overridden({}, {name: text})
            message = str(error.value)
            assert message.startswith(name.removesuffix(".some"))
            assert len(message) < 800


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DECIDED])
def test_no_number_is_without_limit(name: str) -> None:
    setting = find_setting(RunConfig, name)
    if setting.takes("abc") or not setting.takes(7):
        return
    for text in HUGE if not setting.takes(math.pi) else HUGE[:-1]:  # a float represents the last
        with pytest.raises(ConfigError, match=f"^{re.escape(name)}"):
            RunConfig.overridden({}, {name: text})


def test_a_whole_number_may_be_written_as_a_float(table: str) -> None:
    made, _ = recipe_for("classify", [table], overrides={"model.d": "64.0"})
    assert (made.model.d, type(made.model.d)) == (64, int)


@pytest.mark.parametrize("number", ["9" * 100_000, "0x" + "f" * 100_000])
def test_a_recipe_with_a_number_of_100_000_digits_is_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'task = "classify"\n[data]\ntrain = "a.csv"\n[model]\nd = {number}\n')
    with pytest.raises(ConfigError) as error:
        RunConfig.read(path)
    assert len(str(error.value)) < 400 + len(str(path))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("data.train", "b.csv", "--data.train b.csv has no effect: the command already says films.csv."),
        ("task", "translate", "--task translate has no effect: the command already says classify."),
        ("model.classes", "3", "the labels of the data decide it"),
        ("model.decoder_blocks", "3", "Set model.encoder_blocks"),
        ("training.decay", "0.2", "training.schedule is cosine, not stable"),
        ("training.lora_scale", "1.0", "Add --training.lora_rank 8"),
        ("decoding.beam", "2", "a classifier generates no text"),
        ("data.count", "5", "none of the data is a built-in corpus"),
    ],
)
def test_an_override_without_effect_is_refused(name: str, text: str, says: str, table: str) -> None:
    with pytest.raises(ConfigError) as error:
        recipe_for("classify", [table], overrides={name: text})
    assert says in str(error.value)


def test_the_same_overrides_are_refused_beside_a_recipe(table: str) -> None:
    Path("a.toml").write_text(f'task = "classify"\n[data]\ntrain = "{table}"\n[training]\ndecay = 0.3\n')
    assert RunConfig.read("a.toml").training.decay == 0.3  # stated in the recipe itself
    with pytest.raises(ConfigError, match=r"has no effect: training\.schedule is cosine"):
        RunConfig.read("a.toml", {"training.decay": "0.2"})
    stable = RunConfig.read("a.toml", {"training.decay": "0.2", "training.schedule": "stable"})
    assert stable.training.decay == 0.2


def test_every_rule_names_settings_and_can_give_its_reason(table: str) -> None:
    made, _ = recipe_for("classify", [table])
    known = {*NAMES, *(f"model.{key}" for family in FAMILIES.values() for key in family.model_fields)}
    for rule in RULES:
        assert rule.reason.format(run=made)
        for pattern in rule.names:
            stem = pattern.partition("[")[0].rstrip("*")
            assert any(name.startswith(stem) for name in known), pattern
