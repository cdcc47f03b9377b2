"""Do first models learn as well with the settings that let them leave?

`train TASK FILES` chooses encoders that are a EuroBERT and translators that are a T5. Each is trained beside the same
model with norms of queries and keys (and rotary positions in the translator), which learn fast but fit no architecture
of Hugging Face. Steps are fixed and seconds are those of the processor, so that other programs disturb little.
"""

import json
import tempfile
import time
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


NORMS = {"model.query_key_norm": "true"}
# The settings of the model that cannot leave, the runs (by split of the data, or by seed), and their steps.
SETS: dict[str, tuple[dict[str, str], str, tuple[str, ...], int | None]] = {
    "reviews": (NORMS, "data.seed", ("1", "2", "3"), None),
    "masked": (NORMS, "training.seed", ("1",), 250),
    "captions": (NORMS | {"model.positions": "rotary"}, "training.seed", ("1", "2"), 250),
}


def measure(name: str, changes: dict[str, str], steps: int | None) -> dict[str, Any]:
    """One training: the quality on the test data, or for a fixed number of steps the validation loss."""
    with tempfile.TemporaryDirectory(prefix="clearhead-leaving-") as folder:
        task, files, test = (DATA | {"masked": masked_plays, "reviews": reviews})[name](Path(folder))
        stated = changes | (test or {}) | ({} if steps is None else {"training.steps": str(steps)})
        config, _ = recipe_for(task, files, None, stated)  # type: ignore[arg-type]
        run = make_run(config, Path(folder, "run"))
        start = time.process_time()
        for _ in run.train():
            pass
        seconds = time.process_time() - start
        best = run.history.best
        quality = (run.evaluate() or {}) if steps is None else {}
    found: dict[str, Any] = {"steps": run.plan.steps, "processor_seconds": round(seconds, 1)}
    found["validation_loss"] = best.validation_loss if best else None
    return found | {key: value for key, value in quality.items() if key in ("accuracy", "loss")}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=SETS, nargs="+", default=list(SETS))
    options = parser.parse_args()
    if not SHARED_DATA.exists():
        raise SystemExit(f"{SHARED_DATA} does not exist; this benchmark needs real data.")
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.only:
        before, key, values, steps = SETS[name]
        for value in values:
            for kind, changes in (("before", before), ("can leave", {})):
                row = {"settings": kind, key: value} | measure(name, changes | {key: value}, steps)
                results.setdefault(name, []).append(row)
                print(f"{name:10s} {row}", flush=True)
        report("exportable_defaults", {"results": results}, options.save)


if __name__ == "__main__":
    main()
