"""The recipe of a whole run: TOML and overrides enter, one frozen and validated object leaves; and back.

A recipe is a file, or the name of a shipped one. Relative paths of its data are resolved against the recipe's own
folder, those of an override or of a shipped recipe against the current folder. TOML has no null: where a setting may
be None, a recipe says "none".
"""

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, get_args

import tomli_w
from pydantic import Field, model_validator

from clearhead.config.data import DataConfig, anchor
from clearhead.config.decoding import DecodingConfig
from clearhead.config.effects import check_decided, check_effects
from clearhead.config.families import ModelSettings
from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig, Shape
from clearhead.config.overrides import find_setting, group_of, override, parse_overrides, setting_of
from clearhead.config.settings import Settings, truncated
from clearhead.config.tasks import TASKS, ExampleKind, Task, TaskRow
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError, suggest

__all__ = ["RunConfig", "parse_overrides", "shipped"]

# The settings that contain paths.
PATHS = (("data", "train"), ("data", "validation"), ("data", "test"), ("data", "unlabelled"))
TABLES = {".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx", ".conll", ".conllu"}
RECIPES = Path(__file__).parent.parent / "recipes"


def shipped() -> dict[str, Path]:
    """The shipped recipes, by name."""
    return {path.stem: path for path in sorted(RECIPES.glob("*.toml"))}


