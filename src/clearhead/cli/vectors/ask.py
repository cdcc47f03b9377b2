"""`clearhead vectors nearest`, `similarity` and `analogy`: words enter, the words and numbers near them leave.

A model answers too, for a word in a sentence.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import Json
from clearhead.cli.vectors.printing import Vectors, print_json, say, show
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.text.sources.read import ExampleReader

VectorsOrModel = Annotated[
    Path,
    typer.Argument(metavar="VECTORS", help="A vectors folder, or a model folder for words in sentences."),
]
Count = Annotated[int, typer.Option("--count", min=1, max=10_000, help="How many words to print.")]
MARKED = 'A word; for a model a sentence with the word between asterisks: "the *bank* of the river".'


def nearest(
    vectors: VectorsOrModel,
    word: Annotated[str, typer.Argument(metavar="WORD", help=MARKED)],
    count: Count = 10,
    by: Annotated[str, typer.Option("--by", help="cosine or dot.")] = "cosine",
    among: Annotated[
        str | None,
        typer.Option(
            "--among", help="For a model: the text whose words are compared (default: that of its run)."
        ),
    ] = None,
    sentences: Annotated[
        int, typer.Option("--sentences", min=1, max=100_000, help="For a model: how many sentences of it.")
    ] = 1000,
    json: Json = False,
) -> None:
    """Print the words nearest to one."""
    if by not in ("cosine", "dot"):
        raise InputError(f"--by {by} is unknown.\nUse cosine or dot.")
    if has_model(vectors):
        if by != "cosine":
            raise InputError("--by dot is for a vectors folder, and this is a model.\nOmit it.")
        return nearest_in_sentences(vectors, word, among, count, sentences, json)
    if among is not None:
        raise InputError(f"--among is for a model, but {vectors} is a vectors folder.\nOmit it.")
    from clearhead.vectors.words import WordVectors

    found = WordVectors.load(vectors).nearest(word, count, by)  # type: ignore[arg-type]
    if json:
        return print_json({"word": word, "by": by, "nearest": [asdict(one) for one in found]})
    return show(found)


def nearest_in_sentences(
    model: Path, sentence: str, among: str | None, count: int, sentences: int, json: bool
) -> None:
    """Prints the words nearest to one in its sentence, each with a sentence of its own."""
    from clearhead.vectors.contextual import ContextualVectors, read_marked

    read_marked(sentence)  # before anything is loaded
    found = ContextualVectors.load(model).nearest(sentence, texts_beside(model, among), count, sentences)
    rows = [
        {"word": one.occurrence.word, "value": one.cosine, "sentence": one.occurrence.marked} for one in found
    ]
    if json:
        return print_json({"sentence": sentence, "by": "cosine", "nearest": rows})
    for row in rows:
        say(f"{row['word']:20} {row['value']:.4f}  {row['sentence']}")
    return None


def similarity(
    vectors: VectorsOrModel,
    a: Annotated[str, typer.Argument(metavar="A", help=MARKED)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    json: Json = False,
) -> None:
    """Print how alike two words are: cosine and dot product."""
    from clearhead.vectors.contextual import ContextualVectors
    from clearhead.vectors.words import WordVectors

    kind = ContextualVectors if has_model(vectors) else WordVectors
    found = kind.load(vectors).similarity(a, b)
    if json:
        return print_json({"a": a, "b": b} | asdict(found))
    print(f"cosine {found.cosine:.4f}\ndot    {found.dot:.4f}")
    return None


def analogy(
    vectors: Vectors,
    expression: Annotated[
        list[str],
        typer.Argument(metavar="SUM", help='Words with signs: king - man + woman, or "king - man + woman".'),
    ],
    count: Count = 10,
    json: Json = False,
) -> None:
    """Print the words nearest to a sum of words."""
    from clearhead.vectors.words import WordVectors

    found = WordVectors.load(vectors).analogy(expression, count)
    if json:
        return print_json({"sum": " ".join(expression), "nearest": [asdict(one) for one in found]})
    return show(found)


def has_model(folder: Path) -> bool:
    """Whether a folder contains a model, rather than vectors."""
    from clearhead.model_folder import CONFIG, model_in
    from clearhead.vector_folder import is_vectors

    return not is_vectors(folder) and (model_in(folder) / CONFIG).exists()


def texts_beside(model: Path, among: str | None) -> "ExampleReader":
    """The sentences in which neighbours are looked for: those given, or the held-out ones of the model's run."""
    from clearhead.cli.evaluate import read_part, recipe_of
    from clearhead.config.run import RunConfig

    recipe = recipe_of(model)
    if among is not None:
        return read_texts(among)
    if recipe is None:
        raise InputError(f"{model} is not in a run folder, so its text is unknown.\nGive --among FILE.")
    config = RunConfig.read(recipe)
    return read_part(config.data, config.kind, None, None, recipe)[1]


def read_texts(source: str, columns: str | None = None) -> "ExampleReader":
    """The texts of a source."""
    from clearhead.text.sources.read import read

    chosen = None if columns is None else [int(columns) if columns.isdecimal() else columns]
    return read(source, "text", chosen)
