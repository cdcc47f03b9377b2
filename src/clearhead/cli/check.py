"""`clearhead check MODEL`: proves on this machine that a model keeps the laws, a line a law."""

import json as json_format
from math import isfinite

import typer

from clearhead.cli.options import Json, ModelFolder, find_model


def check(model: ModelFolder, json: Json = False) -> None:
    """Prove that cached = uncached, batched = single, captured = fast, saved = loaded."""
    from clearhead.checkpoint import load
    from clearhead.inspection.check import check as laws_of

    laws = []
    for law in laws_of(load(find_model(model))):
        laws.append(law)
        if not json:
            verdict = "holds" if law.holds else "BROKEN"
            print(
                f"{verdict:7} {law.name:26} largest difference {law.difference:.2e}  (limit {law.limit:.0e})"
            )
    holds = all(law.holds for law in laws)
    if json:
        rows = [
            {
                "law": law.name,
                "difference": law.difference if isfinite(law.difference) else None,
                "limit": law.limit,
                "holds": law.holds,
            }
            for law in laws
        ]
        print(json_format.dumps({"holds": holds, "laws": rows}))
    if not holds:
        raise typer.Exit(1)
