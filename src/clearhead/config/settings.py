"""What all settings have in common: frozen, checked when built, unknown keys refused with the nearest name.

A group of settings enters as keywords, a TOML table or a JSON object, and leaves as one frozen object;
whatever cannot work leaves as a `ConfigError` that names the setting as the user wrote it (`model.d`).
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails

from clearhead.errors import ConfigError, suggest


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
        return f"{cls.section}.{key}" if cls.section else key

    def replace(self, **changes: Any) -> Self:
        """A copy with some settings changed, checked again as a whole."""
        return type(self)(**(self.given() | changes))

    def given(self) -> dict[str, Any]:
        """The settings that were stated, without those left to their defaults."""
        return {key: getattr(self, key) for key in type(self).model_fields if key in self.model_fields_set}

    def changes(self, before: Self) -> Iterator[str]:
        """What of these settings was another before, a line each."""
        for key in type(self).model_fields:
            now, then = getattr(self, key), getattr(before, key)
            if isinstance(now, Settings):
                yield from now.changes(then)
            elif now != then:
                yield f"{self.name(key)} = {now!r}, which was {then!r}"

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(values)
        except ValidationError as error:
            faults = error.errors()
            inner = {detail["loc"][:length] for detail in faults for length in range(len(detail["loc"]))}
            # A list with a wrong item is not also wrong by itself, such as too short without it.
            told = [detail for detail in faults if detail["loc"] not in inner]
            raise ConfigError("\n".join(map(cls._sentence, told))) from None

    @classmethod
    def _sentence(cls, detail: ErrorDetails) -> str:
        key = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            return f"{cls.name(key)} is not a setting. {suggest(key, cls.model_fields)}"
        if detail["type"] == "missing":
            return f"{cls.name(key)} must be given: {cls.model_fields[key].description}."
        field = cls.model_fields.get(str(detail["loc"][0])) if detail["loc"] else None
        meaning = f"\nIts meaning: {field.description}." if field and field.description else ""
        reason = detail["msg"].removeprefix("Value error, ")
        reason = reason.replace("Input should", "it should").replace("String should", "it should")
        return f"{cls.name(key)} = {detail['input']!r} cannot be used: {reason}.{meaning}"
