"""A folder of Hugging Face on disk: a name enters, a path leaves, and only where the file itself lies there.

Names in a shard index are written by whoever made the folder. So a name may not lead out of it, nor may a
link: the one kind of link that is followed is that of the hub's own cache, from a snapshot to its blobs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint import read_json
from clearhead.errors import CheckpointError, ConfigError

CONFIG = "config.json"


@dataclass(frozen=True)
class Folder:
    """Their folder."""

    path: Path

    @property
    def root(self) -> Path:
        """Where it really stands."""
        return self.path.resolve()

    def find(self, name: str) -> Path | None:
        """The file of this name, or None where there is none; refused where it lies elsewhere."""
        place = self.path / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise CheckpointError(f"{name} leads out of {self.path}.\nOnly files of the folder are read.")
        if not os.path.lexists(place):
            return None
        real = place.resolve()
        if real != self.root / name and not self.is_blob(real):
            raise CheckpointError(
                f"{place} is a link to {real}, outside of its folder.\n"
                "Links are not followed, since they could lead anywhere; put the file itself there."
            )
        if not real.is_file():
            what = "is not a file" if real.exists() else "is a link to a file that does not exist"
            raise CheckpointError(f"{place} {what}.\nPut the file itself there.")
        return real

    def is_blob(self, real: Path) -> bool:
        """Whether a file lies where the hub's cache keeps the files of this very snapshot."""
        return self.root.parent.name == "snapshots" and real.parent == self.root.parent.parent / "blobs"

    def json(self, name: str) -> Any:
        """A JSON file, or None where there is none."""
        path = self.find(name)
        return None if path is None else read_json(path)

    def table(self, name: str) -> dict[str, Any]:
        """A JSON object, empty where there is no such file."""
        value = self.json(name)
        if value is not None and not isinstance(value, dict):
            raise CheckpointError(f"{self.path / name} is not a table of settings.\nCopy the file again.")
        return value or {}

    def config(self) -> dict[str, Any]:
        """Their config, which must be there."""
        config = self.table(CONFIG)
        if not config:
            present = ", ".join(sorted(file.name for file in self.path.iterdir())[:12]) or "nothing"
            raise CheckpointError(
                f"{self.path / CONFIG} is missing or empty, so nobody knows what the weights mean.\n"
                f"The folder holds: {present}."
            )
        if "format" in config and "model_type" not in config:
            raise CheckpointError(
                f"{self.path} is a model folder of clearhead already.\nUse it as it is, or `clearhead export` it."
            )
        return config


def check_no_code(name: str, settings: Mapping[str, Any]) -> None:
    """Refuses settings that ask for code of the folder's own."""
    if "auto_map" in settings:
        raise ConfigError(
            f"{name} has an auto_map: this model is defined by code in its own folder.\n"
            "Such code is not run here; use a model of a known family."
        )


def plain_name(name: object, ending: str, where: Path) -> str:
    """The name of a file of the same folder, from an index; refused where it is a path."""
    is_plain = isinstance(name, str) and name.endswith(ending) and Path(name).name == name
    if not is_plain or "\\" in str(name) or "\0" in str(name) or ":" in str(name):
        raise CheckpointError(
            f"{where} names {name!r}, which is not the name of a {ending} file beside it.\n"
            "An index may only name files of its own folder."
        )
    return str(name)


def check_free(out: Path) -> None:
    """Refuses a place where something stands, since the new folder takes it as a whole."""
    if out.is_dir() and not any(out.iterdir()) and not out.is_symlink():
        return
    if os.path.lexists(out):
        raise CheckpointError(f"{out} is not an empty folder.\nName another place, or clear it first.")
