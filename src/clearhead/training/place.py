"""Where a run is written: the names of what its folder holds, and whether a folder is free for it."""

from pathlib import Path

from clearhead.errors import ConfigError
from clearhead.storage import is_half_written

RECIPE, LOG, CHECKPOINTS, QUALITY = "recipe.toml", "log.jsonl", "checkpoints", "quality.json"
TRIAL = ".clearhead-"  # begins the name of a folder that is written to see how fast the disk is


def holds_run(folder: Path) -> bool:
    """Whether a run has begun there."""
    return (folder / RECIPE).is_file()


def is_taken(folder: Path) -> bool:
    """Whether something stands there already; what is left of a run killed as it began is nothing."""
    if not folder.is_dir():
        return folder.exists() or folder.is_symlink()
    return not all(is_half_written(path, RECIPE) or path.name.startswith(TRIAL) for path in folder.iterdir())


def check_free(folder: Path) -> None:
    """Refuses a place where something stands: a run is never written over."""
    file = next((place for place in (folder, *folder.parents) if place.is_file()), None)
    if file is not None:
        raise ConfigError(f"{file} is a file, so no run folder can stand there.\nName a folder with --out.")
    if holds_run(folder):
        raise ConfigError(
            f"{folder} holds a run already, which is not written over.\n"
            f"Go on with it: clearhead train {folder} --resume (in Python resume=True). Or name another --out."
        )
    if is_taken(folder):
        raise ConfigError(f"{folder} is not an empty folder.\nName another --out, or clear it first.")
