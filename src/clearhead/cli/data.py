"""`clearhead data RECIPE`: what would be read, as a table or as JSON on stdout; progress on stderr."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.data.audit import Audit, SplitAudit
    from clearhead.data.progress import Progress

BAR = 24


def data(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A recipe: a file, or the name of one that is shipped.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object in place of the table.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Read all prepared files and compare their checksums.")
    ] = False,
) -> None:
    """Show what a recipe would read: counts, tokens, what is cut, dropped, repeated or shared.

    Settings of the recipe are overridden by their own names: --tokenizer.vocabulary 4000.
    """
    from rich.console import Console

    from clearhead.config.run import RunConfig, parse_overrides
    from clearhead.data.prepare import prepare

    run, tokenizers = RunConfig.read(recipe, parse_overrides(context.args)), None
    if run.training.init_from is not None:
        from clearhead.training.begin import begin

        start = begin(run)
        run, tokenizers = start.config, start.tokenizers
    console, status = Console(), Console(stderr=True)
    with status.status("reading") as line:
        prepared = prepare(run, lambda progress: line.update(told(progress)), tokenizers)
    for shards in prepared.splits.values() if verify else ():
        shards.verify()
    if json:
        from json import dumps

        print(dumps(prepared.audit.to_json(), ensure_ascii=False))
    else:
        cut = run.tokenizer.kind if tokenizers is None else f"the tokenizer of {run.training.init_from}"
        title = f"{recipe}: {run.task}, {cut}, {prepared.tokenizers.target.size} tokens"
        show(console, title, prepared.audit)


def told(progress: "Progress") -> str:
    """Progress in words."""
    amount = f"{progress.examples:,} examples, {progress.characters / 1e6:.1f} million characters"
    return f"{progress.stage}: {amount}"


def show(console: "Console", title: str, audit: "Audit", with_lengths: bool = True) -> None:
    """Print the report: a table of counts, how long the examples are, and what could not be read."""
    from rich.table import Table

    from clearhead.data.table import table_of

    console.print(title, markup=False, highlight=False)
    table = Table("")
    for split in audit.splits:
        table.add_column(split, justify="right")
    for name, values in table_of(audit):
        table.add_row(name, *values)
    console.print(table)
    told: set[str] = set()
    for split, report in audit.splits.items():
        if with_lengths:
            show_lengths(console, split, report)
        for problem in report.first_problems:
            if problem not in told:  # parts of one file tell of the same lines
                console.print(f"{split}: {problem}", markup=False, highlight=False)
        told.update(report.first_problems)
        if report.ignored:
            console.print(f"{split}: ignored {', '.join(report.ignored[:5])}", markup=False, highlight=False)


def show_lengths(console: "Console", split: str, report: "SplitAudit") -> None:
    """Print how long the examples are, as bars."""
    for column, lengths in report.lengths.items():
        if lengths.histogram:
            summary = f"{lengths.shortest} to {lengths.longest}, half of them up to {lengths.median}"
            console.print(f"\n{split}, tokens of the {column}: {summary}", highlight=False)
        most = max((bin.examples for bin in lengths.histogram), default=1)
        for bin in lengths.histogram:
            bar = "█" * max(1, round(BAR * bin.examples / most)) if bin.examples else ""
            console.print(f"{bin.least:>7} – {bin.most:<7} {bar} {bin.examples:,}", highlight=False)
