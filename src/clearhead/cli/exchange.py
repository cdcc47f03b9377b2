"""`clearhead import SOURCE OUT` and `clearhead export MODEL OUT`: Hugging Face folders and GGUF files, both ways."""

import json as json_format
import shlex
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import Json, ModelFolder
from clearhead.cli.stages import load_pytorch
from clearhead.config.model_base import Head, Pool
from clearhead.errors import ConfigError, suggest

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; it must not exist yet.")]
AllowPickle = Annotated[
    bool,
    typer.Option("--allow-pickle", help="Read tensors from a .bin if the source has no safetensors."),
]
HEADS: dict[str, Head] = {"language": "language", "classifier": "classifier", "none": "none"}
POOLS: dict[str, Pool] = {"first": "first", "mean": "mean", "last": "last"}


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A Hugging Face folder, a .gguf file, or hub:OWNER/NAME@COMMIT."
        ),
    ],
    out: Out,
    head: Annotated[
        str | None,
        typer.Option("--head", help="Head to import: language, classifier or none (default: the source's)."),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            "--pool", help="Tokens that `embed` reads: first, mean or last (default: the source's, or mean)."
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore", metavar="PATTERN", help="Weights to skip, such as 'cls.*'; may be repeated."
        ),
    ] = None,
    allow_pickle: AllowPickle = False,
    no_tokenizer: Annotated[
        bool,
        typer.Option("--no-tokenizer", help="Import the weights alone, if the tokenizer is unsupported."),
    ] = False,
    json: Json = False,
) -> None:
    """Convert a Hugging Face model into a model folder."""
    for option, value, known in (("--head", head, HEADS), ("--pool", pool, POOLS)):
        if value is not None and value not in known:
            raise ConfigError(f"{option} {value} is unknown. {suggest(value, known)}")
    load_pytorch(f"Importing {source}")
    from clearhead.exchange.importing import import_model

    imported = import_model(
        source,
        out,
        allow_pickle,
        HEADS[head] if head else None,
        not no_tokenizer,
        POOLS[pool] if pool else None,
        ignore or (),
    )
    count = sum(weight.numel() for weight in imported.empty().parameters())
    tokenizer = imported.tokenizers[0]
    if json:
        facts = {"family": imported.family, "shape": imported.config.shape, "head": imported.config.head}
        tokens = None if tokenizer is None else tokenizer.size
        more = {"weights": count, "tokens": tokens, "notes": imported.notes, "out": str(out)}
        print(json_format.dumps(facts | more))
        return
    print(f"{source}: family {imported.family}, head {imported.config.head}, {count:,} weights")
    print(f"tokenizer: {'none' if tokenizer is None else f'{tokenizer.size:,} tokens'}")
    if tokenizer is None:
        print(f"The model can read ids but no text: put its tokenizer.json into {out}.")
    elif tokenizer.chat_template is not None:
        print(f"chat template: yes; try clearhead chat {shlex.quote(str(out))}")
    for note in imported.notes:
        print(f"note: {note}")
    compare = ["clearhead", "check", str(out), "--against", str(source)]
    compare += ["--allow-pickle"] if allow_pickle else []
    print(f"Wrote the model folder {out}. Compare it with its source: {shlex.join(compare)}")


import_.__name__ = "import"  # the word itself is Python's


def export(
    model: ModelFolder,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="The folder to write, or a file OUT.gguf; neither must exist yet."
        ),
    ],
    number_type: Annotated[
        str | None,
        typer.Option(
            "--type", help="Numbers in a .gguf file: float32, float16 or q8_0 (default: the model's)."
        ),
    ] = None,
    pad: Annotated[
        bool, typer.Option("--pad", help="Export a pruned model at its former size, padded with zeros.")
    ] = False,
    reader: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Of a translator: ctranslate2, whose converter lets a marian start from a zero vector.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Convert a model into a folder that transformers loads, or a .gguf file for llama.cpp."""
    load_pytorch(f"Exporting {model}")
    if reader not in (None, "ctranslate2"):
        raise ConfigError(f"--for {reader} is unknown. {suggest(str(reader), ['ctranslate2'])}")
    if not pad:
        return export_as_it_is(model, out, number_type, reader, json)
    from clearhead.exchange.padding import padded_folder

    with padded_folder(model) as whole:
        return export_as_it_is(whole, out, number_type, reader, json)


def export_as_it_is(model: Path, out: Path, number_type: str | None, reader: str | None, json: bool) -> None:
    """Writes a folder or a file, and says what it contains."""
    if out.suffix == ".gguf":
        if reader is not None:
            raise ConfigError(f"--for {reader} applies to folders only.\nName the output without .gguf.")
        return export_to_gguf(model, out, number_type, json)
    if number_type is not None:
        raise ConfigError(f"--type {number_type} applies to .gguf files only.\nName the output {out}.gguf.")
    from clearhead.exchange.exporting import export_model, exportable_config
    from clearhead.exchange.families.accepted_by import accepted_by
    from clearhead.model_folder import find

    made = export_model(model, out, reader is not None)
    servers = accepted_by(made, exportable_config(find(model)))
    if json:
        facts = {"family": made.family, "architecture": made.config["architectures"][0]}
        print(json_format.dumps(facts | {"added": sorted(made.added), "out": str(out)} | servers))
        return None
    print(f"{out}: family {made.family}, {made.config['architectures'][0]}")
    if made.added:
        print(f"weights make up for what {made.family} does differently: {', '.join(made.added)}")
    for server, answer in servers.items():
        print(f"{server}: {answer}")
    return None


def export_to_gguf(model: Path, out: Path, number_type: str | None, json: bool) -> None:
    """Writes a file for llama.cpp and says what it contains."""
    from clearhead.exchange.exporting_gguf import export_gguf
    from clearhead.exchange.weights.write_gguf import NUMBER_TYPES

    known = {str(name): name for name in NUMBER_TYPES}
    if number_type is not None and number_type not in known:
        raise ConfigError(f"--type {number_type} is unknown. {suggest(number_type, known)}")
    made = export_gguf(model, out, None if number_type is None else known[number_type])
    if json:
        facts = {"architecture": made.architecture, "type": made.number_type, "notes": made.notes}
        print(json_format.dumps(facts | {"out": str(out)}))
        return
    print(f"{out}: architecture {made.architecture}, {made.number_type}, {out.stat().st_size:,} bytes")
    for note in made.notes:
        print(f"note: {note}")
