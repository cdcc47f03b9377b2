"""`clearhead generate`, `translate`, `classify` and `embed`: use a model on a text, a file or standard input.

A single text gives its result as it is. Lines of a file give a line each, in order; line breaks inside a result
are then written \\n, and `--json` gives an object a line.
"""

import itertools
import json as json_format
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.options import (
    Input,
    Json,
    ModelFolder,
    Output,
    TextArgument,
    find_model,
    lines_from,
    with_decoding,
    write_lines,
)
from clearhead.config.decoding import DecodingConfig

if TYPE_CHECKING:
    from clearhead.api import Model
    from clearhead.decoding.generate import Generation


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
    loaded = load(model)
    if text is not None and not json and output is None and settings.n_best == 1:
        for piece in loaded.generator.stream(text, settings):
            print(piece.text, end="", flush=True)
        print()
        return
    run(text, input, output, "texts", json, lambda lines: written(loaded, lines, settings, json))


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
    loaded = load(model)
    loaded.translate([])  # refused here where the model is no translator
    run(text, input, output, "lines", json, lambda lines: translated(loaded, lines, settings, json))


def classify(
    model: ModelFolder,
    text: TextArgument = None,
    input: Input = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Say which class a text belongs to."""
    loaded = load(model)

    def work(lines: list[str]) -> list[str]:
        results = loaded.classify(lines)
        if json:
            return [
                dumps({"label": result.label, "probabilities": result.probabilities}) for result in results
            ]
        return [f"{result.label}\t{result.probabilities[result.label]:.4f}" for result in results]

    run(text, input, output, "texts", json, work)


def embed(
    model: ModelFolder,
    text: TextArgument = None,
    input: Input = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Turn a text into one vector."""
    loaded = load(model)

    def work(lines: list[str]) -> list[str]:
        vectors = loaded.embed(lines).tolist()
        if json:
            return [dumps({"vector": vector}) for vector in vectors]
        return [" ".join(f"{value:.7g}" for value in vector) for vector in vectors]

    run(text, input, output, "texts", json, work)


def load(folder: Path) -> "Model":
    """The model of a folder."""
    from clearhead.api import load as load_model

    return load_model(find_model(folder))


def dumps(value: Any) -> str:
    """One line of JSON."""
    return json_format.dumps(value, ensure_ascii=False)


def shown(generation: "Generation") -> dict[str, Any]:
    """A generation as JSON, without what was not asked for."""
    return {key: value for key, value in asdict(generation).items() if value not in (None, [])}


def written(model: "Model", lines: list[str], settings: DecodingConfig, json: bool) -> list[str]:
    """What the model writes on from each line."""
    from clearhead.decoding.lines import escape

    best = model.generator.write(lines, settings)
    if json:
        return [
            dumps(shown(found[0]) if settings.n_best == 1 else [shown(one) for one in found])
            for found in best
        ]
    return ["\t".join(escape(one.text) for one in found) for found in best]


def translated(model: "Model", lines: list[str], settings: DecodingConfig, json: bool) -> list[str]:
    """The translation of each line; an empty line stays empty."""
    full = [line for line in lines if line.strip()]
    results = iter(written(model, full, settings, json)) if full else iter(())
    empty = dumps({"text": "", "tokens": [], "reason": "end"}) if json else ""
    return [next(results) if line.strip() else empty for line in lines]


def run(
    text: str | None,
    input: Path | None,
    output: Path | None,
    what: str,
    json: bool,
    work: Callable[[list[str]], list[str]],
) -> None:
    """Does the work on one text, or on every line of a file or of standard input."""
    from clearhead.decoding.lines import in_windows, whole_lines

    if text is not None:
        write_lines(iter(work([text])), output, 1, what)
        return
    done = whole_lines(output) if output is not None and output.exists() else 0
    total = count_lines(input) if input is not None and input.is_file() else None
    with lines_from(input) as lines:
        rest = itertools.islice(lines, done, None)
        write_lines(
            in_windows(rest, work, done + 1), output, None if total is None else total - done, what, done > 0
        )


def count_lines(path: Path) -> int:
    """How many lines a file has."""
    with path.open("rb") as file:
        return sum(1 for _ in file)
