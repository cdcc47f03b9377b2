"""A model folder, or a recipe with its data, enters; a model leaves that generates, translates, classifies."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from clearhead import model_folder
from clearhead.api.arguments import check_path
from clearhead.api.model import Model
from clearhead.config.run import RunConfig
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.training.reporting.history import LogEntry

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def load(path: str | Path, dtype: torch.dtype | str = torch.float32, int8: bool = False) -> Model:
    """Reads a model folder, the best model of a run folder, or `builtin:NAME`, a model of the package.

    Weights are float32 or of another `dtype`, such as torch.bfloat16 or "bfloat16". With `int8` they are
    rounded as `clearhead quantize` does.
    """
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found not in TYPES:
        names = ", ".join(str(kind).removeprefix("torch.") for kind in TYPES)
        raise InputError(f"dtype = {dtype!r:.80} is not a type of weights.\nUse one of {names}.")
    if int8 and found != torch.float32:
        raise InputError(f"int8 weights are multiplied in float32, not in {dtype}.\nOmit dtype or int8.")
    bundle = model_folder.load(check_path(path), found)
    if int8:
        bundle.quantise()
    return Model(bundle)


def train(
    recipe: str | Path | RunConfig,
    out: str | Path,
    resume: bool = False,
    on_record: "Callable[[LogEntry], None]" = lambda record: None,
) -> Model:
    """Trains a recipe (a file, the name of a shipped one, or a `RunConfig`) into a run folder; returns the best model.

    `on_record` receives every logged step, every evaluation and every sample. Under `torchrun` all ranks call this.
    """
    from clearhead.training.distributed.ranks import (  # imported only for training
        broadcast_from_first,
        is_first,
        process_group,
    )
    from clearhead.training.run.folder import RECIPE, check_free, holds_run
    from clearhead.training.run.run import keep_length, make_run

    if not isinstance(recipe, str | PathLike | RunConfig):
        raise InputError(
            f"A recipe is a file, the name of a shipped one, or a RunConfig, not a {type(recipe).__name__}.\n"
            "For settings in a table: RunConfig(**table)."
        )
    config, place = recipe if isinstance(recipe, RunConfig) else RunConfig.read(recipe), check_path(out)
    if not resume:
        check_free(place)  # before the data is read
    elif holds_run(place):
        config = keep_length(RunConfig.read(place / RECIPE), config)
    with process_group():
        run = make_run(config, place)
        for record in run.train(resume):
            if is_first():
                on_record(record)
        broadcast_from_first(lambda: str(run.evaluate()))  # the other ranks wait for it
    return load(place / "best")
