"""Which head carries gender and number in Spanish? Patching in a language model of `builtin:spanish` (N46).

A decoder of two blocks reads the Spanish side of 60,000 pairs. "La lámpara que perdimos hace tres semanas era" asks for
*pequeña*, "El lápiz que …" for *pequeño*; "Los lápices que perdimos hace tres semanas" asks for *eran*. The word that
decides is seven tokens back. Each head is given, at one token, what it had for the other noun; scores are means over
nouns and verbs. Draws docs/images/agreement-gender.svg and agreement-number.svg of the first seed.
"""

import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from drawing import draw_map
from harness import arguments, report
from patched_heads import Contrast, is_known, mean_scores, strongest

import clearhead
from clearhead.config.run import RunConfig
from clearhead.corpora import CORPORA
from clearhead.examples import Pair

TEXTS = 60_000
MODEL: dict[str, Any] = {
    "shape": "decoder", "d": 128, "h": 4, "decoder_blocks": 2, "context": 64, "feedforward": "relu2", "d_ff": 256,
}  # fmt: skip
TRAINING: dict[str, Any] = {
    "steps": 500, "batch_tokens": 4096, "learning_rate": 0.024, "matrix_rate": 0.015, "samples": 0,
}  # fmt: skip
FEMININE = (
    ("La lámpara", "Las lámparas"),
    ("La llave", "Las llaves"),
    ("La camisa", "Las camisas"),
    ("La mesa", "Las mesas"),
)
MASCULINE = (
    ("El lápiz", "Los lápices"),
    ("El libro", "Los libros"),
    ("El vestido", "Los vestidos"),
    ("El reloj", "Los relojes"),
)
CLAUSES = ("que perdimos hace tres semanas", "que compraste hace dos días", "que vendí hace cuatro años")
ADJECTIVES = (("pequeña", "pequeño"), ("bonita", "bonito"), ("nueva", "nuevo"), ("cara", "caro"))


def gender() -> list[Contrast]:
    """A feminine and a masculine noun before the same clause; the adjective decides."""
    return [
        Contrast(f"{her[0]} {clause} era", f"{his[0]} {clause} era", *ADJECTIVES[i % len(ADJECTIVES)])
        for clause in CLAUSES
        for i, (her, his) in enumerate(zip(FEMININE, MASCULINE, strict=True))
    ]


def number() -> list[Contrast]:
    """The same noun, one and many; the verb decides."""
    return [
        Contrast(f"{many} {clause}", f"{one} {clause}", "eran", "era")
        for clause in CLAUSES
        for one, many in FEMININE + MASCULINE
    ]


EXPERIMENTS = {"gender": gender(), "number": number()}


def trained(folder: Path, seed: int) -> clearhead.Model:
    """A language model of the Spanish sentences."""
    out, data = folder / f"seed-{seed}", folder / "spanish.txt"
    if out.exists():
        return clearhead.load(out)
    rows = islice(CORPORA["spanish"].examples("train"), TEXTS)
    data.write_text("".join(f"{row.source}\n" for row in rows if isinstance(row, Pair)), encoding="utf-8")
    config = RunConfig.model_validate(
        {
            "task": "language-model",
            "data": {"train": str(data)},
            "tokenizer": {"kind": "word"},
            "model": MODEL,
            "training": TRAINING | {"seed": seed},
        }
    )
    return clearhead.train(config, out)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    options = parser.parse_args()
    results: dict[int, Any] = {}
    with tempfile.TemporaryDirectory(prefix="clearhead-agreement-") as place:
        for seed in options.seeds:
            start = time.perf_counter()
            model = trained(options.keep or Path(place), seed)
            results[seed] = {"seconds": time.perf_counter() - start}
            for name, asked in EXPERIMENTS.items():
                known = [one for one in asked if is_known(model, one)]
                places, scores = mean_scores(model, known)
                best = strongest(places, scores, 4)
                results[seed][name] = {
                    "asked": len(asked), "known": len(known), "strongest": best, "places": places,
                    "scores": scores, "tokens": model.trace(known[0].clean).tokens,
                }  # fmt: skip
                said = ", ".join(f"{head} at token {at} {score:.2f}" for head, at, score in best)
                print(f"seed {seed}, {name}: {len(known)} of {len(asked)} known; {said}", flush=True)
    if options.save:
        for name in EXPERIMENTS:
            one = results[options.seeds[0]][name]
            draw_map(f"agreement-{name}", one["places"], one["tokens"], one["scores"])
    report(
        "agreement_heads",
        {"model": MODEL, "training": TRAINING, "texts": TEXTS, "results": results},
        options.save,
    )


if __name__ == "__main__":
    main()
