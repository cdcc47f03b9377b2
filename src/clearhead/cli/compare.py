"""`clearhead compare`: recipes to train with the same budget, or finished runs, enter; a table and a page leave."""

import json as json_format
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.options import Json
from clearhead.cli.stages import Stages
from clearhead.cli.terminal import for_stream
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from clearhead.training.reporting.comparison import ComparisonTable
    from clearhead.training.run.compare import Budget, ComparedRun, FinishedRun, PlannedRun

PAGE = "compare.html"
HIGHEST = 0.05  # p-value from which a difference is not called one


def compare(
    what: Annotated[
        list[str], typer.Argument(metavar="RECIPE... | RUN...", help="Two or more recipes, or run folders.")
    ],
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, help="Train each recipe on so many tokens.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.01, help="Train each recipe for so many minutes.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=100, help="Runs of each recipe.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder for the runs of recipes, and for the page, compare.html."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train recipes on the same data, or compare finished runs, in one table and on one page."""
    if len(what) < 2:
        raise ConfigError("compare needs two or more recipes, or two or more run folders.\nGive another one.")
    if tokens is not None and minutes is not None:
        raise ConfigError("--tokens and --minutes exclude each other.\nGive only one of them.")
    are_folders = [Path(name).is_dir() for name in what]
    if any(are_folders) and not all(are_folders):
        raise ConfigError("Recipes and run folders are mixed.\nGive recipes only, or run folders only.")
    if all(are_folders):
        if tokens is not None or minutes is not None or seeds != 1:
            raise ConfigError(
                "--tokens, --minutes and --seeds are for recipes; these runs are finished.\nOmit them."
            )
        runs = open_runs(what)
    else:
        from clearhead.training.run.compare import Budget

        out = out or Path("runs") / "-or-".join(Path(name).stem for name in what)
        runs = train_all(what, out, Budget(tokens, minutes), seeds)
    show_comparison(measure_all(runs), out, json)


def open_runs(names: Sequence[str]) -> "list[FinishedRun]":
    """Finished runs that can be compared."""
    with Stages("Loading PyTorch") as stages:
        from clearhead.training.run.compare import check_comparable, open_run, with_names

        stages.show("Reading the test data")
        runs = with_names([open_run(Path(name), name) for name in names])
        check_comparable(runs)
    return runs


def train_all(recipes: Sequence[str], out: Path, budget: "Budget", seeds: int) -> "list[FinishedRun]":
    """Trains what is not finished yet, one after the other."""
    from clearhead.training.run.compare import check_comparable, claim, open_run, plan_runs

    planned = plan_runs(recipes, out, budget, seeds)
    claim(out, planned, budget)
    for number, run in enumerate(planned, 1):
        if not run.is_finished:
            print(for_stream(f"{number} of {len(planned)}: {run.place}", sys.stderr), file=sys.stderr)
            train_one(run)
    finished = [open_run(run.place, run.place.name, run.group) for run in planned]
    check_comparable(finished)
    return finished


def train_one(planned: "PlannedRun") -> None:
    """Trains a run to its end and evaluates it; after Ctrl-C the same command continues it."""
    from clearhead.cli.request import Request
    from clearhead.cli.train import evaluate_best, prepare_run, train_and_show

    request = Request(planned.to_continue(), planned.place, planned.is_started)
    try:
        run = prepare_run(request)
        train_and_show(request, run)
        evaluate_best(run)
    except (typer.Exit, KeyboardInterrupt):
        print("The comparison is not finished: give the same command again to continue it.", file=sys.stderr)
        raise


def measure_all(runs: "Sequence[FinishedRun]") -> "list[ComparedRun]":
    """Evaluates and times every run."""
    from clearhead.training.run.compare import measure

    measured = []
    with Stages("Evaluating") as stages:
        for run in runs:
            stages.show(f"Evaluating {run.name}")
            measured.append(measure(run))
    return measured


def show_comparison(compared: "Sequence[ComparedRun]", out: Path | None, json: bool) -> None:
    """Prints the table, and writes the page if there is a folder for it."""
    from clearhead.training.reporting.comparison import comparison_page, write_comparison

    facts = [facts_of(run, compared) for run in compared]
    page = None if out is None else out / PAGE
    table = table_of(facts)
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        title = " or ".join(dict.fromkeys(run.run.group for run in compared)) + "?"
        histories = {run.run.name: run.history for run in compared}
        write_comparison(page, comparison_page(title, table, histories))
    if json:
        result = {"split": compared[0].run.split, "runs": facts, "groups": groups_of(facts)}
        print(json_format.dumps(result | ({"page": str(page)} if page else {}), ensure_ascii=False))
        return
    print_table(table)
    if page is not None:
        print(f"\nWrote {shlex.quote(str(page))}: the table and the curves.")


def facts_of(one: "ComparedRun", compared: "Sequence[ComparedRun]") -> dict[str, Any]:
    """The numbers of a run; the test compares it with the first run of the same seed."""
    from clearhead.training.evaluation.paired import p_value

    first = next(
        (other for other in compared if other.run.config.training.seed == one.run.config.training.seed),
        compared[0],
    )
    name = one.scored.name if one.scored is not None else "accuracy" if "accuracy" in one.quality else "loss"
    interval = one.scored.interval() if one.scored is not None else None
    is_tested = first is not one and one.scored is not None and first.scored is not None
    return {
        "name": one.run.name,
        "group": one.run.group,
        "seed": one.run.config.training.seed,
        "score": name,
        "value": one.quality[name],
        "interval": interval,
        "against": first.run.name if is_tested else None,
        "p_value": p_value(first.scored, one.scored) if is_tested else None,  # type: ignore[arg-type]
        "quality": {key: value for key, value in one.quality.items() if key not in ("labels", "confusion")},
        "parameters": one.parameters,
        "seconds": one.seconds,
        "tokens_per_second": one.tokens_per_second,
        "decoding_per_second": one.decoding_per_second,
        "decoding_unit": "texts" if one.run.config.kind == "labelled" else "tokens",
        "memory_bytes": one.memory_bytes,
        "unknown": one.unknown,
    }


def groups_of(facts: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The mean and the standard deviation over the seeds of each recipe."""
    groups: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(row["group"] for row in facts):
        values = [row["value"] for row in facts if row["group"] == name]
        spread = statistics.stdev(values) if len(values) > 1 else None
        groups[name] = {"runs": len(values), "mean": statistics.mean(values), "deviation": spread}
    return groups


def table_of(facts: Sequence[dict[str, Any]]) -> "ComparisonTable":
    """The numbers as texts, with notes on what they mean."""
    from clearhead.training.reporting.comparison import ComparisonTable
    from clearhead.training.reporting.wording import MEANINGS, duration, format_score
    from clearhead.training.run.disk import format_bytes

    score, unit = facts[0]["score"], facts[0]["decoding_unit"]
    use = "classifying" if unit == "texts" else "writing"
    headings = [
        "run",
        score.replace("_", " "),
        "95 % interval",
        "p",
        "parameters",
        "time",
        "training tokens/s",
        f"{use} {unit}/s",
        "memory",
    ]
    rows = []
    for row in facts:
        interval = (
            "-"
            if row["interval"] is None
            else " to ".join(format_score(score, end) for end in row["interval"])
        )
        speed = row["decoding_per_second"]
        rows.append(
            [
                row["name"],
                format_score(score, row["value"]),
                interval,
                "-" if row["p_value"] is None else f"{row['p_value']:.3f}",
                f"{row['parameters']:,}",
                duration(row["seconds"]),
                f"{row['tokens_per_second']:,.0f}",
                "-" if speed is None else f"{speed:,.0f}",
                format_bytes(row["memory_bytes"]),
            ]
        )
    notes = [
        f"{score.replace('_', ' ')}: {MEANINGS.get(score, '')}; {facts[0]['quality']['examples']:,} examples of the "
        f"{facts[0]['quality']['split']} data.",
        "p: how often a difference to the first run as large as this one arises by chance (approximate randomization); "
        f"below {HIGHEST} it is unlikely to be chance. It says nothing about another seed.",
        "time: of training, without evaluations; memory: weights, gradients and optimizer in training.",
    ]
    if score == "bits_per_byte":
        notes.append("Curves: losses per token, which cannot be compared between different tokenizers.")
    notes += [
        f"{row['name']}: {row['unknown']:.2%} of the tokens are unknown to its tokenizer. What they spell costs it "
        "nothing, so its bits per byte are too low."
        for row in facts
        if row["unknown"]
    ]
    for name, group in groups_of(facts).items():
        if group["deviation"] is not None:
            mean, spread = (format_score(score, group[key]) for key in ("mean", "deviation"))
            notes.insert(0, f"{name}: mean {mean} over {group['runs']} seeds, standard deviation {spread}.")
    return ComparisonTable(headings, rows, notes)


def print_table(table: "ComparisonTable") -> None:
    """Prints a table and its notes."""
    lines = [table.headings, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headings))]
    for name, *values in lines:
        cells = [f"{value:>{width}}" for value, width in zip(values, widths[1:], strict=True)]
        print(for_stream("  ".join([f"{name:{widths[0]}}", *cells]), sys.stdout))
    print()
    for note in table.notes:
        print(for_stream(note, sys.stdout))
