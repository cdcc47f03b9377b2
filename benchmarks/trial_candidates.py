"""How good is each candidate of the trials by itself? Trained on labelled sets to the end of its recipe.

The splits are those of `first_model.py`, of which the test is neither learned nor used to stop. Nothing depends on the
clock, so a busy machine changes only the seconds; those of the processor are given. TF-IDF with logistic regression is
beside each, on the same texts. `--add` keeps each result in the file of the day as soon as it is made.
"""

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from first_model import PACKAGES, correlation, tfidf, write_split
from harness import add_result, arguments, environment_of, report
from labelled_sets import SETS

from clearhead.training.recipes.data_sample import sample_data
from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.recipes.trials.candidates import DNA, RULE, TEXT, candidates_for
from clearhead.training.recipes.trials.folds import Fold, prepare_fold
from clearhead.training.recipes.trials.trial import try_recipe

NAMES = [RULE, *TEXT, *DNA]


def measure(name: str, split: int, wanted: list[str]) -> list[dict[str, Any]]:
    """What some candidates make of one split of a set."""
    with tempfile.TemporaryDirectory(prefix="clearhead-candidates-") as folder:
        train, test = write_split(name, Path(folder), split)
        rule, _ = recipe_for("classify", [f"{folder}/train.jsonl"], 5.0, {"data.validation": "0"})
        candidates = candidates_for(rule, sample_data(rule.data, "labelled"), {})
    labels = tuple(sorted({example.answer for example in (*train, *test)}))
    fold, shares = (
        Fold(split, train, test, labels),
        {f"C = {c:g}": tfidf(train, test, c) for c in (1.0, 10.0)},
    )
    found = []
    for candidate in candidates:
        if wanted and candidate.name not in wanted:
            continue
        busy = time.process_time()
        judged = try_recipe(candidate.run, prepare_fold(candidate.run, fold), math.inf)
        assert judged is not None
        result = {
            "candidate": candidate.name, "split": split, "accuracy": judged.score, "loss": judged.loss,
            "standard_error": math.sqrt(judged.score * (1 - judged.score) / len(test)),
            "steps": judged.steps, "processor_seconds": time.process_time() - busy, "tfidf": shares,
            "commit": environment_of(())["commit"],
        }  # fmt: skip
        if len(labels) == 2:
            truth = np.array([labels.index(example.answer) for example in test])
            guesses = np.where(judged.scores == 1, truth, 1 - truth)
            table = [[int(((truth == a) & (guesses == b)).sum()) for b in (0, 1)] for a in (0, 1)]
            result["correlation"] = correlation(table)
        found.append(result)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=[*SETS], nargs="+", default=[*SETS])
    parser.add_argument("--candidates", choices=NAMES, nargs="+", default=[], help="all of a set if omitted")
    parser.add_argument("--splits", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--add", action="store_true", help="to the results file of today, each as soon as it is made"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.only:
        for split in options.splits:
            for result in measure(name, split, options.candidates):
                results.setdefault(name, []).append(result)
                if options.add:
                    add_result("trial_candidates", name, result, ("candidate", "split"), PACKAGES)
                shown = {key: round(value, 4) for key, value in result.items() if isinstance(value, float)}
                print(f"{name:15s} {split} {result['candidate']:30s} {shown} {result['tfidf']}", flush=True)
    report("trial_candidates", {"results": results}, options.save and not options.add, packages=PACKAGES)


if __name__ == "__main__":
    main()
