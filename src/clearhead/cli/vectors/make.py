"""`clearhead vectors train` and `import`: text, or a file of vectors, enters; a vectors folder leaves."""

import logging
import shlex
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import Json
from clearhead.cli.stages import Stages
from clearhead.cli.vectors.ask import read_texts
from clearhead.cli.vectors.printing import Out, print_json
from clearhead.config.vectors import VectorsConfig

if TYPE_CHECKING:
    from clearhead.vectors.sentences import TrainingProgress

SOON = 0.5  # seconds in which no time left can be known


def train(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Text to learn from: a file, a folder, or builtin:NAME.")
    ],
    out: Out,
    settings: VectorsConfig,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Column of a table with the text, by name or number.")
    ] = None,
    json: Json = False,
) -> None:
    """Train word vectors on text."""
    from clearhead import vector_folder
    from clearhead.vectors.training import gensim_models
    from clearhead.vectors.training import train as train_vectors

    vector_folder.check_free(out)
    reader = read_texts(source, columns)
    with Stages("loading gensim") as stages:
        gensim_models()
        logging.getLogger("gensim").setLevel(logging.ERROR)  # it warns of every small text
        table = train_vectors(reader, settings, shows(stages), source)
        vector_folder.save(out, table)
    made = table.made
    facts = {"words": len(table.words), "width": table.width, **made, "out": str(out)}
    if json:
        return print_json(facts)
    print(f"{made['words_read']:,} words in {made['sentences']:,} sentences, {len(table.words):,} different ones with "
          f"a vector of {table.width} numbers")  # fmt: skip
    print(f"trained in {made['seconds']:.1f} s, {made['words_per_second']:,} words per second")
    quoted = shlex.quote(str(out))
    print(f"Wrote the vectors folder {out}. Try: clearhead vectors nearest {quoted} {table.words[0]}")
    return None


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of word2vec (text, binary) or GloVe.")],
    out: Out,
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", min=1, help="Read only so many words, the first ones.")
    ] = None,
    json: Json = False,
) -> None:
    """Convert a file of word2vec or GloVe vectors into a vectors folder."""
    from clearhead import vector_folder
    from clearhead.vectors.importing import import_vectors

    vector_folder.check_free(out)
    with Stages(f"reading {file}"):
        imported = import_vectors(file, vocabulary)
        table = imported.table(str(file))
        vector_folder.save(out, table)
    facts = {"format": imported.format, "words": len(table.words), "width": table.width}
    if json:
        return print_json(facts | {"repeated": imported.repeated, "out": str(out)})
    print(f"{file}: {imported.format}, {len(table.words):,} words, {table.width} numbers each")
    if imported.repeated:
        print(f"repeated words: {imported.repeated:,}; the first vector of each counts")
    print(f"Wrote the vectors folder {out}.")
    return None


import_.__name__ = "import"  # the word itself is Python's


def shows(stages: Stages) -> "Callable[[TrainingProgress], None]":
    """A listener that shows how far training is, and the time left."""
    from clearhead.training.reporting.wording import duration

    started: dict[str, float] = {}

    def show_progress(progress: "TrainingProgress") -> None:
        seconds = monotonic() - started.setdefault(progress.stage, monotonic())
        detail = f"{progress.done:,} words"
        if progress.total and seconds > SOON:
            left = duration(seconds * (progress.total / progress.done - 1))
            detail = f"{100 * progress.done / progress.total:.0f} %, {left} left"
        stages.show(progress.stage, detail)

    return show_progress
