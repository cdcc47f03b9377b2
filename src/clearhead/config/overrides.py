"""Settings from the command line: `--model.d 256` enters, a value of the setting's own type leaves.

A value is read as TOML where that gives what the setting takes (`256`, `3e-4`, `true`, `["a.es", "a.en"]`),
else as the text that it is (`layer`, `book.txt`). Lists may be written with commas alone, and nothing as
`none`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from clearhead.config.settings import Settings
from clearhead.errors import ConfigError, suggest


def parse_overrides(arguments: Sequence[str]) -> dict[str, str]:
    """Settings and their values from `--model.d 256` or `--model.d=256`; of two, the last counts."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, has_value, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not name:
            raise ConfigError(
                f"{argument!r} is not a setting.\nWrite settings as --model.d 256 or --model.d=256."
            )
        if not has_value:
            value = next(rest, "--")
        if not has_value and value.startswith("--"):
            raise ConfigError(f"--{name} has no value.\nWrite --{name} VALUE, such as --model.d 256.")
        found[name] = value
    return found


@dataclass(frozen=True)
class Setting:
    """A setting of a run: where it stands in the tables of a recipe, and what it may be."""

    path: tuple[str, ...]
    type: Any

    def convert(self, text: str) -> Any:
        """The value that a text means for this setting; what fits nothing is left for the checks."""
        candidates = list(_readings(text, self.type))
        for candidate in candidates:
            if self.takes(candidate):
                return candidate
        return None if text == "none" and self.takes(None) else candidates[0]

    def takes(self, value: Any) -> bool:
        """Whether a value is of the setting's type and within its bounds."""
        try:
            TypeAdapter(self.type).validate_python(value)
        except (ValidationError, ConfigError):
            return False
        return True


def find_setting(group: type[Settings], name: str, inside: str = "") -> Setting:
    """The setting with a dotted name, such as `model.d` or `data.options.direction`."""
    key, _, inner = name.partition(".")
    field = group.model_fields.get(key)
    if field is None:
        known = [inside + other for other in group.model_fields]
        raise ConfigError(f"{inside}{name} is not a setting. {suggest(inside + key, known)}")
    below = group_of(field)
    if inner and below:
        found = find_setting(below, inner, f"{inside}{key}.")
        return Setting((key, *found.path), found.type)
    if inner and get_origin(field.annotation) is dict:
        return Setting((key, inner), get_args(field.annotation)[1])
    if inner:
        raise ConfigError(f"{inside}{name} is not a setting: {inside}{key} has no parts.")
    if below and not inside:
        known = [f"{key}.{other}" for other in below.model_fields]
        raise ConfigError(f"{key} is a table of settings. Give one of them: {', '.join(known)}.")
    return setting_of(key, field)


def setting_of(key: str, field: FieldInfo) -> Setting:
    """A field of a group as a setting."""
    return Setting(
        (key,), Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    )


def override(table: dict[str, Any], setting: Setting, value: Any) -> None:
    """Put a value where it stands in the tables of a recipe."""
    for key in setting.path[:-1]:
        inner = table.get(key)
        table[key] = dict(inner) if isinstance(inner, Mapping) else {}
        table = table[key]
    table[setting.path[-1]] = value


def group_of(field: FieldInfo) -> type[Settings] | None:
    """The group of settings that a field holds, if it holds one."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, Settings):
            return kind
    return None


def _readings(text: str, kind: Any) -> Iterator[Any]:
    """What a text can mean: TOML, a list without brackets, itself; a list that a setting asks for is only that."""
    with suppress(tomllib.TOMLDecodeError):
        value = tomllib.loads(f"value = {text}")["value"]
        yield value
        if isinstance(value, list) and _is_list(kind):
            return
    if "," in text and _is_list(kind):
        yield [next(_readings(part.strip(), str)) for part in text.split(",")]
    yield text


def _is_list(kind: Any) -> bool:
    """Whether a setting takes a list and no text, so that a comma can only part its items."""
    if get_origin(kind) is Annotated:
        return _is_list(get_args(kind)[0])
    choices = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return str not in choices and any(get_origin(choice) is tuple for choice in choices)
