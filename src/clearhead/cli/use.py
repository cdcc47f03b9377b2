"""`clearhead generate`, `translate`, `classify` and `embed`: use a model on a text, a file or standard input.

The result of a single text is printed as it is. Each line of a file gives one line, in order; a line break inside a
result is then written \\n. With `--json` each result is an object on its own line.
"""

import json as json_format
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.job import Job
from clearhead.cli.options import (
    Chat,
    Cut,
    Int8,
    ModelFolder,
    Pairs,
    SplitSentences,
    System,
    Threshold,
    Truncate,
    with_decoding,
    with_job,
)
from clearhead.cli.stages import load_pytorch
from clearhead.cli.terminal import for_stream
from clearhead.config.decoding import DecodingConfig

if TYPE_CHECKING:
    from clearhead.api import Model
    from clearhead.decoding.generate import Generation, Generator, Prompt
    from clearhead.decoding.read import Answer, LabelItem, Reader


@with_decoding
@with_job
def generate(
    model: ModelFolder,
    settings: DecodingConfig,
    job: Job,
    chat: Chat = None,
    system: System = None,
    int8: Int8 = False,
) -> None:
    """Continue a prompt, or answer it."""
    generator = load(model, int8).generator
    made = {"command": "generate", "chat": chat, "system": system} | rounded(int8)
    if chat is None and system is None and generator.is_asked("text" if job.text is None else job.text):
        print(
            "Trained on conversations: a text is answered as a user's message. Continue it with --no-chat.",
            file=sys.stderr,
        )
    if job.text is not None and not job.json and job.output is None and settings.n_best == 1:
        reasons: Counter[str] = Counter()
        for piece in generator.stream(generator.prompt(job.text, chat=chat, system=system), settings):
            print(for_stream(piece.text, sys.stdout), end="", flush=True)
            reasons.update([piece.reason] if piece.reason else [])
        print()
        report_truncated(reasons, settings)
        return
    write(job, generator, model, settings, made)


@with_decoding
@with_job
def translate(
    model: ModelFolder,
    settings: DecodingConfig,
    job: Job,
    split_sentences: SplitSentences = None,
    int8: Int8 = False,
) -> None:
    """Translate a text."""
    loaded = load(model, int8)
    loaded.check_translates()
    made = {"command": "translate", "split_sentences": split_sentences} | rounded(int8)
    write(job, loaded.generator, model, settings, made)


@with_job
def classify(
    model: ModelFolder,
    job: Job,
    truncate: Truncate = False,
    threshold: Threshold = 0.5,
    pairs: Pairs = False,
    cut: Cut = False,
    int8: Int8 = False,
) -> None:
    """Predict the class of a text, its labels, or the label of each word."""
    reader = load(model, int8).reader
    reader.check_classes()

    unknown, shortened, truncate = 0, 0, truncate or cut

    def prepare(line: str) -> "LabelItem":
        nonlocal shortened
        item = reader.line_item(line, truncate, pairs)
        shortened += item.is_truncated
        return item

    def work(items: list["LabelItem"]) -> list[list[str]]:
        nonlocal unknown
        results = reader.classify(items, threshold)
        unknown += sum(result.is_mostly_unknown for result in results)
        return [[dumps(answer_json(result)) if job.json else answer_line(result)] for result in results]

    made = {"command": "classify", "truncate": truncate, "threshold": threshold, "pairs": pairs}
    job.run(prepare, work, model, made | rounded(int8))
    report_shortened(shortened, reader)
    if unknown:
        texts = "1 text is" if unknown == 1 else f"{unknown:,} texts are"
        print(
            f"warning: {texts} unknown to the model by half or more; do not trust the class.", file=sys.stderr
        )


@with_job
def embed(
    model: ModelFolder, job: Job, truncate: Truncate = False, cut: Cut = False, int8: Int8 = False
) -> None:
    """Turn a text into one vector."""
    reader = load(model, int8).reader

    def work(rows: list[list[int]]) -> list[list[str]]:
        # Nine digits identify every float32.
        vectors = [[f"{value:.9g}" for value in vector] for vector in reader.embed(rows).tolist()]
        if job.json:
            return [[dumps({"vector": [float(value) for value in vector]})] for vector in vectors]
        return [[" ".join(vector)] for vector in vectors]

    run(job, reader, work, model, {"command": "embed", "truncate": truncate or cut} | rounded(int8))


