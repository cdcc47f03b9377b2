"""A Hugging Face folder on disk: a file name enters, its path leaves if the file itself is in the folder.

Names in a shard index were written by whoever made the folder, so neither a name nor a symlink may lead outside.
The only symlinks that are followed are those of the hub's own cache, from a snapshot to its blobs.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder_files import read_json

CONFIG = "config.json"


@dataclass(frozen=True)
class HuggingFaceFolder:
    """A folder that a source was saved in."""

    path: Path

    @property
    def root(self) -> Path:
        """Its path without symlinks."""
        return self.path.resolve()

    def find(self, name: str) -> Path | None:
        """The file of this name, or None if it does not exist; refused if it is outside the folder."""
        place = self.path / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ModelFolderError(
                f"{name} leads outside {self.path}.\nOnly files inside the folder are read."
            )
        if not os.path.lexists(place):
            return None
        real = place.resolve()
        if real != self.root / name and not self.is_blob(real):
            raise ModelFolderError(
                f"{place} is a symlink to {real}, outside the folder.\n"
                "Such symlinks are not followed; replace it by the file itself."
            )
        if not real.is_file():
            what = "is not a file" if real.exists() else "is a symlink to a file that does not exist"
            raise ModelFolderError(f"{place} {what}.\nReplace it by the file itself.")
        return real

    def is_blob(self, real: Path) -> bool:
        """Whether the hub's cache keeps the files of this very snapshot there."""
        return self.root.parent.name == "snapshots" and real.parent == self.root.parent.parent / "blobs"

    def json(self, name: str) -> Any:
        """The content of a JSON file, or None if it does not exist."""
        path = self.find(name)
        return None if path is None else read_json(path)

    def table(self, name: str) -> dict[str, Any]:
        """A JSON object, empty if there is no such file."""
        value = self.json(name)
        if value is not None and not isinstance(value, dict):
            raise ModelFolderError(f"{self.path / name} is not a JSON object.\nCopy the file again.")
        return value or {}

    def config(self) -> dict[str, Any]:
        """The content of config.json, which must exist."""
        config = self.table(CONFIG)
        if not config:
            raise ModelFolderError(
                f"{self.path / CONFIG} is missing or empty, so the architecture is unknown.\n"
                f"The folder contains: {self.listing()}."
            )
        if "format" in config and "model_type" not in config:
            raise ModelFolderError(
                f"{self.path} is already a clearhead model folder.\nUse it as it is, or `clearhead export` it."
            )
        return config

    def listing(self) -> str:
        """The first few file names, for a message."""
        return ", ".join(sorted(file.name for file in self.path.iterdir())[:12]) or "nothing"


def check_no_code(name: str, settings: Mapping[str, Any]) -> None:
    """Refuses settings that ask for code from the folder."""
    if "auto_map" in settings:
        raise ConfigError(
            f"{name} has an auto_map: this model is defined by code in its own folder.\n"
            "clearhead does not run such code; use a model of a supported family."
        )


def check_plain_name(name: object, ending: str, index: Path) -> str:
    """The name of a file beside an index; refused if it is a path."""
    is_plain = isinstance(name, str) and name.endswith(ending) and Path(name).name == name
    if not is_plain or "\\" in str(name) or "\0" in str(name) or ":" in str(name):
        raise ModelFolderError(
            f"{index} names {name!r}, which is not the name of a {ending} file beside it.\n"
            "An index may only name files in its own folder."
        )
    return str(name)


def check_free(out: Path) -> None:
    """Refuses an output folder that already has content; nothing is overwritten."""
    if out.is_dir() and not any(out.iterdir()) and not out.is_symlink():
        return
    if os.path.lexists(out):
        raise ModelFolderError(
            f"{out} already exists and is not an empty folder.\nName another folder, or empty it first."
        )


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file, and its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
