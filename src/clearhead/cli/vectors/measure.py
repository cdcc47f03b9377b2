"""`clearhead vectors evaluate` and `map`: vectors enter, scores or a picture leave."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.options import Json
from clearhead.cli.stages import Stages
from clearhead.cli.vectors.printing import Vectors, print_json, say
from clearhead.errors import InputError


def evaluate(
    vectors: Vectors,
    analogies: Annotated[
        str | None,
        typer.Option(
            "--analogies", help='File of questions ": section", then "a b c d" per line; or builtin:words.'
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", help="File of pairs with a judgement per line: tiger,cat,7.35 (WordSim)."),
    ] = None,
    restrict: Annotated[
        int, typer.Option("--restrict", min=2, help="Look only at so many words, the most frequent ones.")
    ] = 300_000,
    json: Json = False,
) -> None:
    """Measure word vectors on analogy questions and on judgements of similarity."""
    from clearhead.vectors.evaluation import evaluate_analogies, evaluate_pairs, read_pairs, read_questions
    from clearhead.vectors.words import WordVectors

    if analogies is None and pairs is None:
        raise InputError("There is nothing to measure.\nGive --analogies FILE, --pairs FILE, or both.")
    loaded = WordVectors.load(vectors)
    result: dict[str, Any] = {"words": len(loaded.words), "restriction": min(restrict, len(loaded.words))}
    if analogies is not None:
        with Stages("asking analogy questions"):
            scores = evaluate_analogies(loaded, read_questions(analogies), restrict)
        totals = {kind: scores.total(kind) for kind in ("semantic", "syntactic")} | {"all": scores.total()}
        rows = scores.sections | {kind: total for kind, total in totals.items() if total.questions}
        result["analogies"] = {
            name: asdict(score) | {"accuracy": score.accuracy} for name, score in rows.items()
        }
    if pairs is not None:
        result["pairs"] = asdict(evaluate_pairs(loaded, read_pairs(pairs), restrict))
    if json:
        return print_json(result)
    print(
        f"{result['restriction']:,} of {result['words']:,} words are looked at, the most frequent ones (--restrict)"
    )
    if analogies is not None:
        print(f"{'analogies':30} {'right':>7} {'known':>7} {'questions':>10} {'accuracy':>9}")
        for name, row in result["analogies"].items():
            share = "-" if row["accuracy"] is None else f"{row['accuracy']:.4f}"
            say(f"{name:30} {row['right']:>7,} {row['in_vocabulary']:>7,} {row['questions']:>10,} {share:>9}")
    if pairs is not None:
        row = result["pairs"]
        print(
            f"{row['in_vocabulary']:,} of {row['pairs']:,} pairs known: Spearman's correlation {row['spearman']:.4f}"
        )
    return None


def map_(
    vectors: Vectors,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The picture, .svg or .html.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...",
            help="Words, or pairs to join by a line: king:queen (default: frequent ones).",
        ),
    ] = None,
) -> None:
    """Draw words on a map of two dimensions."""
    from clearhead.vectors.drawing import map_words, write_map
    from clearhead.vectors.words import WordVectors

    found = map_words(WordVectors.load(vectors), words or ())
    write_map(found, out, vectors.name)
    print(
        f"Wrote {out}: {len(found.words)} words; the axes explain {100 * sum(found.shares):.0f} % of the variance."
    )


map_.__name__ = "map"
