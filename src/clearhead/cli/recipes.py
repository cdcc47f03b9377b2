"""`clearhead recipes [NAME]`: the shipped recipes, or the text of one, on stdout."""

import json as json_format
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from clearhead.errors import ConfigError, suggest


def recipes(
    name: Annotated[str | None, typer.Argument(help="Recipe to print; lists all if omitted.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the shipped recipes, or print one."""
    from clearhead.config.run import shipped

    known = shipped()
    if name is not None and name not in known:
        raise ConfigError(f"There is no shipped recipe {name!r}. {suggest(name, known)}")
    if name is not None:
        text = known[name].read_text(encoding="utf-8")
        print(
            json_format.dumps(describe_recipe(known[name]) | {"text": text}, ensure_ascii=False)
            if json
            else text.rstrip()
        )
        return
    found = [describe_recipe(path) for path in known.values()]
    if json:
        print(json_format.dumps({"recipes": found}, ensure_ascii=False))
        return
    for recipe in found:
        print(f"{recipe['name']:24} {recipe['task']:22} {recipe['description']}")
    print("\nclearhead recipes NAME prints one; clearhead train NAME trains it.")


def describe_recipe(path: Path) -> dict[str, str]:
    """Name, task and description of a recipe; the description is its first comment."""
    text = path.read_text(encoding="utf-8")
    comment = next((line.lstrip("# ").rstrip() for line in text.splitlines() if line.startswith("#")), "")
    return {"name": path.stem, "task": str(tomllib.loads(text).get("task", "")), "description": comment}
