"""Is a first model a good one? `train TASK FILES`, with no recipe, on real data, beside what is published for it.

Shakespeare's plays (the last tenth is the test), movie reviews and E. coli promoters (a tenth is held out by content,
in several ways), and English captions into German (test 2016). Published: 1.88 nats a character after 3 minutes on a
CPU for the plays (nanoGPT's README), 76.1 % for the reviews (Kim's CNN from random vectors), a correlation of 0.84 for
the promoters (CNNProm), and 41.02 BLEU for the captions, tokenised and lower-cased, after a training to its end
(Revisit-MMT).
"""

import gzip
import json
import math
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import SHARED_DATA, arguments, report, train_and_evaluate, write_plays

from clearhead.training.recipes.suggest import recipe_for

Words = tuple[str, list[str], dict[str, str]]  # a task, its files, and settings that name the test


def plays(folder: Path) -> Words:
    """The plays, of which the last tenth is kept for the test."""
    train, test = write_plays(folder, "plays", "test")
    return "language-model", [train], {"data.test": test}


def reviews(folder: Path) -> Words:
    """Sentences of movie reviews."""
    files = {"positive": "rt-polarity.pos.gz", "negative": "rt-polarity.neg.gz"}
    copies = {label: folder / f"{label}.txt" for label in files}
    for label, name in files.items():
        copies[label].write_bytes(gzip.decompress((SHARED_DATA / "mr" / name).read_bytes()))
    return "classify", [f"{label}={path}" for label, path in copies.items()], {}


def promoters(folder: Path) -> Words:
    """Promoters of E. coli, and other sequences."""
    files = {"promoter": "Ecoli_prom.fa.gz", "other": "Ecoli_non_prom.fa.gz"}
    return "classify", [f"{label}={SHARED_DATA / 'dna-ecoli' / name}" for label, name in files.items()], {}


def captions(folder: Path) -> Words:
    """Captions of pictures, as they are written."""
    raw = SHARED_DATA / "multi30k" / "raw"
    both = {part: [str(raw / f"{part}.{language}.gz") for language in ("en", "de")]
            for part in ("train", "val", "test_2016_flickr")}  # fmt: skip
    test = {"data.validation": both["val"], "data.test": both["test_2016_flickr"]}
    return "translate", both["train"], {name: json.dumps(files) for name, files in test.items()}


DATA: dict[str, Callable[[Path], Words]] = {
    "plays": plays,
    "reviews": reviews,
    "promoters": promoters,
    "captions": captions,
}
SPLIT = ("reviews", "promoters")  # what has no test of its own


def measure(name: str, minutes: float, split: int = 1) -> dict[str, Any]:
    """One training on one set of data, with one choice of what is held out, and what came of it."""
    with tempfile.TemporaryDirectory(prefix="clearhead-first-") as folder:
        task, files, test = DATA[name](Path(folder))
        stated = test or {"data.seed": str(split)}
        config, reasons = recipe_for(task, files, minutes, stated)  # type: ignore[arg-type]
        run, result = train_and_evaluate(config, Path(folder, "run"))
    quality = result["quality"]
    if "confusion" in quality and len(quality["labels"]) == 2:
        quality["correlation"] = correlation(quality["confusion"])
    best = run.history.best
    return result | {
        "epochs": run.plan.epochs, "best_step": best.step if best else None, "chosen": reasons
    }  # fmt: skip


def correlation(confusion: list[list[int]]) -> float:
    """Matthews' correlation of two classes."""
    (a, b), (c, d) = confusion
    return (a * d - b * c) / math.sqrt(max(1, (a + b) * (c + d) * (a + c) * (b + d)))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--splits", type=int, default=3, help="of what has no test of its own")
    parser.add_argument("--first-split", type=int, default=1, help="its number, to measure with others")
    parser.add_argument("--only", choices=DATA, nargs="+", default=list(DATA))
    options = parser.parse_args()
    if not SHARED_DATA.exists():
        raise SystemExit(f"{SHARED_DATA} does not exist; this benchmark needs real data.")
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.only:
        splits = range(options.first_split, options.first_split + (options.splits if name in SPLIT else 1))
        results[name] = [measure(name, options.minutes, split) for split in splits]
        first, qualities = results[name][0], [result["quality"] for result in results[name]]
        numbers = [key for key, value in qualities[0].items() if isinstance(value, float)]
        means = {key: round(statistics.mean(quality[key] for quality in qualities), 4) for key in numbers}
        print(f"{name:10s} {first['steps']:6,} steps in {first['seconds']:4.0f} s: {means}", flush=True)
    report("first_model", {"minutes": options.minutes, "results": results}, options.save)


if __name__ == "__main__":
    main()
