"""The list of commands, as the one application that runs them.

Each command has a file of its own and imports what is heavy when it runs, so that `--help` is instant.
"""

from collections.abc import Callable
from inspect import signature
from typing import Annotated

import typer

from clearhead import __version__
from clearhead.cli.check import check
from clearhead.cli.data import data
from clearhead.cli.demo import demo
from clearhead.cli.evaluate import evaluate
from clearhead.cli.exchange import export, import_
from clearhead.cli.explore import explore
from clearhead.cli.recipes import recipes
from clearhead.cli.train import train
from clearhead.cli.use import classify, embed, generate, translate

COMMANDS: list[Callable[..., None]] = [
    demo,
    train,
    recipes,
    check,
    evaluate,
    data,
    generate,
    translate,
    classify,
    embed,
    explore,
    import_,
    export,
]

# For a command that takes settings by their own names, --model.d 256: they are checked by the config.
WITH_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="clearhead",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and stop, when it is asked for."""
    if wanted:
        print(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and stop."),
    ] = False,
) -> None:
    """Transformers you can see through."""


for command in COMMANDS:
    takes_settings = "context" in signature(command).parameters
    app.command(context_settings=WITH_SETTINGS if takes_settings else None)(command)
