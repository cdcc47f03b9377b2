"""`clearhead generate`, `translate`, `classify` and `embed`: use a model on a text, a file or standard input.

A single text gives its result as it is. Lines of a file give a line each, in order; a line break inside a
result is then written \\n. With `--json` each result is an object on a line of its own.
"""

import json as json_format
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.options import (
    Cut,
    Input,
    Job,
    Json,
    ModelFolder,
    Output,
    TextArgument,
    with_decoding,
)
from clearhead.config.decoding import DecodingConfig

if TYPE_CHECKING:
    from clearhead.api import Model
    from clearhead.decoding.generate import Generation, Task
    from clearhead.decoding.read import Reader


@with_decoding
def generate(
    model: ModelFolder,
    settings: DecodingConfig,
    text: TextArgument = None,
    input: Input = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Write on from a prompt."""
    job, loaded = Job(text, input, output, json), load(model)
    if text is not None and not json and output is None and settings.n_best == 1:
        reasons: Counter[str] = Counter()
        for piece in loaded.generator.stream(text, settings):
            print(piece.text, end="", flush=True)
            reasons.update([piece.reason] if piece.reason else [])
        print()
        tell_cut(reasons, settings)
        return
    write(job, loaded, settings, json)


@with_decoding
def translate(
    model: ModelFolder,
    settings: DecodingConfig,
    text: TextArgument = None,
    input: Input = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Translate a text."""
    job, loaded = Job(text, input, output, json), load(model)
    loaded.check_translates()
    write(job, loaded, settings, json)


def classify(
    model: ModelFolder,
    text: TextArgument = None,
    input: Input = None,
    output: Output = None,
    cut: Cut = False,
    json: Json = False,
) -> None:
    """Say which class a text belongs to."""
    job, reader = Job(text, input, output, json), load(model).reader
    reader.check_classes()

    def work(rows: list[list[int]]) -> list[list[str]]:
        results = reader.classify(rows)
        if json:
            return [[dumps({"label": r.label, "probabilities": r.probabilities})] for r in results]
        return [[f"{result.label}\t{result.probabilities[result.label]:.4f}"] for result in results]

    run(job, reader, work, cut)


def embed(
    model: ModelFolder,
    text: TextArgument = None,
    input: Input = None,
    output: Output = None,
    cut: Cut = False,
    json: Json = False,
) -> None:
    """Turn a text into one vector."""
    job, reader = Job(text, input, output, json), load(model).reader

    def work(rows: list[list[int]]) -> list[list[str]]:
        # Nine digits tell every float32 from its neighbours.
        vectors = [[f"{value:.9g}" for value in vector] for vector in reader.embed(rows).tolist()]
        if json:
            return [[dumps({"vector": [float(value) for value in vector]})] for vector in vectors]
        return [[" ".join(vector)] for vector in vectors]

    run(job, reader, work, cut)


def run(job: Job, reader: "Reader", work: Callable[[list[list[int]]], list[list[str]]], cut: bool) -> None:
    """Reads every text; says on standard error how many were cut."""
    count = 0

    def prepare(text: str) -> list[int]:
        nonlocal count
        count += cut and reader.is_too_long(reader.tokenizer.encode(text))
        return reader.ids(text, cut)

    job.run(prepare, work)
    if count:
        texts = "1 text has" if count == 1 else f"{count:,} texts have"
        print(f"{texts} more tokens than the context of {reader.config.context}: only the beginning was read.",
              file=sys.stderr)  # fmt: skip


def load(folder: Path) -> "Model":
    """The model of a folder."""
    from clearhead.api import load as load_model

    return load_model(folder)


def write(job: Job, model: "Model", settings: DecodingConfig, json: bool) -> None:
    """Writes on from every text, or translates it."""
    reasons: Counter[str] = Counter()

    def work(tasks: list["Task"]) -> list[list[str]]:
        found = model.generator.do(tasks, settings)
        reasons.update(best[0].reason for best in found)
        has_top = bool(settings.logprobs)
        return [[dumps(shown(best, has_top))] if json else [one.text for one in best] for best in found]

    job.run(model.generator.task, work)
    if not json:  # where each result has its reason beside it
        tell_cut(reasons, settings)


def tell_cut(reasons: "Counter[str]", settings: DecodingConfig) -> None:
    """Says on standard error which texts did not come to their own end, and why."""
    limits = {
        "length": f"after max_tokens = {settings.max_tokens}",
        "context": "where the model's context was full",
        "time": f"after {settings.seconds} seconds",
    }
    for reason, where in limits.items():
        if count := reasons[reason]:
            texts = "The text" if reasons.total() == 1 else f"{count} of {reasons.total()} texts"
            print(f"{texts} ended {where}.", file=sys.stderr)


def shown(best: list["Generation"], has_top: bool = False) -> dict[str, Any]:
    """A generation as JSON, with the next best ones where there are any."""
    first, *others = best
    values: dict[str, Any] = {"text": first.text, "tokens": first.tokens, "reason": first.reason}
    values["logprobs"] = first.logprobs
    if has_top:
        values["top"] = first.top
    if first.score is not None:
        values["score"] = first.score
    if others:
        values["others"] = [shown([other]) for other in others]
    return values


def dumps(value: Any) -> str:
    """One line of JSON."""
    return json_format.dumps(value, ensure_ascii=False)