class RunConfig(Settings):
    """Everything about a run: its task, and a group of settings for each part of the work."""

    task: Task = Field(description="what the model learns to do")
    data: DataConfig = Field(description="table of the data to learn from")
    tokenizer: TokenizerConfig = Field(
        default_factory=TokenizerConfig, description="table of how text is split into tokens"
    )
    model: ModelSettings = Field(default_factory=ModelConfig, description="table of the model's architecture")
    training: TrainingConfig = Field(
        default_factory=TrainingConfig, description="table of how the model is trained"
    )
    decoding: DecodingConfig = Field(
        default_factory=DecodingConfig, description="table of how text is generated"
    )

    @classmethod
    def read(cls, recipe: str | Path, overrides: Mapping[str, str] | None = None) -> Self:
        """The run of a recipe (a file, or a name in `shipped()`), with overrides such as `model.d`."""
        path = _find(recipe)
        stated = overrides or {}
        try:
            run = cls(**cls.overridden(_parse(path, cls), stated))
            check_effects(run, stated)
        except ConfigError as error:
            changes = "".join(f" --{name} {truncated(text)}" for name, text in stated.items())
            raise ConfigError(f"{path}{' with' if stated else ''}{changes}: {error}") from None
        return run

    @classmethod
    def overridden(cls, table: dict[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
        """The tables of a recipe with overrides, whose relative paths are resolved against the current folder."""
        for name, text in sorted(overrides.items(), key=lambda item: item[0] != "model.family"):
            setting = find_setting(cls, name, stated=table)  # the family says which others there are
            check_decided(name)
            value = setting.read(text)
            override(table, setting, anchor(value, Path.cwd()) if setting.path in PATHS else value)
        return table

    def anchored(self, folder: Path) -> Self:
        """The same run, with the relative paths of its data resolved against a folder."""
        stated = self.data.given()
        paths = {key: anchor(stated[key], folder) for _, key in PATHS if key in stated}
        return self.replace(data=self.data.replace(**paths))

    def write(self, path: str | Path, complete: bool = False) -> None:
        """Writes the recipe of this run: what was stated or, if complete, all settings."""
        Path(path).write_text(self.to_toml(complete), encoding="utf-8")

    def to_toml(self, complete: bool = False) -> str:
        """The recipe of this run as text."""
        return tomli_w.dumps(_tables(self, complete))

    @property
    def task_row(self) -> TaskRow:
        """What is particular to the task."""
        return TASKS[self.task].labelling(self.data.labels, self.data.texts)

    @property
    def kind(self) -> ExampleKind:
        """The kind of example that the task learns from."""
        return self.task_row.kind

    @model_validator(mode="before")
    @classmethod
    def _check_task_first(cls, values: Any) -> Any:
        """No other part can be validated without the task, which also decides the default shape of the model."""
        if not isinstance(values, dict):
            return values
        task: Any = values.get("task")
        model = values.get("model", {})
        if task not in list(TASKS):  # which need not be hashable
            fault = "is required" if task is None else f"= {task!r} is unknown"
            raise ConfigError(f"task {fault}. {suggest(str(task), TASKS)}")
        stated = (
            model if isinstance(model, dict) else model.given() if isinstance(model, AnyModelConfig) else {}
        )
        shape, shapes = stated.get("shape"), TASKS[task].shapes
        if shape is None and isinstance(model, dict | AnyModelConfig):
            family = {"family": model.family} if isinstance(model, AnyModelConfig) else {}
            return values | {"model": {"shape": shapes[0]} | family | stated}
        if shape in get_args(Shape) and shape not in shapes:
            raise ConfigError(
                f"task = {task!r} is not possible with model.shape = {shape!r}.\n"
                f"Use shape = {' or '.join(map(repr, shapes))}, or omit it."
            )
        return values


def likely_task(files: Sequence[str | Path]) -> Task:
    """The task that files are likely meant for, by their number and extensions; a guess for messages."""
    endings = {suffix for file in files for suffix in Path(file).suffixes}
    if endings & TABLES:
        return "classify"
    return "translate" if len(files) == 2 or ".po" in endings else "language-model"


def check_recipe_file(path: Path) -> None:
    """Rejects a folder or a data file in the place of a recipe, with the command that is likely meant."""
    command = f"clearhead train {likely_task([path])} {shlex.quote(str(path))}"
    if path.is_dir():
        raise ConfigError(f"{path} is a folder.\nSay what to learn: {command}")
    if path.is_file() and path.suffix != ".toml":
        raise ConfigError(f"{path} is data, not a recipe.\nTry: {command} --plan")


def _find(recipe: str | Path) -> Path:
    path = Path(recipe)
    if str(recipe) not in shipped():
        check_recipe_file(path)
    if path.is_file():
        return path
    names = shipped()
    if str(recipe) in names:
        return names[str(recipe)]
    raise ConfigError(
        f"There is no recipe {str(recipe)!r}, neither a file nor a shipped one. {suggest(str(recipe), names)}"
    )


def _parse(path: Path, group: type[Settings]) -> dict[str, Any]:
    """The tables of a recipe, with paths resolved against its folder, and None where it says "none"."""
    folder = Path.cwd() if path.parent == RECIPES else path.parent
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # the first also for an integer of thousands of digits
        raise ConfigError(
            f"invalid TOML: {error}.\nQuote strings, and start each table with a line such as [model]."
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}.") from None
    for section, key in PATHS:
        inner = table.get(section)
        if isinstance(inner, dict) and key in inner:
            inner[key] = anchor(inner[key], folder)
    _read_nones(table, group)
    return table


def _read_nones(table: dict[str, Any], group: type[Settings]) -> None:
    for key, value in table.items():
        field = group.model_fields.get(key)
        below = field and group_of(field, value if isinstance(value, dict) else {})
        if below and isinstance(value, dict):
            _read_nones(value, below)
        elif field and value == "none":
            table[key] = setting_of(group, key).convert(value)


def _tables(settings: Settings, complete: bool) -> dict[str, Any]:
    """Settings as TOML tables."""
    table: dict[str, Any] = {}
    for key, field in type(settings).model_fields.items():
        value = getattr(settings, key)
        is_default_none = value is None and field.default is None
        if is_default_none or not (complete or key in settings.model_fields_set):
            continue
        if isinstance(value, Settings):
            table[key] = _tables(value, complete)
        else:
            table[key] = "none" if value is None else _lists(value)
    return table


def _lists(value: Any) -> Any:
    """Tuples as lists, recursively."""
    if isinstance(value, tuple):
        return [_lists(item) for item in value]
    return {key: _lists(item) for key, item in value.items()} if isinstance(value, dict) else value
