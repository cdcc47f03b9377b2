"""A whole run: the recipe. TOML and overrides enter, one frozen and checked object leaves, and back.

A recipe is a file, or the name of one that ships with the package. Relative paths of its data are taken from
the recipe's own folder, those of an override or of a shipped recipe from the current one. TOML has no word for
nothing: where a setting may be None, a recipe says "none".
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

import tomli_w
from pydantic import Field, model_validator

from clearhead.config.data import DataConfig, anchor
from clearhead.config.decoding import DecodingConfig
from clearhead.config.model import ModelConfig, Shape
from clearhead.config.overrides import find_setting, group_of, override, parse_overrides, setting_of
from clearhead.config.settings import Settings
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError, suggest

__all__ = ["KINDS", "SHAPES", "RunConfig", "Task", "parse_overrides", "shipped"]

Task = Literal["language-model", "masked-language-model", "translate", "classify"]

# The kind of example that each task learns from.
KINDS: dict[Task, Literal["text", "pair", "labelled"]] = {
    "language-model": "text",
    "masked-language-model": "text",
    "translate": "pair",
    "classify": "labelled",
}
# The shapes of model that can do each task; where a recipe names none, the first.
SHAPES: dict[Task, tuple[Shape, ...]] = {
    "language-model": ("decoder",),
    "masked-language-model": ("encoder",),
    "translate": ("encoder-decoder",),
    "classify": ("encoder", "decoder"),
}
# The settings that hold paths.
PATHS = (("data", "train"), ("data", "validation"), ("data", "test"))
RECIPES = Path(__file__).parent.parent / "recipes"


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    return {path.stem: path for path in sorted(RECIPES.glob("*.toml"))}


class RunConfig(Settings):
    """Everything that a run is: its task, and a group of settings for each part of the work."""

    task: Task = Field(description="what the model learns to do")
    data: DataConfig = Field(description="table of what the model learns from")
    tokenizer: TokenizerConfig = Field(
        default_factory=TokenizerConfig, description="table of how text is cut into tokens"
    )
    model: ModelConfig = Field(default_factory=ModelConfig, description="table of what the model is made of")
    training: TrainingConfig = Field(
        default_factory=TrainingConfig, description="table of how the model learns"
    )
    decoding: DecodingConfig = Field(default_factory=DecodingConfig, description="table of how it writes")

    @classmethod
    def read(cls, recipe: str | Path, overrides: Mapping[str, str] | None = None) -> Self:
        """The run of a recipe (a file, or a name of `shipped()`), changed by overrides such as `model.d`."""
        path = _find(recipe)
        stated = overrides or {}
        try:
            return cls(**cls.overridden(_parse(path, cls), stated))
        except ConfigError as error:
            changes = "".join(f" --{name} {text}" for name, text in stated.items())
            raise ConfigError(f"{path}{' with' if stated else ''}{changes}: {error}") from None

    @classmethod
    def overridden(cls, table: dict[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
        """The tables of a recipe, changed by overrides; their relative paths are taken from the current folder."""
        for name, text in overrides.items():
            setting = find_setting(cls, name)
            value = setting.convert(text)
            override(table, setting, anchor(value, Path.cwd()) if setting.path in PATHS else value)
        return table

    def anchored(self, folder: Path) -> Self:
        """The same run, with the relative paths of its data taken from a folder."""
        stated = self.data.given()
        paths = {key: anchor(stated[key], folder) for _, key in PATHS if key in stated}
        return self.replace(data=self.data.replace(**paths))

    def write(self, path: str | Path, complete: bool = False) -> None:
        """Write the recipe of this run: what was stated, or, when complete, all settings."""
        Path(path).write_text(self.to_toml(complete), encoding="utf-8")

    def to_toml(self, complete: bool = False) -> str:
        """The recipe of this run as text."""
        return tomli_w.dumps(_plain(self, complete))

    @property
    def kind(self) -> Literal["text", "pair", "labelled"]:
        """The kind of example that the task learns from."""
        return KINDS[self.task]

    @model_validator(mode="before")
    @classmethod
    def _begin_with_the_task(cls, values: Any) -> Any:
        """Without its task no other part can be judged; and the task says which shape the model has."""
        if not isinstance(values, dict):
            return values
        task: Any = values.get("task")
        model = values.get("model", {})
        if task not in get_args(Task):
            fault = "must be given" if task is None else f"= {task!r} is none that a model learns"
            raise ConfigError(f"task {fault}. {suggest(str(task), SHAPES)}")
        stated = model if isinstance(model, dict) else model.given() if isinstance(model, ModelConfig) else {}
        shape, shapes = stated.get("shape"), SHAPES[task]
        if shape is None and isinstance(model, dict | ModelConfig):
            return values | {"model": {"shape": shapes[0]} | stated}
        if shape in get_args(Shape) and shape not in shapes:
            raise ConfigError(
                f"task = {task!r} cannot be done by model.shape = {shape!r}.\n"
                f"Use shape = {' or '.join(map(repr, shapes))}, or leave it out."
            )
        return values


def _find(recipe: str | Path) -> Path:
    path = Path(recipe)
    if path.is_file():
        return path
    names = shipped()
    if str(recipe) in names:
        return names[str(recipe)]
    raise ConfigError(
        f"There is no recipe {str(recipe)!r}, neither a file nor a shipped one. {suggest(str(recipe), names)}"
    )


def _parse(path: Path, group: type[Settings]) -> dict[str, Any]:
    """The tables of a recipe, with paths from its folder, and None where it says "none"."""
    folder = Path.cwd() if path.parent == RECIPES else path.parent
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"this is not TOML: {error}.\nText needs quotes, and a table a line [model]."
        ) from None
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror}.") from None
    for section, key in PATHS:
        inner = table.get(section)
        if isinstance(inner, dict) and key in inner:
            inner[key] = anchor(inner[key], folder)
    _read_nones(table, group)
    return table


def _read_nones(table: dict[str, Any], group: type[Settings]) -> None:
    for key, value in table.items():
        field = group.model_fields.get(key)
        below = field and group_of(field)
        if below and isinstance(value, dict):
            _read_nones(value, below)
        elif field and value == "none":
            table[key] = setting_of(key, field).convert(value)


def _plain(settings: Settings, complete: bool) -> dict[str, Any]:
    """Settings as tables of TOML."""
    table: dict[str, Any] = {}
    for key, field in type(settings).model_fields.items():
        value = getattr(settings, key)
        is_default_none = value is None and field.default is None
        if is_default_none or not (complete or key in settings.model_fields_set):
            continue
        if isinstance(value, Settings):
            table[key] = _plain(value, complete)
        else:
            table[key] = "none" if value is None else _lists(value)
    return table


def _lists(value: Any) -> Any:
    """Tuples as lists, all the way down."""
    if isinstance(value, tuple):
        return [_lists(item) for item in value]
    return {key: _lists(item) for key, item in value.items()} if isinstance(value, dict) else value
