"""`clearhead quantize MODEL OUT`: the same model with int8 weights, a quarter of the size."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.exchange import Out
from clearhead.cli.options import Json, ModelFolder
from clearhead.cli.stages import Stages, load_pytorch
from clearhead.errors import InputError

ReplaceFolder = Annotated[bool, typer.Option("--overwrite", help="Replace an existing model folder.")]


def quantize(model: ModelFolder, out: Out, overwrite: ReplaceFolder = False, json: Json = False) -> None:
    """Round the weights to int8, a scale for each row: a quarter of the size.

    The matrices of a language model are rounded for texts that it writes itself.
    """
    load_pytorch(f"Reading {model}")
    from clearhead.api import load
    from clearhead.api.model import check_free
    from clearhead.decoding.own_texts import quantise
    from clearhead.model_folder import WEIGHTS, find
    from clearhead.training.run.folder import RECIPE

    check_free(out, overwrite)
    source = find(model)
    if out.exists() and out.resolve() in (model.resolve(), source.resolve()):
        raise InputError(
            f"{out} is the model itself, whose weights could not be restored.\nChoose another name."
        )
    before = size(source / WEIGHTS)
    loaded = load(model)
    if loaded.bundle.is_int8:
        raise InputError(f"{model} already has int8 weights.\nCopy the folder, or give a model in float32.")
    with Stages(f"Quantising {model}") as stages:
        quantise(loaded.bundle, stages.show)
    loaded.save(out, overwrite)
    after = size(find(out) / WEIGHTS)
    if json:
        print(json_format.dumps({"out": str(out), "bytes": [before, after]}))
        return
    print(f"{out}: {after / 1e6:,.1f} MB of weights, {before / 1e6:,.1f} MB before")
    recipe = source.parent / RECIPE
    data = f"--recipe {recipe}" if recipe.exists() else "--data FILE"
    print(f"See what changes: clearhead evaluate {out} {data}")


def size(path: Path) -> int:
    """Bytes of a file."""
    return path.stat().st_size
