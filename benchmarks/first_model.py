"""Is a first model a good one? `train TASK FILES`, with no recipe, on real data, beside what is published for it.

Shakespeare's plays (the last tenth is the test), English captions into German (test 2016), and the labelled sets of
`labelled_sets.py`, of which a tenth is held out by content, in several ways: a file of its own that neither trials nor
training read. Beside them TF-IDF of words and letters with logistic regression of scikit-learn, on the same texts, with
its default C = 1 and with C = 10; its standard error is that of a share of the test. Published: 1.88 nats a character
after 3 minutes on a CPU for the plays (nanoGPT's README), 76.1 % for the reviews (Kim's CNN from random vectors), a
correlation of 0.84 for the promoters (CNNProm), and 41.02 BLEU for the captions, tokenised and lower-cased, after a
training to its end (Revisit-MMT). The minutes include the trials; the processor's seconds are of trials and training.
With `--clock processor` the minutes are those of the processor, all threads together: what an idle machine with one
core would have done, whoever else computes meanwhile. With --shipped the shipped recipe of a built-in set is trained to
its end instead, on the same texts. With --add each measurement joins those of the same day's
results file as soon as it is made, and takes the place of one of the same set, split, minutes, clock and trials, so
that sets can be measured one by one.
"""

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import (
    SHARED_DATA,
    add_result,
    arguments,
    environment_of,
    report,
    train_and_evaluate,
    write_plays,
)
from labelled_sets import SETS

from clearhead.config.data import DataConfig
from clearhead.config.run import RunConfig
from clearhead.examples import Labelled
from clearhead.text.sources.held_out import split_of
from clearhead.training.recipes.trials.choosing import choose_recipe

Words = tuple[str, list[str], dict[str, str]]  # a task, its files, and settings that name the test


def plays(folder: Path) -> Words:
    """The plays, of which the last tenth is kept for the test."""
    train, test = write_plays(folder, "plays", "test")
    return "language-model", [train], {"data.test": test}


def captions(folder: Path) -> Words:
    """Captions of pictures, as they are written."""
    raw = SHARED_DATA / "multi30k" / "raw"
    both = {part: [str(raw / f"{part}.{language}.gz") for language in ("en", "de")]
            for part in ("train", "val", "test_2016_flickr")}  # fmt: skip
    test = {"data.validation": both["val"], "data.test": both["test_2016_flickr"]}
    return "translate", both["train"], {name: json.dumps(files) for name, files in test.items()}


DATA: dict[str, Callable[[Path], Words]] = {"plays": plays, "captions": captions}
SHIPPED = {"builtin-reviews": "reviews-classifier", "builtin-dna": "dna-classifier"}
PACKAGES = ("torch", "scikit-learn")
HELD_OUT, FIRST_SEED = 0.1, 90_000  # of labelled texts for the test, by seeds that no trial uses


def write_split(name: str, folder: Path, split: int) -> tuple[list[Labelled], list[Labelled]]:
    """The training and test texts of a labelled set, also written as train.jsonl and test.jsonl."""
    sides: dict[str, list[Labelled]] = {"train": [], "test": []}
    for example in SETS[name]():
        sides[split_of(example, {"test": HELD_OUT}, FIRST_SEED + split)].append(example)
    for side, examples in sides.items():
        lines = (json.dumps({"text": e.text, "label": e.answer}) + "\n" for e in examples)
        Path(folder, f"{side}.jsonl").write_text("".join(lines), encoding="utf-8")
    return sides["train"], sides["test"]


