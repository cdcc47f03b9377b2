"""`clearhead check MODEL [--against SOURCE]`: proves on this machine that a model keeps the laws, a line a law."""

import json as json_format
from math import isfinite
from typing import Annotated

import typer

from clearhead.cli.exchange import AllowPickle
from clearhead.cli.options import Json, ModelFolder

Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="SOURCE",
        help="What the model was imported from, run by transformers; or another model folder.",
    ),
]


def check(
    model: ModelFolder, against: Against = None, allow_pickle: AllowPickle = False, json: Json = False
) -> None:
    """Prove that cached = uncached, batched = single, captured = fast, saved = loaded, import = reference."""
    from clearhead.checkpoint import load
    from clearhead.exchange.reference import reference_of
    from clearhead.inspection.check import Law, Probe, same_as_reference
    from clearhead.inspection.check import check as laws_of

    loaded = load(model)
    reference = None if against is None else reference_of(against, loaded.config, allow_pickle)

    def same(probe: Probe) -> Law:
        assert reference is not None
        return same_as_reference(probe, reference.run, reference.padding)

    laws = []
    for law in laws_of(loaded, *([] if reference is None else [same])):
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
