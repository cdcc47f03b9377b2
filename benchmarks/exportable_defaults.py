"""Do first models learn as well with the settings that let them leave?

Encoders can be a EuroBERT and translators a T5. Each is trained beside the same model with norms of queries and keys
(and rotary positions in the translator), which fit no architecture of Hugging Face. Steps are fixed and seconds are
those of the processor, so that other programs disturb little.
"""

import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from first_model import DATA, Words, plays
from harness import SHARED_DATA, arguments, report
from labelled_sets import movie_reviews

from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.run.run import make_run


def masked_plays(folder: Path) -> Words:
    """The plays, for a masked language model."""
    return "masked-language-model", *plays(folder)[1:]


def reviews(folder: Path) -> Words:
    """Sentences of movie reviews."""
    lines = (json.dumps({"text": e.text, "label": e.label}) + "\n" for e in movie_reviews())
    Path(folder, "reviews.jsonl").write_text("".join(lines), encoding="utf-8")
    return "classify", [f"{folder}/reviews.jsonl"], {}


NORMS, NO_NORMS = {"model.query_key_norm": "true"}, {"model.query_key_norm": "false"}
ROTARY, RELATIVE = {"model.positions": "rotary"}, {"model.positions": "relative"}
SMALL = {"model.d": "64", "model.encoder_blocks": "2", "model.decoder_blocks": "2", "training.steps": "1500"}


@dataclass(frozen=True)
class Comparison:
    """The settings that cannot leave, those that can, what differs from run to run, and what all have in common."""

    fast: dict[str, str]
    leaving: dict[str, str]
    varied: str
    values: tuple[str, ...]
    common: dict[str, str] = field(default_factory=dict)


SETS = {
    "reviews": Comparison(NORMS, NO_NORMS, "data.seed", ("1", "2", "3")),
    "masked": Comparison(NORMS, NO_NORMS, "training.seed", ("1",), {"training.steps": "250"}),
    "captions": Comparison(NORMS | ROTARY, NO_NORMS | RELATIVE, "training.seed", ("1", "2"), SMALL),
}


def measure(name: str, changes: dict[str, str]) -> dict[str, Any]:
    """One training, and its quality on the test data."""
    with tempfile.TemporaryDirectory(prefix="clearhead-leaving-") as folder:
        task, files, test = (DATA | {"masked": masked_plays, "reviews": reviews})[name](Path(folder))
        config, _ = recipe_for(task, files, None, changes | test)  # type: ignore[arg-type]
        run = make_run(config, Path(folder, "run"))
        start = time.process_time()
        for _ in run.train():
            pass
        seconds = time.process_time() - start
        quality = run.evaluate() or {}
    found = {"steps": run.plan.steps, "processor_seconds": round(seconds, 1)}
    return found | {key: value for key, value in quality.items() if key in ("accuracy", "loss", "bleu")}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=SETS, nargs="+", default=list(SETS))
    options = parser.parse_args()
    if not SHARED_DATA.exists():
        raise SystemExit(f"{SHARED_DATA} does not exist; this benchmark needs real data.")
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.only:
        row_of = SETS[name]
        for value in row_of.values:
            for kind, changes in (("cannot leave", row_of.fast), ("can leave", row_of.leaving)):
                varied = {row_of.varied: value}
                row = {"settings": kind} | varied | measure(name, row_of.common | changes | varied)
                results.setdefault(name, []).append(row)
                print(f"{name:10s} {row}", flush=True)
    report("exportable_defaults", {"results": results}, options.save)


if __name__ == "__main__":
    main()