def tfidf(train: list[Labelled], test: list[Labelled], c: float) -> float:
    """The share of the test that TF-IDF with logistic regression labels rightly."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline, make_union

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    is_binary = len({example.answer for example in train}) == 2
    regression = LogisticRegression(C=c, solver="liblinear")
    pipe = make_pipeline(
        make_union(words, letters), regression if is_binary else OneVsRestClassifier(regression)
    )
    pipe.fit([e.text for e in train], [e.answer for e in train])
    guesses = pipe.predict([e.text for e in test])
    return statistics.mean(guess == e.answer for guess, e in zip(guesses, test, strict=True))


def measure(
    name: str, minutes: float, split: int = 1, trials: int | None = None, clock: str = "wall"
) -> dict[str, Any]:
    """One training on one set of data, with one choice of what is held out, and what came of it."""
    with tempfile.TemporaryDirectory(prefix="clearhead-first-") as folder:
        others: dict[str, Any] = {}
        if name in SETS:
            train, test = write_split(name, Path(folder), split)
            shares = {f"C = {c:g}": tfidf(train, test, c) for c in (1.0, 10.0)}
            error = max(math.sqrt(share * (1 - share) / len(test)) for share in shares.values())
            others = {"tfidf": shares, "standard_error": error, "examples": len(train) + len(test)}
            task, files = "classify", [f"{folder}/train.jsonl"]
            stated = {"data.test": f"{folder}/test.jsonl", "data.validation": "0.05"}
        else:
            task, files, stated = DATA[name](Path(folder))
        started, busy = time.monotonic(), time.process_time()
        config, reasons, tried = choose_recipe(task, files, minutes, stated, trials)  # type: ignore[arg-type]
        run, result = train_and_evaluate(config, Path(folder, "run"))
        took = {"all_seconds": time.monotonic() - started, "processor_seconds": time.process_time() - busy}
    quality = result["quality"]
    if "confusion" in quality and len(quality["labels"]) == 2:
        quality["correlation"] = correlation(quality["confusion"])
    best = run.history.best
    return result | took | others | {
        "split": split, "minutes": minutes, "clock": clock, "trials_given": trials,
        "commit": environment_of(())["commit"], "epochs": run.plan.epochs,
        "best_step": best.step if best else None, "chosen": reasons, "trials": tried.to_json() if tried else None,
    }  # fmt: skip


def measure_shipped(name: str, split: int) -> dict[str, Any]:
    """The shipped recipe of a built-in set, to its end, on the texts that `measure` gives the first model."""
    with tempfile.TemporaryDirectory(prefix="clearhead-first-") as folder:
        train, test = write_split(name, Path(folder), split)
        stated = {"data.test": f"{folder}/test.jsonl", "data.validation": "0.05"}
        data = RunConfig.overridden({"data": {"train": f"{folder}/train.jsonl"}}, stated)["data"]
        recipe = RunConfig.read(SHIPPED[name])
        busy = time.process_time()
        _, result = train_and_evaluate(recipe.replace(data=DataConfig(**data)), Path(folder, "run"))
    return result | {
        "processor_seconds": time.process_time() - busy, "examples": len(train) + len(test),
        "split": split, "recipe": SHIPPED[name], "commit": environment_of(())["commit"],
    }  # fmt: skip


def correlation(confusion: list[list[int]]) -> float:
    """Matthews' correlation of two classes."""
    (a, b), (c, d) = confusion
    return (a * d - b * c) / math.sqrt(max(1, (a + b) * (c + d) * (a + c) * (b + d)))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help="of the minutes")
    parser.add_argument("--splits", type=int, default=3, help="of what has no test of its own")
    parser.add_argument("--first-split", type=int, default=1, help="its number, to measure with others")
    parser.add_argument(
        "--add", action="store_true", help="to the results file of today, each as soon as it is made"
    )
    parser.add_argument("--trials", type=int, help="as of the command; 0: the rules alone")
    parser.add_argument("--shipped", action="store_true", help="the shipped recipes of built-in sets instead")
    parser.add_argument("--only", choices=[*DATA, *SETS], nargs="+", default=[*DATA, *SETS])
    options = parser.parse_args()
    if options.clock == "processor":
        time.perf_counter = time.process_time  # of the trials, the plan and the training
    if options.shipped and not set(options.only) <= set(SHIPPED):
        raise SystemExit(f"--shipped is for {', '.join(SHIPPED)}: name them in --only.")
    if not SHARED_DATA.exists():
        raise SystemExit(f"{SHARED_DATA} does not exist; this benchmark needs real data.")
    results: dict[str, list[dict[str, Any]]] = {}
    same: tuple[str, ...]
    for name in options.only:
        splits = range(options.first_split, options.first_split + (options.splits if name in SETS else 1))
        results[name] = []
        for split in splits:
            if options.shipped:
                results[name].append(measure_shipped(name, split))
                same, kept = ("split",), f"{name}, shipped recipe"
            else:
                results[name].append(measure(name, options.minutes, split, options.trials, options.clock))
                same, kept = ("split", "minutes", "clock", "trials_given"), name
            if options.add:
                add_result("first_model", kept, results[name][-1], same, PACKAGES)
        first, qualities = results[name][0], [result["quality"] for result in results[name]]
        numbers = [key for key, value in qualities[0].items() if isinstance(value, float)]
        means = {key: round(statistics.mean(quality[key] for quality in qualities), 4) for key in numbers}
        beside = [
            {key: round(share, 4) for key, share in result["tfidf"].items()}
            for result in results[name]
            if "tfidf" in result
        ]
        print(
            f"{name:10s} {first['steps']:6,} steps, {first['processor_seconds']:4.0f} s of a core: {means} {beside}",
            flush=True,
        )
    found = {"minutes": options.minutes, "trials": options.trials, "results": results}
    report("first_model", found, options.save and not options.add, packages=PACKAGES)


if __name__ == "__main__":
    main()
