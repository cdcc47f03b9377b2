"""`clearhead data RECIPE`: a recipe enters; what it would read leaves on stdout, as a table or JSON."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.data.audit import Audit, SplitAudit
    from clearhead.data.progress import PreparationProgress

BAR = 24


def data(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A recipe: a file, or the name of a shipped one.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    verify: Annotated[bool, typer.Option(help="Verify the checksums of all prepared files.")] = False,
) -> None:
    """Show what a recipe would read: counts, tokens, and what is truncated, dropped, repeated or shared.

    Override settings of the recipe by name: --tokenizer.vocabulary 4000.
    """
    from rich.console import Console

    from clearhead.cli.stages import Stages
    from clearhead.config.run import RunConfig, parse_overrides

    run, tokenizers = RunConfig.read(recipe, parse_overrides(context.args)), None
    if run.training.init_from is not None:
        from clearhead.training.run.start import resolve_start

        start = resolve_start(run)
        run, tokenizers = start.config, start.tokenizers
    console = Console()
    with Stages("Reading the data") as stages:
        from clearhead.data.prepare import prepare

        prepared = prepare(
            run, lambda progress: stages.show("Preparing the data", describe_progress(progress)), tokenizers
        )
    for shards in prepared.splits.values() if verify else ():
        shards.verify()
    if json:
        from json import dumps

        print(dumps(prepared.audit.to_json(), ensure_ascii=False))
    else:
        tokenizer = run.tokenizer.kind if tokenizers is None else f"the tokenizer of {run.training.init_from}"
        title = f"{recipe}: {run.task}, {tokenizer}, {prepared.tokenizers.target.size} tokens"
        print_audit(console, title, prepared.audit)


def describe_progress(progress: "PreparationProgress") -> str:
    """The progress of preparing data, in a line."""
    amount = f"{progress.examples:,} examples, {progress.characters / 1e6:.1f} million characters"
    return f"{progress.stage}: {amount}"


def print_audit(console: "Console", title: str, audit: "Audit", with_lengths: bool = True) -> None:
    """Prints a table of counts, the lengths of the examples, and what could not be read."""
    from rich.table import Table

    from clearhead.data.audit import table_of

    console.print(title, markup=False, highlight=False)
    table = Table("")
    for split in audit.splits:
        table.add_column(split, justify="right")
    for name, values in table_of(audit):
        table.add_row(name, *values)
    console.print(table)
    for guess in dict.fromkeys(guess for report in audit.splits.values() for guess in report.guesses):
        console.print(f"· {guess}", markup=False, highlight=False)
    printed: set[str] = set()
    for split, report in audit.splits.items():
        if with_lengths:
            print_lengths(console, split, report)
        for problem in report.first_problems:
            if problem not in printed:  # splits of one file report the same lines
                console.print(f"{split}: {problem}", markup=False, highlight=False)
        printed.update(report.first_problems)
        if report.ignored:
            console.print(f"{split}: ignored {', '.join(report.ignored[:5])}", markup=False, highlight=False)


def print_lengths(console: "Console", split: str, report: "SplitAudit") -> None:
    """Prints the lengths of the examples, as bars."""
    for column, lengths in report.lengths.items():
        if lengths.histogram:
            summary = f"{lengths.shortest} to {lengths.longest}, half of them up to {lengths.median}"
            console.print(f"\n{split}, tokens of the {column}: {summary}", highlight=False)
        most = max((bin.examples for bin in lengths.histogram), default=1)
        for bin in lengths.histogram:
            bar = "█" * max(1, round(BAR * bin.examples / most)) if bin.examples else ""
            console.print(f"{bin.least:>7} – {bin.most:<7} {bar} {bin.examples:,}", highlight=False)
