"""`clearhead train`: a recipe, or a task and files, enter; a run folder with a trained model leaves.

The plan comes first; results go to stdout, progress to stderr. Ctrl-C saves a checkpoint and says how to resume.
"""

import json as json_format
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.request import Request, find_request, split_arguments
from clearhead.cli.stages import Stages
from clearhead.config.tasks import TASKS

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.training.run.plan import Plan
    from clearhead.training.run.run import Run


def train(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE | TASK FILES...",
            help=f"A recipe: a file, or the name of a shipped one. Or a task ({', '.join(TASKS)}) and files; clearhead "
            "then chooses a recipe. Or a run folder, with --resume.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Run folder; default: runs/NAME.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the latest checkpoint.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print the plan and exit.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes", min=0.01, help="Minutes to train, instead of the recipe's steps or epochs."
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            min=0,
            help="With a task and files: on how many parts of the training data recipes are tried at "
            "most before one is chosen; 0: by rule, without trials.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Train a model: print the plan, train while writing a report, and evaluate the best model.

    Override settings of the recipe by name: --training.learning_rate 3e-4.
    """
    from rich.console import Console

    # With --json, stdout is for the one object, and what people read goes to stderr.
    console = Console(stderr=json, soft_wrap=True, highlight=False)
    words, overrides = split_arguments([what, *context.args])
    request: Request | None = None
    with among_ranks() as is_first, ExitStack() as claims:
        try:
            request = share_request(
                lambda: find_request(
                    words,
                    overrides,
                    out,
                    resume,
                    minutes,
                    None if plan else claims,
                    0 if plan and trials is None else trials,  # a plan takes seconds
                )
            )
            run = prepare_run(request)
            show_plan(console, request, run)
            if plan:
                facts = plan_json(run) | {"audit": run.data.audit.to_json()}
            else:
                train_and_show(request, run)
                if not is_first:
                    return
                facts = plan_json(run) | result_json(run) | {"quality": evaluate_best(run)}
                show_result(console, run)
                show_next(console, run)
        except KeyboardInterrupt:
            advice = f"\n{resume_hint(request.out)}" if request and request.is_started else ""
            print(f"\nStopped.{advice}", file=sys.stderr)
            raise typer.Exit(130) from None
        if json:
            print(json_format.dumps(facts, ensure_ascii=False))


def is_alone() -> bool:
    """Whether `torchrun` has not started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1


@contextmanager
def among_ranks() -> Iterator[bool]:
    """Joins the other ranks, if there are any, and silences all but the first; whether this is the first."""
    if is_alone():
        yield True
        return
    from clearhead.training.distributed.ranks import is_first, process_group

    with process_group(), ExitStack() as stack:
        if not is_first():
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        yield is_first()


def share_request(find: Callable[[], Request]) -> Request:
    """The request as the first rank finds it: another machine might choose another recipe for the same files."""
    if is_alone():
        return find()
    from clearhead.training.distributed.ranks import broadcast_from_first

    return Request.from_json(broadcast_from_first(lambda: find().to_json()))


def prepare_run(request: Request) -> "Run":
    """The run, with its data prepared and its plan made."""
    from clearhead.cli.data import describe_progress

    with Stages("Loading PyTorch") as stages:
        from clearhead.training.run.run import make_run

        stages.show("Reading the data")
        run = make_run(
            request.config,
            request.out,
            lambda progress: stages.show("Preparing the data", describe_progress(progress)),
            lambda: stages.show("Planning: trial steps"),
        )
    run.notes[:0] = request.reasons
    run.observer.summary = replace(run.summary, trials=request.trials)
    return run


def show_plan(console: "Console", request: Request, run: "Run") -> None:
    """Prints the plan before the first step."""
    from clearhead.cli.data import print_audit
    from clearhead.exchange.families.accepted_by import describe_export
    from clearhead.training.reporting.wording import describe_model, duration
    from clearhead.training.run.disk import format_bytes

    plan = run.plan
    for line in (*describe_trials(request.trials), *run.notes):
        console.print(f"· {line}", markup=False)
    print_audit(console, "", run.data.audit, with_lengths=False)
    epochs = f"{plan.epochs:.3g}" if plan.epochs < 1000 else f"{plan.epochs:,.0f}"
    length = f"{plan.steps:,} steps of {plan.tokens_per_step:,} tokens, {epochs} epoch{'s' * (epochs != '1')}"
    rows = {
        "model": f"{describe_model(run.config.model)}: {plan.parameters:,} parameters",
        "export": describe_export(run.model.config),
        "training": f"{length}, about {duration(plan.seconds)}",
        "measured": describe_trial(plan),
        "precision": describe_precision(plan),
        "memory": f"about {format_bytes(plan.memory_bytes)} of {format_bytes(plan.free_bytes)} free",
        "disk": f"about {format_bytes(plan.disk_bytes)} of {format_bytes(plan.free_disk_bytes)} free; "
        f"a checkpoint every {plan.checkpoint_every:,} steps",
        "writes to": f"{run.out}" + (", resuming" if request.resume else ""),
    }
    for name, value in rows.items():
        console.print(f"{name:10} {value}", markup=False)


def describe_trials(trials: dict[str, Any] | None) -> Iterator[str]:
    """A line for each recipe that was tried, the best first, and for the floor."""
    from clearhead.training.reporting.trials import describe_score, measure_of

    for row in trials["candidates"] if trials else ():
        measure = measure_of(trials or {})
        score = describe_score(row[measure], row["standard_error"], measure)
        score += " right" if measure == "accuracy" else ""
        folds = f"{row['folds']} part{'s' * (row['folds'] != 1)} of the training data"
        yield f"tried {row['name']}: {score} on {folds}, {row['seconds']:.0f} s"
    for judged in (trials or {"floor": ()})["floor"][:1]:
        yield f"tried a bag of n-grams, the floor: {100 * judged['accuracy']:.1f} % right"


def describe_trial(plan: "Plan") -> str:
    """What the predicted time was measured on, and how steady it was."""
    steps = f"{plan.trial_steps} trial step{'s' * (plan.trial_steps != 1)}"
    low, high = (f"{seconds:.2g}" for seconds in (plan.fastest_step, plan.slowest_step))
    spread = f"{low} to {high}" if low != high else low
    return f"{steps} of {spread} s" + ("" if plan.is_steady else ": unsteady, so the time may differ as much")


def describe_precision(plan: "Plan") -> str:
    """The number format of the forward pass, and why, if both were measured."""
    gain = plan.bfloat16_gain
    return plan.precision + ("" if gain is None else f": bfloat16 is {gain:.2f} × as fast as float32 here")


def train_and_show(request: Request, run: "Run") -> None:
    """Trains and shows the progress; a signal saves a checkpoint and says how to resume."""
    from clearhead.cli.progress import Display

    caught: list[int] = []
    with Display(run.plan.steps) as display:

        def stop(number: int) -> None:
            caught.append(number)
            run.stop()
            what = "once the models are written" if run.is_done else "after this step, with a checkpoint"
            display.say(f"Stopping {what}; interrupt again to stop immediately.")

        if not display.is_live:
            display.say(f"Training, {run.plan.steps:,} steps ...")
        with on_signals(stop):
            record = None
            for record in run.train(request.resume):
                display.show(record)
    if record is None and request.resume and not caught:
        print(extension_hint(run.out, run.step), file=sys.stderr)
    if caught or not run.is_done:  # this rank or another one was asked to stop
        kept = (
            "The model is trained but not evaluated yet."
            if run.is_done
            else f"Stopped after step {run.step:,} of {run.plan.steps:,}; checkpoint saved."
        )
        print(f"{kept}\n{resume_hint(run.out)}", file=sys.stderr)
        raise typer.Exit(128 + (caught or [signal.SIGTERM])[0])


def resume_hint(out: Path) -> str:
    """How to resume a run."""
    return f"Resume with: clearhead train {shlex.quote(str(out))} --resume"


def extension_hint(out: Path, steps: int) -> str:
    """How to train a finished run further."""
    place = shlex.quote(str(out))
    return (
        f"The run has already finished, after {steps:,} steps.\n"
        f"Extend it: clearhead train {place} --resume --training.steps {2 * steps}\n"
        f"Or start a new run from its model: --training.init_from {place}"
    )


@contextmanager
def on_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Calls `stop` at the first Ctrl-C or SIGTERM, and then restores what both did before."""
    names = (signal.SIGINT, signal.SIGTERM)

    def first(number: int, frame: FrameType | None) -> None:
        restore()
        stop(number)

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, handler)

    before = {name: signal.signal(name, first) for name in names}
    try:
        yield
    finally:
        restore()


def evaluate_best(run: "Run") -> dict[str, Any] | None:
    """The scores of the best model, if any data is held out."""
    with Stages("Evaluating the best model") as stages:
        return run.evaluate(progress=stages.counter("examples"))


def show_result(console: "Console", run: "Run") -> None:
    """Prints the result."""
    from clearhead.cli.evaluate import show
    from clearhead.training.reporting.wording import duration

    facts = result_json(run)
    console.print(f"\n{run.out}: {facts['steps']:,} steps in {duration(facts['seconds'])}", markup=False)
    if facts["steps"] < run.plan.steps:
        reason = f"{run.config.training.patience} evaluations in a row without improvement"
        console.print(f"Stopped before its {run.plan.steps:,} steps: {reason}.")
    if run.history.best is not None:
        best = run.history.best
        console.print(f"best validation loss {best.validation_loss:.4f}, after step {best.step:,}")
    if run.quality is not None:
        console.print(f"\nThe best model on the {run.quality['split']} data:")
        show({name: value for name, value in run.quality.items() if name != "split"}, console.file)


def show_next(console: "Console", run: "Run") -> None:
    """Prints the commands to try next."""
    from clearhead.data.chats import can_chat

    console.print("\nNext:")
    out = shlex.quote(str(run.out))
    row = run.config.task_row
    is_chat = row.objective == "next" and can_chat(run.data.tokenizers.target)
    first = f"clearhead chat {out}" if is_chat else row.next_command(run.out)
    commands = [first, f"clearhead explore {out}"]
    if run.quality is not None:
        split = run.quality["split"]
        commands.append(f"clearhead evaluate {out}" + f" --split {split}" * (split != "test"))
    for command in commands:
        console.print(f"  {command}", markup=False)
    console.print(f"  open {run.out / 'report.html'} in a browser", markup=False)


def plan_json(run: "Run") -> dict[str, Any]:
    """The plan, for machines."""
    from clearhead.exchange.families.accepted_by import describe_export

    plan = asdict(run.plan) | {"seconds": run.plan.seconds, "export": describe_export(run.model.config)}
    facts = {"out": str(run.out), "task": run.config.task, "reasons": run.notes, "plan": plan}
    return facts | ({"trials": run.summary.trials} if run.summary.trials else {})


def result_json(run: "Run") -> dict[str, Any]:
    """The result, for machines."""
    best = run.history.best
    return {
        "steps": run.step,
        "seconds": run.history.steps[-1].seconds if run.history.steps else 0.0,
        "best_validation_loss": None if best is None else best.validation_loss,
        "best_step": None if best is None else best.step,
        "model": str(run.out / "best"),
        "report": str(run.out / "report.html"),
    }
