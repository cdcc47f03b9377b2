"""Does text without labels help? Movie reviews of which few have labels, with and without the others unlabelled.

For each split of `first_model.py` some training sentences keep their labels, and the others lose them. Trials choose
the recipe both times; beside them TF-IDF with logistic regression on the labelled sentences. The minutes are those of
the processor, all threads together, so that a busy machine changes nothing. With --add each result is kept at once.
"""

import json
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from first_model import PACKAGES, tfidf, write_split
from harness import add_result, arguments, environment_of, report, train_and_evaluate

from clearhead.training.recipes.trials.choosing import choose_recipe


def measure(split: int, labelled: int, minutes: float, with_others: bool) -> dict[str, Any]:
    """One training on a few labelled sentences."""
    with tempfile.TemporaryDirectory(prefix="clearhead-unlabelled-") as folder:
        train, test = write_split("reviews", Path(folder), split)
        every = len(train) // labelled  # the labels come one after the other
        few = train[::every][:labelled]
        others = [example.text for place, example in enumerate(train) if place % every]
        lines = (json.dumps({"text": example.text, "label": example.answer}) + "\n" for example in few)
        Path(folder, "few.jsonl").write_text("".join(lines), encoding="utf-8")
        Path(folder, "others.txt").write_text("\n".join(others), encoding="utf-8")
        stated = {"data.test": f"{folder}/test.jsonl", "data.validation": "0"}
        stated |= {"data.unlabelled": f"{folder}/others.txt"} if with_others else {}
        busy = time.process_time()
        config, _, tried = choose_recipe("classify", [f"{folder}/few.jsonl"], minutes, stated)
        _, result = train_and_evaluate(config, Path(folder, "run"))
    accuracy = result["quality"]["accuracy"]
    return {
        "split": split, "labelled": len(few), "unlabelled": len(others) if with_others else 0, "minutes": minutes,
        "accuracy": accuracy, "standard_error": math.sqrt(accuracy * (1 - accuracy) / len(test)),
        "tfidf": {f"C = {c:g}": tfidf(few, test, c) for c in (1.0, 10.0)},
        "processor_seconds": time.process_time() - busy, "trials": tried.to_json() if tried else None,
        "commit": environment_of(())["commit"],
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--labelled", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--splits", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--add", action="store_true", help="to the results file of today")
    options = parser.parse_args()
    time.perf_counter = time.process_time  # of the trials, the plan and the training
    results: dict[str, list[dict[str, Any]]] = {"with": [], "without": []}
    for split in options.splits:
        for name, with_others in (("with", True), ("without", False)):
            result = measure(split, options.labelled, options.minutes, with_others)
            results[name].append(result)
            if options.add:
                add_result("unlabelled", name, result, ("split", "labelled", "minutes"), PACKAGES)
            reason = (result["trials"] or {"reason": "no trials"})["reason"]
            print(f"{split} {name:8s} {result['accuracy']:.4f} {result['tfidf']} {reason}", flush=True)
    for name, found in results.items():
        print(f"{name}: {statistics.mean(result['accuracy'] for result in found):.4f}")
    report("unlabelled", {"results": results}, options.save and not options.add, packages=PACKAGES)


if __name__ == "__main__":
    main()