def answer_line(answer: "Answer") -> str:
    """An answer as one line: label and probability, label:probability of those that fit, or word/label of each word."""
    from clearhead.decoding.read import SeveralLabels, Tagging

    if isinstance(answer, Tagging):
        return " ".join(
            f"{word}/{label or '?'}" for word, label in zip(answer.words, answer.labels, strict=True)
        )
    if isinstance(answer, SeveralLabels):
        return "\t".join(f"{label}:{answer.probabilities[label]:.4f}" for label in answer.labels) or "-"
    return f"{answer.label}\t{answer.probabilities[answer.label]:.4f}"


def answer_json(answer: "Answer") -> dict[str, Any]:
    """An answer as JSON; a span also has its words."""
    from clearhead.decoding.read import Tagging

    values = asdict(answer)
    if isinstance(answer, Tagging):
        for span in values["spans"]:
            span["text"] = " ".join(answer.words[span["start"] : span["end"]])
    return values


def run(
    job: Job,
    reader: "Reader",
    work: Callable[[list[list[int]]], list[list[str]]],
    model: Path,
    made: dict[str, Any],
) -> None:
    """Reads every text; reports on standard error how many were truncated."""
    count, truncate = 0, made["truncate"]

    def prepare(text: str) -> list[int]:
        nonlocal count
        tokens = reader.tokens(text)
        count += truncate and reader.is_too_long(tokens)
        return reader.framed(tokens, truncate)

    job.run(prepare, work, model, made)
    report_shortened(count, reader)


def report_shortened(count: int, reader: "Reader") -> None:
    """Reports on standard error how many texts were truncated."""
    if count:
        texts = "1 text has" if count == 1 else f"{count:,} texts have"
        print(f"{texts} more tokens than the context of {reader.config.context}: only the beginning was read.",
              file=sys.stderr)  # fmt: skip


def rounded(int8: bool) -> dict[str, bool]:
    """What is recorded of --int8 beside an output file: nothing if it is not given, as before it existed."""
    return {"int8": True} if int8 else {}


def load(folder: Path, int8: bool = False) -> "Model":
    """The model of a folder."""
    load_pytorch(f"Reading {folder}")
    from clearhead.api import load as load_model

    return load_model(folder, int8=int8)


def write(
    job: Job, generator: "Generator", folder: Path, settings: DecodingConfig, made: dict[str, Any]
) -> None:
    """Continues, answers or translates every text."""
    reasons: Counter[str] = Counter()

    def work(prompts: list["Prompt"]) -> list[list[str]]:
        found = generator.complete(prompts, settings)
        reasons.update(best[0].reason for best in found)
        has_top = bool(settings.logprobs)
        return [
            [dumps(generation_json(best, has_top))] if job.json else [one.text for one in best]
            for best in found
        ]

    how = {key: made[key] for key in ("split_sentences", "chat", "system") if key in made}
    job.run(
        lambda text: generator.prompt(text, **how),
        work,
        folder,
        made | settings.model_dump(mode="json"),
    )
    if not job.json:  # where each result contains its reason
        report_truncated(reasons, settings)


def report_truncated(reasons: "Counter[str]", settings: DecodingConfig) -> None:
    """Reports on standard error which texts were truncated, and why."""
    limits = {
        "length": f"after max_tokens = {settings.max_tokens}",
        "context": "where the model's context was full",
        "time": f"after {settings.seconds} seconds",
    }
    for reason, where in limits.items():
        if count := reasons[reason]:
            texts = "The text" if reasons.total() == 1 else f"{count} of {reasons.total()} texts"
            print(f"{texts} ended {where}.", file=sys.stderr)


def generation_json(best: list["Generation"], has_top: bool = False) -> dict[str, Any]:
    """A generation as JSON, with the next best ones where there are any."""
    first, *others = best
    values: dict[str, Any] = {"text": first.text, "tokens": first.tokens, "reason": first.reason}
    values["logprobs"] = first.logprobs
    if has_top:
        values["top"] = first.top
    if first.score is not None:
        values["score"] = first.score
    if others:
        values["others"] = [generation_json([other]) for other in others]
    return values


def dumps(value: Any) -> str:
    """One line of JSON."""
    return json_format.dumps(value, ensure_ascii=False)
