"""Settings that are chosen, each with its reason: what the user stated enters; a recipe and its reasons leave."""

from typing import Any

from clearhead.config.families import family_of


class Choices:
    """Settings that are chosen, each with its reason; those that the user has stated are kept."""

    def __init__(self, stated: dict[str, Any]) -> None:
        self.table = {section: dict(values) for section, values in stated.items() if isinstance(values, dict)}
        self.reasons: list[str] = []

    def get(self, name: str) -> Any:
        """A setting that was stated or chosen."""
        section, key = name.split(".")
        return self.table.get(section, {}).get(key)

    def has(self, name: str) -> bool:
        """Whether a setting was stated or chosen, also if it is None."""
        section, key = name.split(".")
        return key in self.table.get(section, {})

    def exists(self, name: str) -> bool:
        """Whether the family of the model has such a setting; the other sections have all that is chosen."""
        section, key = name.split(".")
        return section != "model" or key in family_of(self.table.get("model", {})).model_fields

    def choose(self, reason: str, **settings: Any) -> None:
        """Chooses some settings for one reason: `model__d=64`."""
        new = {name.replace("__", "."): value for name, value in settings.items()}
        new = {name: value for name, value in new.items() if self.exists(name) and not self.has(name)}
        for name, value in new.items():
            section, key = name.split(".")
            self.table.setdefault(section, {})[key] = value
        if new:
            settings_text = ", ".join(f"{name} = {format_choice(value)}" for name, value in new.items())
            self.reasons.append(f"{settings_text}: {reason}")


def format_choice(value: Any) -> str:
    """A value as the line of its reason shows it."""
    if isinstance(value, list):
        return ", ".join(map(format_choice, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
