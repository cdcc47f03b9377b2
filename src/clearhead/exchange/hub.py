"""Downloads models of the hub: `hub:OWNER/NAME@COMMIT` enters, a folder on disk leaves.

The commit must be given in full: the owner can move a branch or a tag to other weights, but not a commit.
"""

import re
from pathlib import Path

from clearhead.errors import ModelFolderError

HUB = "hub:"
SOURCE = re.compile(r"hub:(?P<name>\w[\w.-]*(?:/\w[\w.-]*)?)(?:@(?P<commit>.+))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm"]  # never code


def download(source: str, allow_pickle: bool = False) -> Path:
    """The folder of a model, downloaded or found in the hub's cache."""
    named = SOURCE.fullmatch(source)
    if named is None:
        raise ModelFolderError(f"{source} does not name a model of the hub.\nWrite {HUB}OWNER/NAME@COMMIT.")
    name, commit = named["name"], named["commit"]
    if commit is None or not COMMIT.fullmatch(commit):
        given = f"@{commit}" if commit else "no revision"
        raise ModelFolderError(
            f"{source} has {given}, but a revision that cannot change is required: a commit of 40 digits.\n"
            f"Copy it from the model's page, under its files, and write {HUB}{name}@COMMIT."
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ModelFolderError(
            f"{source} needs the package huggingface_hub, which is not installed.\n"
            "Install it (pip install 'clearhead[hub]'), or download the folder yourself and import that."
        ) from None
    patterns = [*FILES, *(["*.bin"] if allow_pickle else [])]
    try:
        return Path(snapshot_download(name, revision=commit, allow_patterns=patterns))
    except Exception as error:  # whatever the network, the hub or the package raises
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelFolderError(
            f"{source} cannot be downloaded: {reason}\nCheck the name, the commit and the connection."
        ) from error
