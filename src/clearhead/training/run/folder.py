"""The run folder: the names of its files, whether a folder is free for a run, and what is written besides models.

runs/NAME/recipe.toml     the recipe, in steps even where it was given in epochs or minutes
runs/NAME/log.jsonl       one record per line
runs/NAME/checkpoints/    what --resume reads
runs/NAME/best/, last/    model folders
runs/NAME/models/         the weights after some steps, which `clearhead explore` scrubs through, if any are kept
runs/NAME/trials.json     the recipes that were tried before one was chosen, if any
runs/NAME/quality.json    the scores of the best model on held-out data
runs/NAME/report.html     curves, samples, attention, data, settings; rewritten at each evaluation
runs/NAME/tensorboard/    events, if TensorBoard is installed
"""

import json
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from clearhead.config.run import RunConfig
from clearhead.errors import ConfigError, TrainingError
from clearhead.storage import is_unfinished, locked, recover, write_atomically

RECIPE, LOG, CHECKPOINTS, QUALITY = "recipe.toml", "log.jsonl", "checkpoints", "quality.json"
TRIALS = "trials.json"
LOCK = ".lock"  # of the process that trains there; a killed one leaves it
CLAIM = ".claim"  # of the process that prepares a run there
TRIAL = ".clearhead-"  # prefix of the folders that are written to measure the speed of the disk


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The recipe of the run."""
        return self.path / RECIPE

    @property
    def log(self) -> Path:
        """The records of the run."""
        return self.path / LOG

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def best(self) -> Path:
        """The model folder of the best evaluation."""
        return self.path / "best"

    @property
    def last(self) -> Path:
        """The model folder of the last step."""
        return self.path / "last"

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard events."""
        return self.path / "tensorboard"

    def prepare(self) -> None:
        """Creates the folder of checkpoints, and repairs what a killed process left half-written."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        for place in (self.checkpoints, self.path, self.best, self.last):
            recover(place)

    def write_recipe(self, config: RunConfig, notes: Iterable[str]) -> None:
        """Writes the recipe, below comments that give the reasons."""
        comments = "".join(f"# {line}\n" for note in notes for line in note.splitlines())
        write_atomically(self.recipe, f"{comments}{config.to_toml()}")

    def read_notes(self) -> list[str]:
        """The comments at the top of the recipe."""
        lines = self.recipe.read_text(encoding="utf-8-sig").splitlines()
        comments = takewhile(lambda line: line.startswith("#"), lines)
        return [line.removeprefix("#").strip() for line in comments]

    def write_trials(self, trials: dict[str, Any]) -> None:
        """Writes the table of trials."""
        write_atomically(self.path / TRIALS, json.dumps(trials, ensure_ascii=False, indent=2))

    def read_trials(self) -> dict[str, Any] | None:
        """The table of trials; None if there were none, or the file is damaged."""
        try:
            found = json.loads((self.path / TRIALS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and "candidates" in found else None

    def write_quality(self, quality: dict[str, Any]) -> None:
        """Writes the scores of the best model."""
        write_atomically(self.path / QUALITY, json.dumps(quality, ensure_ascii=False))


def holds_run(folder: Path) -> bool:
    """Whether a run has been started in a folder."""
    return (folder / RECIPE).is_file()


def is_taken(folder: Path) -> bool:
    """Whether a path already exists; leftovers of a run that was killed as it started do not count."""
    if not folder.is_dir():
        return folder.exists() or folder.is_symlink()
    return not all(
        is_unfinished(path, RECIPE) or path.name.startswith(TRIAL) or path.name in (LOCK, CLAIM)
        for path in folder.iterdir()
    )


def check_free(folder: Path) -> None:
    """Rejects a path that already exists: a run is never overwritten."""
    file = next((place for place in (folder, *folder.parents) if place.is_file()), None)
    if file is not None:
        raise ConfigError(
            f"{file} is a file, so the run folder cannot be created there.\nName a folder with --out."
        )
    if holds_run(folder):
        raise ConfigError(
            f"{folder} already contains a run and will not be overwritten.\n"
            f"Resume it: clearhead train {shlex.quote(str(folder))} --resume (in Python resume=True). "
            "Or name another --out."
        )
    if is_taken(folder):
        raise ConfigError(f"{folder} is not an empty folder.\nName another --out, or empty it first.")


def create_folder(folder: Path) -> None:
    """Creates a run folder, or says where else it could be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(
            f"{folder} cannot be created: {error.strerror}.\nChoose a writable folder with --out."
        ) from None


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keeps a folder from other runs while one is prepared; it is removed again if nothing was written there."""
    create_folder(folder)
    refusal = TrainingError(
        f"Another process is preparing a run in {folder}.\nWait until it ends, or name another --out."
    )
    try:
        with locked(folder / CLAIM, refusal):
            try:
                yield
            finally:
                with suppress(OSError):  # Windows removes no open file
                    (folder / CLAIM).unlink()
    finally:
        with suppress(OSError):  # it contains a run
            folder.rmdir()
