"""`card.md` of a model folder: what the model is, what it learned from, how good it is, and how to use it."""

import re
from typing import TYPE_CHECKING

from clearhead import __version__
from clearhead.data.table import table_of
from clearhead.training.report import TASKS, duration, in_words, measures
from clearhead.training.trainer import EvaluationRecord

if TYPE_CHECKING:
    from clearhead.training.runs import Run

VERBS = {"language-model": "generate", "translate": "translate", "classify": "classify"}
LIMITS = {
    "language-model": "It writes in the manner of its data, not what is true.",
    "masked-language-model": "It fills gaps in texts like those of its data; fine-tune it for other work.",
    "translate": "Words and kinds of sentences that its data lacks are translated badly, and it does not say so.",
    "classify": "It knows the labels above and no others: a text of another kind is given one of them all the same.",
}


def card_of(run: "Run", name: str = "best") -> str:
    """The card of the model folder with this name, with what is known so far."""
    parts = [
        f"# {run.out.name}\n\n{opening(run, name)}",
        f"## Use\n\n{usage(run, name)}",
        f"## Quality\n\n{measured(run, name)}",
        f"## Data\n\n{data(run)}",
        f"## Limits\n\n{LIMITS[run.config.task]}",
        f"## Settings\n\n{fenced(run.config.to_toml(), 'toml')}",
    ]
    return "\n\n".join(parts) + "\n"


def opening(run: "Run", name: str) -> str:
    """What the model is, in two sentences."""
    model, record = run.config.model, evaluation(run, name)
    step = record.step if record else run.history.step
    trained = f"{step:,} of {run.plan.steps:,} steps"
    if known := [record for record in run.history.steps if record.step <= step]:
        trained += f" ({known[-1].epoch:.1f} epochs, {duration(known[-1].seconds)})"
    what = TASKS[run.config.task]
    return (
        f"{what[0].upper()}{what[1:]}: {in_words(model)}, "
        f"{run.plan.parameters:,} weights, {model.vocabulary:,} tokens of the kind {run.config.tokenizer.kind}. "
        f"Trained with clearhead {__version__}; these are the weights after {trained}."
    )


def evaluation(run: "Run", name: str) -> EvaluationRecord | None:
    """The evaluation of the model in this folder: the best one, or the last."""
    return run.history.best if name == "best" else next(iter(run.history.evaluations[-1:]), None)


def usage(run: "Run", name: str) -> str:
    """Commands and Python that use the model."""
    folder, task = run.out / name, run.config.task
    if task == "masked-language-model":
        return (
            f'Start a classifier from it, with `training.init_from = "{code(str(folder))}"` in a recipe, '
            f"or take its vectors:\n\n{fenced(f'clearhead embed {folder} TEXT', 'text')}"
        )
    verb = VERBS[task]
    python = f'import clearhead\n\nmodel = clearhead.load("{folder}")\nmodel.{verb}("…")\n'
    return f"{fenced(f'clearhead {verb} {folder} TEXT', 'text')}\n\n{fenced(python, 'python')}"


def measured(run: "Run", name: str) -> str:
    """The numbers there are: of the validation while it trained, and of the whole measurement at the end."""
    lines, record = [], evaluation(run, name)
    quality = run.quality if name == "best" else None
    if record is not None:
        lines.append(f"Validation loss {record.validation_loss:.4f} after step {record.step:,}.")
    if quality:
        rows = [f"| {' | '.join(cells)} |" for cells in measures(quality)]
        title = f"On the {quality.get('split', 'held-out')} data:"
        lines += [title, "\n".join(["| measure | value | meaning |", "|---|---:|---|", *rows])]
        lines += [f"`{code(value)}`" for key, value in quality.items() if key.endswith("_signature")]
    return "\n\n".join(lines) or "Nothing was measured."


def data(run: "Run") -> str:
    """What was read, as a table."""
    audit = run.data.audit
    sources = [
        f"- {split}: {', '.join(f'`{code(source)}`' for source in report.sources[:8])}"
        for split, report in audit.splits.items()
    ]
    head = ["| | " + " | ".join(audit.splits) + " |", "|---|" + "---:|" * len(audit.splits)]
    rows = [f"| {cell(name)} | {' | '.join(values)} |" for name, values in table_of(audit)]
    return "\n".join([*sources, "", *head, *rows])


def code(text: str) -> str:
    """A text inside back-ticks: one line, without back-ticks of its own."""
    return re.sub(r"\s+", " ", text).replace("`", "'")


def cell(text: str) -> str:
    """A text in a table: one line, with the marks of Markdown and HTML made plain."""
    return re.sub(r"([\\`*_{}\[\]<>|#!])", r"\\\1", re.sub(r"\s+", " ", text))


def fenced(text: str, kind: str) -> str:
    """A block of code, fenced by more back-ticks than it holds."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"
