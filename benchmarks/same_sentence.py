"""How do a recurrent and an encoder classifier read the same sentence (N45)?

The shipped recipes `reviews-classifier`, `reviews-lstm` and `reviews-cnn` are trained on the same reviews. Each then
classifies "Terrible video by Lennart" and its beginnings, word by word. Draws docs/images/same-sentence.svg.
"""

import tempfile
from pathlib import Path
from typing import Any

from drawing import Axis, draw
from harness import arguments, report

import clearhead
from clearhead.corpora import CORPORA
from clearhead.examples import Labelled
from clearhead.training.reporting.history import read_log
from clearhead.training.run.folder import RunFolder

RECIPES = {"encoder": "reviews-classifier", "LSTM": "reviews-lstm", "CNN": "reviews-cnn"}
WORDS = ("Terrible", "video", "by", "Lennart")
BEGINNINGS = [" ".join(WORDS[: k + 1]) for k in range(len(WORDS))]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--runs", type=Path, help="a folder with runs of the recipes that are trained already"
    )
    options = parser.parse_args()
    test = [row for row in CORPORA["reviews"].examples("test") if isinstance(row, Labelled)]
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="clearhead-sentence-") as place:
        for name, recipe in RECIPES.items():
            run = (options.runs or Path(place)) / recipe
            model = clearhead.load(run) if options.runs else clearhead.train(recipe, run)
            answers = model.classify([row.text for row in test])
            right = sum(one.label == row.label for one, row in zip(answers, test, strict=True))
            read = {
                text: one.probabilities
                for text, one in zip(BEGINNINGS, model.classify(BEGINNINGS), strict=True)
            }
            steps = read_log(RunFolder(run).log).steps[-1].step
            found[name] = {
                "recipe": recipe,
                "steps": steps,
                "accuracy": right / len(test),
                "probabilities": read,
            }
            shares = "  ".join(f"{text.split()[-1]} {one['negative']:.3f}" for text, one in read.items())
            print(f"{name:8s} {right} of {len(test)} right; negative after {shares}", flush=True)
    if options.save:
        curves = {
            name: [(k + 1.0, one["negative"]) for k, one in enumerate(row["probabilities"].values())]
            for name, row in found.items()
        }
        words = Axis("words read", (1, 2, 3, 4), show=lambda k: WORDS[round(k) - 1])
        draw("same-sentence", curves, words, Axis("P(negative)", (0, 0.25, 0.5, 0.75, 1)))
    report("same_sentence", {"seed": 1, "tested": len(test), "models": found}, options.save)


if __name__ == "__main__":
    main()
