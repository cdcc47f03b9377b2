"""What a `train` command line asks for: words and settings enter; a recipe, a folder and reasons leave."""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, get_args

import typer

from clearhead.errors import ConfigError
from clearhead.training.place import RECIPE, check_free, holds_run, is_taken

if TYPE_CHECKING:
    from clearhead.config.run import RunConfig

RUNS = Path("runs")
LENGTHS = ("training.epochs", "training.minutes")  # which the plan has made steps of
ALL_LENGTHS = ("training.steps", *LENGTHS)
# What a run is called after where its recipe is made for files.
WHATS = {"translate": "translator", "classify": "classifier"}


@dataclass(frozen=True)
class Request:
    """A recipe, the folder to write to, whether it goes on there, and the reasons for what was chosen."""

    config: "RunConfig"
    out: Path
    resume: bool = False
    reasons: list[str] = field(default_factory=list)

    @property
    def is_begun(self) -> bool:
        """Whether there is a run to go on with."""
        return holds_run(self.out)

    def to_json(self) -> str:
        """The request as a text, for other processes."""
        config = self.config.model_dump(mode="json", exclude_unset=True)
        return json.dumps([config, str(self.out), self.resume, self.reasons])

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of `to_json`."""
        from clearhead.config.run import RunConfig

        config, out, resume, reasons = json.loads(text)
        return cls(RunConfig(**config), Path(out), resume, reasons)


def parted(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Words and settings of a command line, in any order: `book.txt --model.d 64` or `--model.d=64 book.txt`."""
    from clearhead.config.overrides import parse_overrides

    words: list[str] = []
    settings: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            words.append(argument)
        else:
            has_value = "=" in argument
            settings += (
                [argument] if has_value else [argument, *(value for value in [next(rest, None)] if value)]
            )
    return words, parse_overrides(settings)


def find_request(
    words: Sequence[str], overrides: dict[str, str], out: Path | None, resume: bool, minutes: float | None
) -> Request:
    """The recipe that is read or made, and the folder that it writes to.

    What `torchrun` starts anew after a failure goes on, as with --resume.
    """
    from clearhead.config.run import RunConfig, Task

    restarts, most_restarts = (
        int(os.environ.get(f"TORCHELASTIC_{name}", "0")) for name in ("RESTART_COUNT", "MAX_RESTARTS")
    )
    if most_restarts and out is None and not resume:
        raise ConfigError(
            f"torchrun --max-restarts {most_restarts} starts a run anew after a failure, which then has to find its "
            "folder.\nName it with --out."
        )
    resume = resume or restarts > 0
    if not words:
        raise typer.BadParameter("Give a recipe, or a task and files.")
    what, *files = words
    is_task = what in get_args(Task)
    if is_task and not files:
        raise typer.BadParameter(f"train {what} needs files to learn from.")
    recipe = None if is_task else find_recipe(what, files, resume)
    if recipe is not None and recipe.name == RECIPE and resume:
        out = out or recipe.parent
    place = out or default_folder(name_of(what, files) if recipe is None else stem_of(recipe), resume)
    if resume and holds_run(place):
        lengths = [name for name in overrides if name in LENGTHS] + ["minutes"] * (minutes is not None)
        if lengths and not restarts:
            raise ConfigError(
                f"--{lengths[0]}: a run that goes on keeps its number of steps.\nLeave it out, or begin anew."
            )
        kept = {name: value for name, value in overrides.items() if name not in LENGTHS}
        return Request(RunConfig.read(place / RECIPE, kept), place, True)
    check_free(place)
    if minutes is not None and (stated := [name for name in ALL_LENGTHS if name in overrides]):
        raise ConfigError(
            f"--minutes {minutes:g} and --{stated[0]} {overrides[stated[0]]} both say how long to train.\n"
            "Give one of them."
        )
    if recipe is not None:
        return Request(RunConfig.read(recipe, overrides | lasting(minutes)), place)
    from clearhead.training.recipe_for import recipe_for

    config, reasons = recipe_for(what, files, minutes, overrides)  # type: ignore[arg-type]
    return Request(config, place, False, reasons)


def lasting(minutes: float | None) -> dict[str, str]:
    """The settings that mean this time, whatever a recipe says of steps and epochs."""
    if minutes is None:
        return {}
    return {"training.steps": "none", "training.epochs": "none", "training.minutes": str(minutes)}


def find_recipe(what: str, files: Sequence[str], resume: bool) -> Path:
    """The recipe that is meant: a file, the recipe of a run folder, or the name of a shipped one."""
    path = Path(what)
    if holds_run(path):
        if resume:
            return path / RECIPE
        raise ConfigError(
            f"{path} is a run already.\nGo on with it with --resume, or train its recipe anew: "
            f"clearhead train {path / RECIPE}."
        )
    if path.is_file() and path.suffix != ".toml":
        raise ConfigError(
            f"{what} is not a recipe.\nSay what to learn from it: clearhead train language-model {what}, "
            "or translate, classify, masked-language-model."
        )
    if files:
        raise ConfigError(
            f"train {what} takes one recipe, and {files[0]!r} is left over.\n"
            "For files, begin with a task: clearhead train language-model FILES..."
        )
    return path


def stem_of(recipe: Path) -> str:
    """What the run of a recipe is called."""
    return recipe.absolute().parent.name if recipe.name == RECIPE else recipe.stem


def name_of(task: str, files: Sequence[str]) -> str:
    """What the run of a task on files is called: after the first file, and the task."""
    first = files[0].rpartition("=")[2].removeprefix("builtin:").removeprefix("hub:")
    stem = re.sub(r"[^\w-]+", "-", Path(first).name.split(".")[0]).strip("-")
    return f"{stem or 'text'}-{WHATS.get(task, task)}"


def default_folder(name: str, resume: bool) -> Path:
    """runs/NAME, with a number where that is taken; to go on, the newest of them."""
    first = RUNS / name
    folders = [first, *(RUNS / f"{name}-{number}" for number in range(2, 10_000))]
    taken = [folder for folder in folders if is_taken(folder)] if RUNS.is_dir() else []
    if resume:
        return taken[-1] if taken else first
    return next(folder for folder in folders if folder not in taken)
