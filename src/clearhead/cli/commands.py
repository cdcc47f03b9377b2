"""The list of commands: functions enter, the application that runs them leaves.

Each command has a file of its own and imports heavy modules when it runs, so that `--help` is instant.
"""

from collections.abc import Callable
from inspect import signature
from typing import Annotated

import typer

from clearhead import __version__
from clearhead.cli.chat import chat
from clearhead.cli.check import check
from clearhead.cli.compare import compare
from clearhead.cli.data import data
from clearhead.cli.demo import demo
from clearhead.cli.evaluate import evaluate
from clearhead.cli.exchange import export, import_
from clearhead.cli.explore import explore
from clearhead.cli.heads import heads
from clearhead.cli.prune import prune
from clearhead.cli.quantize import quantize
from clearhead.cli.recipes import recipes
from clearhead.cli.serve import serve
from clearhead.cli.train import train
from clearhead.cli.use import classify, embed, generate, translate
from clearhead.cli.vectors.app import app as vectors

COMMANDS: list[Callable[..., None]] = [
    demo,
    train,
    recipes,
    check,
    evaluate,
    compare,
    data,
    chat,
    generate,
    translate,
    classify,
    embed,
    explore,
    serve,
    heads,
    prune,
    quantize,
    import_,
    export,
]

# For commands that take settings by name, --model.d 256; the config checks them.
WITH_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}


def with_dashes(name: str) -> str:
    """An option's name as it is declared: underscores, as settings have them, are accepted for dashes."""
    return name.replace("_", "-")


app = typer.Typer(
    name="clearhead",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": with_dashes},
)


def show_version(wanted: bool) -> None:
    """Print the version and exit, if asked to."""
    if wanted:
        print(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Transformers you can see through."""


for command in COMMANDS:
    takes_settings = "context" in signature(command).parameters
    app.command(context_settings=WITH_SETTINGS if takes_settings else None)(command)
app.add_typer(vectors)
