"""`clearhead demo`: the main job end to end: train a translator, evaluate it, translate, and look inside it.

Sentences enter as arguments; their translations leave on stdout, with its scores and a picture of its
cross-attention. A demo that was trained before is reused.
"""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.api import Model

RECIPE = "spanish-translator"
SENTENCES = ("Tengo un coche.", "Todavía no tengo hambre.")  # of the lecture, and never in the training data
NEXT = """Next:
  clearhead explore {out}    every number of a pass, in the browser
  clearhead demo "La chica lee un libro rojo."    your own sentence
  clearhead train translate YOURS.es YOURS.en    a translator of your own files
  clearhead train language-model BOOK.txt --minutes 10    or a language model
  open {out}/report.html in a browser"""


def demo(
    context: typer.Context,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Spanish sentences to translate, in addition to the two of the lecture."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Run folder; an existing model in it is reused."),
    ] = Path("runs/demo"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Train a Spanish-to-English translator, evaluate it, translate with it, and look inside it.

    Override settings of its recipe by name: --training.steps 3000.
    """
    from rich.console import Console

    from clearhead.cli.request import split_arguments

    words, overrides = split_arguments([*(sentences or []), *context.args])
    console = Console(stderr=json, soft_wrap=True, highlight=False)
    console.print(f"Spanish to English: the recipe {RECIPE}, into {out}\n", markup=False)
    from clearhead.api import load  # behind the first line, as it takes seconds

    quality = train_or_reuse(console, out, overrides)
    model = load(out / "best")
    asked = [*SENTENCES, *words]
    made = model.translate(asked)
    console.print("\nSentences that the model has never read:")
    for source, target in zip(asked, made, strict=True):
        console.print(f"  {source}\n    {target}", markup=False)
    draw(console, model, asked[-1], made[-1])
    console.print(f"\n{NEXT.format(out=out)}", markup=False)
    if json:
        translations = dict(zip(asked, made, strict=True))
        print(
            json_format.dumps(quality | {"translations": translations, "out": str(out)}, ensure_ascii=False)
        )


def train_or_reuse(console: "Console", out: Path, overrides: dict[str, str]) -> dict[str, Any]:
    """Trains the model, resumes it or finds it done; its scores on held-out sentences."""
    from clearhead.cli.request import find_request
    from clearhead.cli.train import evaluate_best, prepare_run, show_plan, show_result, train_and_show
    from clearhead.training.run.folder import QUALITY

    if (out / QUALITY).is_file():
        console.print(
            f"{out} already contains a trained model; name another --out to train a new one.", markup=False
        )
        return dict(json_format.loads((out / QUALITY).read_text(encoding="utf-8")))
    resume = (out / "checkpoints").is_dir()
    request = find_request([str(out) if resume else RECIPE], overrides, out, resume, None)
    try:
        run = prepare_run(request)
        show_plan(console, request, run)
        train_and_show(request, run)
        quality = evaluate_best(run) or {}
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        raise typer.Exit(130) from None
    show_result(console, run)
    return quality


def draw(console: "Console", model: "Model", source: str, target: str) -> None:
    """Draws what each English word attends to in the Spanish sentence, in the sharpest head."""
    from clearhead.inspection.figures import attention_of, for_terminal

    attention = attention_of(model.bundle, source, target)
    head = attention.sharpest
    console.print(f"\nWhat each English word attends to, in head {head} (darker is more):\n")
    console.print(for_terminal(attention, head), markup=False)
