"""`clearhead import SOURCE OUT` and `clearhead export MODEL OUT`: folders of Hugging Face, both ways."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import ModelFolder
from clearhead.config.model import Head
from clearhead.errors import ConfigError, suggest

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; it must not exist yet.")]
AllowPickle = Annotated[
    bool,
    typer.Option("--allow-pickle", help="Read tensors from a .bin where a source has no safetensors."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
HEADS: dict[str, Head] = {"language": "language", "classifier": "classifier", "none": "none"}


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A folder of Hugging Face, a .gguf file, or hub:OWNER/NAME@COMMIT."
        ),
    ],
    out: Out,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", help="What to read from the top: language, classifier or none; theirs if not given."
        ),
    ] = None,
    allow_pickle: AllowPickle = False,
    json: Json = False,
) -> None:
    """Make a model folder from a model of Hugging Face."""
    if head is not None and head not in HEADS:
        raise ConfigError(f"--head {head} is not known. {suggest(head, HEADS)}")
    from clearhead.exchange.importing import import_model

    foreign = import_model(source, out, allow_pickle, None if head is None else HEADS[head])
    count = sum(weight.numel() for weight in foreign.empty().parameters())
    tokenizer = foreign.tokenizers[0]
    if json:
        facts = {"family": foreign.family, "shape": foreign.config.shape, "head": foreign.config.head}
        tokens = None if tokenizer is None else tokenizer.size
        print(json_format.dumps(facts | {"weights": count, "tokens": tokens, "out": str(out)}))
        return
    print(f"{source}: family {foreign.family}, head {foreign.config.head}, {count:,} weights")
    print(f"tokenizer: {'none that can be read here' if tokenizer is None else f'{tokenizer.size:,} tokens'}")
    print(f"{out} is a model folder. Compare: clearhead check {out} --against {source}")


import_.__name__ = "import"  # the word itself is Python's


def export(model: ModelFolder, out: Out, json: Json = False) -> None:
    """Write a model as a folder that transformers loads."""
    from clearhead.exchange.exporting import export_model

    made = export_model(model, out)
    if json:
        facts = {"family": made.family, "architecture": made.config["architectures"][0]}
        print(json_format.dumps(facts | {"added": sorted(made.added), "out": str(out)}))
        return
    print(f"{out}: family {made.family}, {made.config['architectures'][0]}")
    if made.added:
        print(
            f"written with numbers that change nothing, for what only {made.family} has: {', '.join(made.added)}"
        )
