"""The commands of `clearhead vectors`."""

from collections.abc import Callable

import typer

from clearhead.cli.options import with_settings
from clearhead.cli.vectors.ask import analogy, nearest, similarity
from clearhead.cli.vectors.make import import_, train
from clearhead.cli.vectors.measure import evaluate, map_
from clearhead.config.vectors import VectorsConfig

COMMANDS: list[Callable[..., None]] = [
    with_settings(train, VectorsConfig, "settings", "Training"),
    import_,
    nearest,
    similarity,
    analogy,
    evaluate,
    map_,
]

app = typer.Typer(
    name="vectors",
    help="Train, import, ask, measure and draw word vectors.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command()(command)
