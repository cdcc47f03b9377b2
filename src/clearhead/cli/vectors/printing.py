"""What the commands of vectors share: their arguments, and how results are printed."""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.terminal import for_stream

if TYPE_CHECKING:
    from clearhead.vectors.words import NearWord

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; it must not exist yet.")]
Vectors = Annotated[Path, typer.Argument(metavar="VECTORS", help="A vectors folder.")]


def show(found: "list[NearWord]") -> None:
    """Prints words and numbers, one per line."""
    for one in found:
        say(f"{one.word:20} {one.value:.4f}")


def say(line: str) -> None:
    """Prints a line that may contain any text."""
    print(for_stream(line, sys.stdout))


def print_json(value: dict[str, Any]) -> None:
    """Prints one JSON object."""
    say(json_format.dumps(value, ensure_ascii=False))
