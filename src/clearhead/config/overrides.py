"""Settings from the command line: `--model.d 256` enters, a value of the setting's own type leaves.

A value is read as TOML if that gives what the setting accepts (`256`, `3e-4`, `true`, `["a.es", "a.en"]`), else as
a string (`layer`, `book.txt`). Lists may be written with commas alone, and None as `none`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from clearhead.config.families import family_of
from clearhead.config.settings import FINITE, Settings
from clearhead.errors import ConfigError, suggest

LONGEST_TEXT = 4096  # characters, as of a path


def parse_overrides(arguments: Sequence[str]) -> dict[str, str]:
    """Settings and their values from `--model.d 256` or `--model.d=256`; the last of several counts."""
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
        found[name.replace("-", "_")] = value  # as in recipes, where names have no dashes
    return found


@dataclass(frozen=True)
class Setting:
    """A setting of a run: its place in the tables of a recipe, and its type."""

    path: tuple[str, ...]
    type: Any
    group: type[Settings]

    def read(self, text: str) -> Any:
        """The value that a string means for this setting; an error that names the setting if it means none."""
        value = self.convert(text)
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise ConfigError(
                f"{'.'.join(self.path)} is a text of {len(value):,} characters; at most {LONGEST_TEXT:,} are possible."
            )
        checked = self.group.check_value(".".join(self.path[-self.depth :]), self.type, value)
        return checked if isinstance(checked, int | float | str) else value

    @property
    def depth(self) -> int:
        """How many of the path's keys are inside the group."""
        return len(self.path) - len(self.group.section.split(".") if self.group.section else [])

    def convert(self, text: str) -> Any:
        """The value that a string means for this setting; one that fits no type is left to validation."""
        candidates = list(_readings(text, self.type))
        for candidate in candidates:
            if self.takes(candidate):
                return candidate
        return None if text == "none" and self.takes(None) else candidates[0]

    def takes(self, value: Any) -> bool:
        """Whether a value has the setting's type and is within its bounds."""
        try:
            TypeAdapter(self.type, config=FINITE).validate_python(value)
        except (ValidationError, ConfigError):
            return False
        return True


def find_setting(
    group: type[Settings], name: str, inside: str = "", stated: Mapping[str, Any] | None = None
) -> Setting:
    """The setting with a dotted name, such as `model.d` or `data.options.direction`.

    `stated` are the tables so far, which may name the family of the model.
    """
    key, _, inner = name.partition(".")
    field = group.model_fields.get(key)
    if field is None:
        unknown = f"{inside}{name} is not a setting. {similar_settings(group, key, inside)}"
        raise ConfigError(group.elsewhere(key) or unknown)
    table = (stated or {}).get(key)
    below = group_of(field, table if isinstance(table, Mapping) else {})
    if inner and below:
        found = find_setting(below, inner, f"{inside}{key}.")
        return replace(found, path=(key, *found.path))
    if inner and get_origin(field.annotation) is dict:
        return Setting((key, inner), get_args(field.annotation)[1], group)
    if inner:
        raise ConfigError(f"{inside}{name} is not a setting: {inside}{key} has no settings of its own.")
    if below and not inside:
        known = [f"{key}.{other}" for other in below.model_fields]
        raise ConfigError(f"{key} is a table of settings. Give one of them: {', '.join(known)}.")
    return setting_of(group, key)


def similar_settings(group: type[Settings], key: str, inside: str) -> str:
    """What may have been meant by an unknown name: the same name in some table, or a similar one in this table."""
    tables = {name: below for name, field in group.model_fields.items() if (below := group_of(field))}
    same = [f"{name}.{key}" for name, below in tables.items() if key in below.model_fields]
    if same and not inside:
        return f"Did you mean {' or '.join(same)}?"
    return suggest(inside + key, [inside + other for other in group.model_fields])


def setting_of(group: type[Settings], key: str) -> Setting:
    """A field of a group as a setting."""
    field = group.model_fields[key]
    kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return Setting((key,), kind, group)


def override(table: dict[str, Any], setting: Setting, value: Any) -> None:
    """Puts a value in its place in the tables of a recipe."""
    for key in setting.path[:-1]:
        inner = table.get(key)
        table[key] = dict(inner) if isinstance(inner, Mapping) else {}
        table = table[key]
    table[setting.path[-1]] = value


def group_of(field: FieldInfo, stated: Mapping[str, Any] | None = None) -> type[Settings] | None:
    """The group of settings that a field contains, if any; of several that of the family that is stated."""
    groups = groups_of(field)
    return family_of(stated or {}) if len(groups) > 1 else next(iter(groups), None)


def groups_of(field: FieldInfo) -> list[type[Settings]]:
    """The groups of settings that a field may contain: one, or one for each family of models."""
    kinds = [field.annotation, *get_args(field.annotation)]
    bare = [get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in kinds]
    return [kind for kind in bare if isinstance(kind, type) and issubclass(kind, Settings)]


def _readings(text: str, kind: Any) -> Iterator[Any]:
    """What a string can mean: TOML, a list without brackets, itself; if a list is asked for, only that."""
    with suppress(ValueError, RecursionError):  # the first also for an integer of thousands of digits
        value = tomllib.loads(f"value = {text}")["value"]
        yield value
        if isinstance(value, list) and _is_list(kind):
            return
    if "," in text and _is_list(kind):
        yield [next(_readings(part.strip(), str)) for part in text.split(",")]
    yield text


def _is_list(kind: Any) -> bool:
    """Whether a setting accepts a list but no string, so that a comma can only separate items."""
    if get_origin(kind) is Annotated:
        return _is_list(get_args(kind)[0])
    choices = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return str not in choices and any(get_origin(choice) is tuple for choice in choices)
