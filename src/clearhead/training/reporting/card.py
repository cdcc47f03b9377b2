"""`card.md` of a model folder: what the model is, what it was trained on, how good it is, and how to use it."""

import re

from clearhead import __version__
from clearhead.data.audit import table_of
from clearhead.training.loop.records import EvaluationRecord
from clearhead.training.reporting.summary import RunSummary
from clearhead.training.reporting.wording import describe_model, duration, explain_scores


def card_of(summary: RunSummary, name: str = "best") -> str:
    """The card of the model folder of this name, as far as is known."""
    parts = [
        f"# {summary.out.name}\n\n{opening(summary, name)}",
        f"## Use\n\n{usage(summary, name)}",
        f"## Quality\n\n{quality_text(summary, name)}",
        f"## Data\n\n{data_table(summary)}",
        f"## Limits\n\n{summary.config.task_row.limits}",
        f"## Settings\n\n{fenced(summary.config.to_toml(), 'toml')}",
    ]
    return "\n\n".join(parts) + "\n"


def opening(summary: RunSummary, name: str) -> str:
    """What the model is, in two sentences."""
    model, record = summary.config.model, evaluation(summary, name)
    step = record.step if record else summary.history.step
    trained = f"{step:,} of {summary.steps:,} steps"
    if known := [record for record in summary.history.steps if record.step <= step]:
        trained += f" ({known[-1].epoch:.1f} epochs, {duration(known[-1].seconds)})"
    what = summary.config.task_row.noun
    return (
        f"{what[0].upper()}{what[1:]}: {describe_model(model)}, "
        f"{summary.parameters:,} weights, {model.vocabulary:,} {summary.config.tokenizer.kind} tokens. "
        f"Trained with clearhead {__version__}; these are the weights after {trained}."
    )


def evaluation(summary: RunSummary, name: str) -> EvaluationRecord | None:
    """The evaluation of the model in this folder: the best, or the last."""
    return summary.history.best if name == "best" else next(iter(summary.history.evaluations[-1:]), None)


def usage(summary: RunSummary, name: str) -> str:
    """How to use the model, on the command line and in Python."""
    folder, verb = summary.out / name, summary.config.task_row.verb
    if verb is None:
        return (
            f'Fine-tune a classifier from it, with `training.init_from = "{code(str(folder))}"` in a recipe, '
            f"or use its vectors:\n\n{fenced(f'clearhead embed {folder} TEXT', 'text')}"
        )
    python = f'import clearhead\n\nmodel = clearhead.load("{folder}")\nmodel.{verb}("…")\n'
    return f"{fenced(f'clearhead {verb} {folder} TEXT', 'text')}\n\n{fenced(python, 'python')}"


def quality_text(summary: RunSummary, name: str) -> str:
    """The scores: the validation loss during training, and the evaluation at the end."""
    lines, record = [], evaluation(summary, name)
    quality = summary.quality if name == "best" else None
    if record is not None:
        lines.append(f"Validation loss {record.validation_loss:.4f} after step {record.step:,}.")
    if quality:
        rows = [f"| {name} | {cell(value)} | {meaning} |" for name, value, meaning in explain_scores(quality)]
        title = f"On the {quality.get('split', 'held-out')} data:"
        lines += [title, "\n".join(["| measure | value | meaning |", "|---|---:|---|", *rows])]
        lines += [f"`{code(value)}`" for key, value in quality.items() if key.endswith("_signature")]
    return "\n\n".join(lines) or "Not evaluated."


def data_table(summary: RunSummary) -> str:
    """What was read, as a table."""
    audit = summary.data.audit
    sources = [
        f"- {split}: {', '.join(f'`{code(source)}`' for source in report.sources[:8])}"
        for split, report in audit.splits.items()
    ]
    head = ["| | " + " | ".join(audit.splits) + " |", "|---|" + "---:|" * len(audit.splits)]
    rows = [f"| {cell(name)} | {' | '.join(values)} |" for name, values in table_of(audit)]
    return "\n".join([*sources, "", *head, *rows])


def code(text: str) -> str:
    """A text inside backticks: one line, without backticks of its own."""
    return re.sub(r"\s+", " ", text).replace("`", "'")


def cell(text: str) -> str:
    """A text in a table: one line, with the marks of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#!])", r"\\\1", re.sub(r"\s+", " ", text))


def fenced(text: str, kind: str) -> str:
    """A block of code, fenced by more backticks than it contains."""
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", text)), default=0))
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"
