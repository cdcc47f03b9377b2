"""`clearhead check MODEL [--against SOURCE]`: checks the laws of a model on this machine, one line per law."""

import json as json_format
import sys
from itertools import chain
from math import isfinite
from shlex import quote
from typing import Annotated

import typer

from clearhead.cli.exchange import AllowPickle
from clearhead.cli.options import Json, ModelFolder
from clearhead.cli.stages import load_pytorch

Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="SOURCE",
        help="The source of an imported model, run by transformers; or another model folder.",
    ),
]

Accept = Annotated[
    bool,
    typer.Option("--accept", help="Take the files as they are now: write their checksums anew."),
]


def check(
    model: ModelFolder,
    against: Against = None,
    accept: Accept = False,
    allow_pickle: AllowPickle = False,
    json: Json = False,
) -> None:
    """Prove that the files are as written, cached = uncached, batched = single, captured = fast, saved = loaded."""
    load_pytorch(f"Reading {model}")
    from clearhead.exchange.reference import reference_of
    from clearhead.folder_files import write_checksums
    from clearhead.inspection.check import FILES_LAW, Law, Probe, files_as_written, same_as_reference
    from clearhead.inspection.check import check as laws_of
    from clearhead.model_folder import CHECKED, find, load

    folder = find(model)
    loaded = load(folder, is_verified=False)
    if accept:
        write_checksums(folder, CHECKED)
    reference = None if against is None else reference_of(against, loaded.config, allow_pickle)

    def same(probe: Probe) -> Law:
        assert reference is not None
        return same_as_reference(probe, reference.run, reference.padding)

    files = files_as_written(folder)
    if files is None and not json:
        print(f"unknown {FILES_LAW:26} no checksums.json; write it with --accept")
    laws = []
    for law in chain([files] if files else [], laws_of(loaded, *([] if reference is None else [same]))):
        laws.append(law)
        if not json:
            verdict = "holds" if law.holds else "FAILS"
            numbers = f"largest difference {law.difference:.2e}  (limit {law.limit:.0e})"
            print(f"{verdict:7} {law.name:26} {law.note or numbers}")
    if any(law.name == FILES_LAW and not law.holds for law in laws):
        print(f"Copy the folder again, or if you changed it on purpose: clearhead check {quote(str(folder))} --accept",
              file=sys.stderr)  # fmt: skip
    holds = all(law.holds for law in laws)
    if json:
        rows = [
            {
                "law": law.name,
                "difference": law.difference if isfinite(law.difference) else None,
                "limit": law.limit,
                "holds": law.holds,
                **({"note": law.note} if law.note else {}),
            }
            for law in laws
        ]
        if files is None:
            rows.insert(0, {"law": FILES_LAW, "holds": None, "note": "no checksums.json"})
        print(json_format.dumps({"holds": holds, "laws": rows}))
    if not holds:
        raise typer.Exit(1)
