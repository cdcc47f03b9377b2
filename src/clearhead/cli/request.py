"""What a `train` command line asks for: arguments enter; a recipe, a run folder and reasons leave."""

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import typer

from clearhead.cli.stages import Stages
from clearhead.config.tasks import TASKS, Task
from clearhead.errors import ConfigError, TrainingError, suggest
from clearhead.training.run.folder import RECIPE, check_free, claimed, holds_run, is_taken

if TYPE_CHECKING:
    from clearhead.config.run import RunConfig

RUNS = Path("runs")
MOST_STARTS = 100  # of runs of one name at the same time
LENGTHS = ("training.epochs", "training.minutes")  # which the plan turned into steps
ALL_LENGTHS = ("training.steps", *LENGTHS)


@dataclass(frozen=True)
class Request:
    """A recipe, its run folder, whether to resume there, and the reasons for what was chosen."""

    config: "RunConfig"
    out: Path
    resume: bool = False
    reasons: list[str] = field(default_factory=list)
    trials: dict[str, Any] | None = None  # the table of what was tried to choose the recipe

    @property
    def is_started(self) -> bool:
        """Whether there is a run to resume."""
        return holds_run(self.out)

    def to_json(self) -> str:
        """The request as text, for other ranks."""
        config = self.config.model_dump(mode="json", exclude_unset=True)
        return json.dumps([config, str(self.out), self.resume, self.reasons, self.trials])

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of `to_json`."""
        from clearhead.config.run import RunConfig

        config, out, resume, reasons, trials = json.loads(text)
        return cls(RunConfig(**config), Path(out), resume, reasons, trials)


def split_arguments(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
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
    words: Sequence[str],
    overrides: dict[str, str],
    out: Path | None,
    resume: bool,
    minutes: float | None,
    claims: ExitStack | None = None,
    trials: int | None = None,
) -> Request:
    """The recipe that is read or chosen, and its run folder, which a new run claims if it gets `claims`.

    What `torchrun` restarts after a failure resumes, as with --resume.
    """
    is_restart = restarted(has_folder=out is not None or resume)
    resume = resume or is_restart
    if not words:
        raise typer.BadParameter("Give a recipe, or a task and files.")
    what, *files = words
    if what in TASKS and not files:
        raise typer.BadParameter(f"train {what} needs files to learn from.")
    recipe = None if what in TASKS else find_recipe(what, files, resume)
    if recipe is not None and recipe.name == RECIPE and resume:
        out = out or recipe.parent
    name = name_of(cast(Task, what), files) if recipe is None else stem_of(recipe)
    place = out or default_folder(name, resume)
    if resume and holds_run(place):
        return resumed(place, overrides, minutes, is_restart)
    check_free(place)
    if claims is not None:
        place = claim(name, place if out or resume else None, claims)
    check_one_length(overrides, minutes)
    if recipe is not None:
        from clearhead.config.run import RunConfig

        if trials:
            raise ConfigError(
                f"--trials {trials} has no effect: {recipe} is the recipe.\nGive a task and files, or omit it."
            )

        return Request(RunConfig.read(recipe, overrides | length_settings(minutes)), place)
    with Stages("Loading PyTorch") as stages:
        from clearhead.training.recipes.trials.choosing import choose_recipe

        stages.show("Reading the data to choose a recipe")
        config, reasons, found = choose_recipe(
            cast(Task, what), files, minutes, overrides, trials, stages.show
        )
    return Request(config, place, False, reasons, found.to_json() if found else None)


def restarted(has_folder: bool) -> bool:
    """Whether `torchrun` has restarted this process; a run that it may restart must name its folder."""
    restarts, most = (
        int(os.environ.get(f"TORCHELASTIC_{name}", "0")) for name in ("RESTART_COUNT", "MAX_RESTARTS")
    )
    if most and not has_folder:
        raise ConfigError(
            f"torchrun --max-restarts {most} restarts the run after a failure, and it then has to find its "
            "folder.\nName it with --out."
        )
    return restarts > 0


def resumed(place: Path, overrides: dict[str, str], minutes: float | None, is_restart: bool) -> Request:
    """The request to resume a run, whose length stays; a restart repeats the command line, so it may name one."""
    from clearhead.config.run import RunConfig

    lengths = [name for name in overrides if name in LENGTHS] + ["minutes"] * (minutes is not None)
    if lengths and not is_restart:
        raise ConfigError(
            f"--{lengths[0]}: a resumed run keeps its number of steps.\nOmit it, or start a new run. A finished run is "
            "extended by the steps that it is to have in all: --training.steps 4000"
        )
    kept = {name: value for name, value in overrides.items() if name not in LENGTHS}
    return Request(RunConfig.read(place / RECIPE, kept), place, True)


def check_one_length(overrides: dict[str, str], minutes: float | None) -> None:
    """Rejects --minutes beside a setting for the length."""
    if minutes is not None and (stated := [name for name in ALL_LENGTHS if name in overrides]):
        raise ConfigError(
            f"--minutes {minutes:g} and --{stated[0]} {overrides[stated[0]]} both say how long to train.\n"
            "Give only one of them."
        )


def length_settings(minutes: float | None) -> dict[str, str]:
    """The settings for this time, in place of the recipe's steps and epochs."""
    if minutes is None:
        return {}
    return {"training.steps": "none", "training.epochs": "none", "training.minutes": str(minutes)}


