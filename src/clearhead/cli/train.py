"""`clearhead train`: from a recipe, or from a task and files, to a run folder with a model that works.

The plan comes first; results are on stdout, progress is on stderr. Ctrl-C saves a checkpoint and says how to go on.
"""

import json as json_format
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.request import Request, find_request, parted

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.training.runs import Run

EXAMPLES = {
    "language-model": 'clearhead generate {out} "{prompt}"',
    "masked-language-model": "clearhead train classify FILE --training.init_from {out}/best",
    "translate": 'clearhead translate {out} "A sentence."',
    "classify": 'clearhead classify {out} "A text."',
}


def train(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE | TASK FILES...",
            help="A recipe: a file, or the name of a shipped one. Or a task (language-model, masked-language-model, "
            "translate, classify) and files, for which a recipe is made. Or a run folder, with --resume.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="The run folder; runs/NAME by default.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and stop.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.01, help="How long to train, in place of steps or epochs."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Train a model: a plan, then training with a report to look at, then its quality.

    Settings of the recipe are overridden by their own names: --training.learning_rate 3e-4.
    """
    from rich.console import Console

    # Where stdout belongs to one JSON object, what people read goes to stderr.
    console = Console(stderr=json, soft_wrap=True, highlight=False)
    words, overrides = parted([what, *context.args])
    request: Request | None = None
    with among_ranks() as is_first:
        try:
            request = agreed(lambda: find_request(words, overrides, out, resume, minutes))
            run = prepared(request)
            show_plan(console, request, run)
            if plan:
                facts = planned(request, run) | {"audit": run.data.audit.to_json()}
            else:
                carry_out(request, run)
                if not is_first:
                    return
                facts = planned(request, run) | done(run) | {"quality": measured(run)}
                show_result(console, run)
                show_next(console, run)
        except KeyboardInterrupt:
            advice = f"\n{way_on(request.out)}" if request and request.is_begun else ""
            print(f"\nStopped.{advice}", file=sys.stderr)
            raise typer.Exit(130) from None
        if json:
            print(json_format.dumps(facts, ensure_ascii=False))


def is_alone() -> bool:
    """Whether this process is not one of several that `torchrun` has started."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1


@contextmanager
def among_ranks() -> Iterator[bool]:
    """Meets the other processes, where there are any; only the first of them prints. Whether this is it."""
    if is_alone():
        yield True
        return
    from clearhead.training.distributed import is_first, joined

    with joined(), ExitStack() as stack:
        if not is_first():
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        yield is_first()


def agreed(find: Callable[[], Request]) -> Request:
    """What the first process finds is asked for; another machine could make another recipe for the same files."""
    if is_alone():
        return find()
    from clearhead.training.distributed import told_by_first

    return Request.from_json(told_by_first(lambda: find().to_json()))


def prepared(request: Request) -> "Run":
    """The run, with its data read and its plan made."""
    from rich.console import Console

    from clearhead.cli.data import told
    from clearhead.training.runs import make_run

    with Console(stderr=True).status("reading") as status:
        run = make_run(request.config, request.out, lambda progress: status.update(told(progress)))
    run.notes[:0] = request.reasons
    return run


def show_plan(console: "Console", request: Request, run: "Run") -> None:
    """What will be done, before the first step."""
    from clearhead.cli.data import show
    from clearhead.training.disk import size
    from clearhead.training.report import duration, in_words

    plan = run.plan
    for line in run.notes:
        console.print(f"· {line}", markup=False)
    show(console, "", run.data.audit, with_lengths=False)
    epochs = f"{plan.epochs:.3g}" if plan.epochs < 1000 else f"{plan.epochs:,.0f}"
    length = f"{plan.steps:,} steps of {plan.tokens_per_step:,} tokens, {epochs} epoch{'s' * (epochs != '1')}"
    rows = {
        "model": f"{in_words(run.config.model)}: {plan.parameters:,} parameters",
        "training": f"{length}, about {duration(plan.seconds)}",
        "memory": f"about {size(plan.memory_bytes)} of {size(plan.free_bytes)} that are free",
        "disk": f"about {size(plan.disk_bytes)} of {size(plan.free_disk_bytes)} that are free; "
        f"a checkpoint every {plan.checkpoint_every:,} steps",
        "writes to": f"{run.out}" + (", where it goes on" if request.resume else ""),
    }
    for name, value in rows.items():
        console.print(f"{name:10} {value}", markup=False)


def carry_out(request: Request, run: "Run") -> None:
    """Trains, and shows how it goes; a stop from outside leaves a checkpoint, and the way to go on."""
    from clearhead.cli.progress import Display

    caught: list[int] = []
    with Display(run.plan.steps) as display:

        def stop(number: int) -> None:
            caught.append(number)
            run.stop()
            what = "when the models are written" if run.is_done else "after this step, with a checkpoint"
            display.say(f"Stopping {what}; once more stops at once.")

        with on_signals(stop):
            for record in run.train(request.resume):
                display.show(record)
    if caught or not run.is_done:  # this process or another one was asked to stop
        kept = (
            "The model is trained, but not measured yet."
            if run.is_done
            else f"Stopped after step {run.step:,} of {run.plan.steps:,}, and kept."
        )
        print(f"{kept}\n{way_on(run.out)}", file=sys.stderr)
        raise typer.Exit(128 + (caught or [signal.SIGTERM])[0])


def way_on(out: Path) -> str:
    """How to go on with a run."""
    return f"Go on with: clearhead train {out} --resume"


@contextmanager
def on_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Calls `stop` at the first Ctrl-C or SIGTERM; after it, both do again what they did before."""
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


def measured(run: "Run") -> dict[str, Any] | None:
    """The quality of the best model, where something is held out."""
    from rich.console import Console

    count = 0
    with Console(stderr=True).status("evaluating the best model") as status:

        def progress(more: int) -> None:
            nonlocal count
            count += more
            status.update(f"evaluating the best model: {count:,} examples")

        return run.evaluate(progress=progress)


def show_result(console: "Console", run: "Run") -> None:
    """What came out of it."""
    from clearhead.cli.evaluate import show
    from clearhead.training.report import duration

    facts = done(run)
    console.print(f"\n{run.out}: {facts['steps']:,} steps in {duration(facts['seconds'])}", markup=False)
    if facts["steps"] < run.plan.steps:
        without = f"{run.config.training.patience} evaluations in a row were no better"
        console.print(f"It ended before its {run.plan.steps:,} steps: {without}.")
    if run.history.best is not None:
        best = run.history.best
        console.print(f"best validation loss {best.validation_loss:.4f}, after step {best.step:,}")
    if run.quality is not None:
        console.print(f"\nThe best model on the {run.quality['split']} data:")
        show({name: value for name, value in run.quality.items() if name != "split"}, console.file)


def show_next(console: "Console", run: "Run") -> None:
    """What to do with it."""
    console.print("\nNext:")
    example = EXAMPLES[run.config.task].format(out=run.out, prompt=prompt_for(run))
    commands = [example, f"clearhead explore {run.out}"]
    if run.quality is not None:
        split = run.quality["split"]
        commands.append(f"clearhead evaluate {run.out}" + f" --split {split}" * (split != "test"))
    for command in commands:
        console.print(f"  {command}", markup=False)
    console.print(f"  look at {run.out / 'report.html'} in a browser", markup=False)


def prompt_for(run: "Run") -> str:
    """How a text begins that the model can go on with; one that learns conversations waits for its marker."""
    tokenizer = run.data.tokenizers.target
    markers = {role: tokenizer.spelling(marker) for role, marker in tokenizer.markers.items()}
    if not {"user", "assistant"} <= markers.keys():
        return "Once upon a time"
    return f"{markers['user']}A question?{markers['assistant']}"


def planned(request: Request, run: "Run") -> dict[str, Any]:
    """The plan, for machines."""
    plan = asdict(run.plan) | {"seconds": run.plan.seconds}
    return {"out": str(run.out), "task": run.config.task, "reasons": run.notes, "plan": plan}


def done(run: "Run") -> dict[str, Any]:
    """What was done, for machines."""
    best = run.history.best
    return {
        "steps": run.step,
        "seconds": run.history.steps[-1].seconds if run.history.steps else 0.0,
        "best_validation_loss": None if best is None else best.validation_loss,
        "best_step": None if best is None else best.step,
        "model": str(run.out / "best"),
        "report": str(run.out / "report.html"),
    }
