"""What all settings have in common: frozen, validated when built, unknown keys rejected with the nearest name.

A group of settings enters as keywords, a TOML table or a JSON object, and leaves as one frozen object; whatever
cannot work leaves as a `ConfigError` that names the setting as the user wrote it (`model.d`).
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from clearhead.errors import ConfigError, suggest

FINITE = ConfigDict(allow_inf_nan=False)
LONGEST_SHOWN = 80  # characters of a value in a message


def brief(value: Any) -> str:
    """A value as a message shows it, truncated."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        return "a number of thousands of digits"
    return truncated(text)


def truncated(text: str) -> str:
    """A text as a message shows it."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def listed(value: Any) -> Any:
    """One text or number as a list of one, for settings that take several."""
    return (value,) if isinstance(value, str | int) else value


class Settings(BaseModel):
    """A frozen group of settings; `section` is its table's name in a recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, allow_inf_nan=False)
    section: ClassVar[str] = ""

    @classmethod
    def name(cls, key: str) -> str:
        """A setting's full name, as in a recipe: `model.d`."""
        return ".".join(part for part in (cls.section, key) if part)

    @classmethod
    def elsewhere(cls, key: str) -> str | None:
        """Says where a setting belongs that this group does not have, if that is known."""
        return None

    def replace(self, **changes: Any) -> Self:
        """A copy with some settings changed, validated again as a whole."""
        return type(self)(**(self.given() | changes))

    def given(self) -> dict[str, Any]:
        """The settings that were stated, without the defaults."""
        return {key: getattr(self, key) for key in type(self).model_fields if key in self.model_fields_set}

    def changes(self, before: Self) -> Iterator[str]:
        """The settings that have changed, a line each."""
        for key in type(self).model_fields:
            now, then = getattr(self, key), getattr(before, key, None)  # another family has other settings
            if isinstance(now, Settings) and isinstance(then, Settings):
                yield from now.changes(then)
            elif now != then:
                yield f"{self.name(key)} = {now!r} (was {then!r})"

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(values)
        except ValidationError as error:
            faults = error.errors()
            inner = {detail["loc"][:length] for detail in faults for length in range(len(detail["loc"]))}
            # A list with an invalid item is not itself invalid, such as too short without it.
            innermost = [detail for detail in faults if detail["loc"] not in inner]
            raise ConfigError("\n".join(map(cls._sentence, innermost))) from None

    @classmethod
    def check_value(cls, key: str, kind: Any, value: Any) -> Any:
        """A value as the setting of this name has it; an error that names the setting if it cannot be one."""
        try:
            return TypeAdapter(kind, config=FINITE).validate_python(value)
        except ValidationError as error:
            details = [detail | {"loc": (key, *detail["loc"])} for detail in error.errors()]
            raise ConfigError(cls._sentence(details[0])) from None

    @classmethod
    def _sentence(cls, detail: ErrorDetails) -> str:
        key = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            return cls.elsewhere(key) or f"{cls.name(key)} is not a setting. {suggest(key, cls.model_fields)}"
        if detail["type"] == "missing":
            return f"{cls.name(key)} is required: {cls.model_fields[key].description}."
        field = cls.model_fields.get(str(detail["loc"][0])) if detail["loc"] else None
        meaning = f"\nMeaning: {field.description}." if field and field.description else ""
        reason = detail["msg"].removeprefix("Value error, ")
        reason = re.sub("^(Input|String|List|Tuple|Dictionary) should", "it should", reason)
        reason = reason.replace("Unable to parse input string as an integer, exceeded", "it exceeds the")
        return f"{cls.name(key)} = {brief(detail['input'])} is invalid: {reason}.{meaning}"