def find_recipe(what: str, files: Sequence[str], resume: bool) -> Path:
    """The recipe: a file, that of a run folder, or the name of a shipped one."""
    path = Path(what)
    if holds_run(path):
        if resume:
            return path / RECIPE
        raise ConfigError(
            f"{path} already contains a run.\nResume it with --resume, or start a new run of its recipe: "
            f"clearhead train {shlex.quote(str(path / RECIPE))}"
        )
    if files:
        check_task(what, files)
    return path


def check_task(what: str, files: Sequence[str]) -> None:
    """Rejects files after a first word that is no task, with the command that is likely meant."""
    from clearhead.config.run import likely_task, shipped

    path = Path(what)
    if path.suffix == ".toml" or what in shipped():
        raise ConfigError(
            f"A recipe names its own data, but {files[0]!r} follows {what}.\n"
            f"Train other data with its settings: clearhead train {shlex.quote(what)} --data.train "
            f"{shlex.quote(files[0])}"
        )
    if path.exists():
        words = " ".join(map(shlex.quote, (what, *files)))
        raise ConfigError(
            f"{what} is data, not a task.\nSay what to learn: clearhead train {likely_task([what, *files])} {words}"
        )
    raise ConfigError(f"{what!r} is not a task. {suggest(what, TASKS)}")


def stem_of(recipe: Path) -> str:
    """The name of a recipe's run."""
    return recipe.absolute().parent.name if recipe.name == RECIPE else recipe.stem


def name_of(task: Task, files: Sequence[str]) -> str:
    """The name of a run on files: the first file, and the task."""
    first = files[0].rpartition("=")[2].removeprefix("builtin:").removeprefix("hub:")
    stem = re.sub(r"[^\w-]+", "-", Path(first).name.split(".")[0]).strip("-")
    return f"{stem or 'text'}-{TASKS[task].slug}"


def claim(name: str, place: Path | None, claims: ExitStack) -> Path:
    """Claims a folder, by default the first free one of this name, against runs that start at the same time."""
    for skip in range(MOST_STARTS):
        folder = place or default_folder(name, False, skip)
        try:
            claims.enter_context(claimed(folder))
        except TrainingError:
            if place is not None:
                raise
        else:
            return folder
    raise TrainingError(f"Many runs named {name} are starting.\nName a folder with --out.")


def default_folder(name: str, resume: bool, skip: int = 0) -> Path:
    """runs/NAME, with a number if that exists; to resume, the latest of them; `skip` passes over free ones."""
    first = RUNS / name
    folders = [first, *(RUNS / f"{name}-{number}" for number in range(2, 10_000))]
    taken = [folder for folder in folders if is_taken(folder)] if RUNS.is_dir() else []
    if resume:
        return taken[-1] if taken else first
    return next(islice((folder for folder in folders if folder not in taken), skip, None))
