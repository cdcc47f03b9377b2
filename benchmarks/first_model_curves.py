"""What do more minutes make of a first model? Draws the results of `first_model.py` by the minutes they were given.

    python benchmarks/first_model_curves.py benchmarks/results/first_model_..._2026-11-19.json

Of each set the results of split 1 count, with minutes of the processor. Draws
docs/images/first-model-bits.svg and first-model-bleu.svg, and prints the numbers. Runs on labelled texts end with their
epochs, long before the minutes, so they have no curve.
"""

import json
from pathlib import Path
from typing import Any

from drawing import Axis, draw
from harness import arguments

MINUTES = (2.0, 5.0, 10.0)
TIME = Axis("minutes of one core", MINUTES, is_logarithmic=True)
PICTURES = {  # a file, what is measured, its axis, and the sets
    "first-model-bits": ("bits_per_byte", Axis("bits per byte", (2.0, 2.05, 2.1, 2.15, 2.2)), ("plays",)),
    "first-model-bleu": ("bleu", Axis("BLEU", (32, 34, 36, 38, 40)), ("captions",)),
}


def points_of(results: list[dict[str, Any]], metric: str) -> list[tuple[float, float]]:
    """The quality by the minutes; of several with the same minutes the last."""
    fitting = [one for one in results if one["clock"] == "processor" and one["split"] == 1]
    by_minutes = {one["minutes"]: one["quality"][metric] for one in fitting}
    return sorted((minutes, value) for minutes, value in by_minutes.items() if minutes in MINUTES)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("results", type=Path, help="a file of first_model.py")
    options = parser.parse_args()
    known = json.loads(options.results.read_text(encoding="utf-8"))["results"]
    for name, (metric, axis, sets) in PICTURES.items():
        curves = {one: points_of(known[one], metric) for one in sets if one in known}
        for one, points in curves.items():
            print(f"{one:10s} {metric}: " + ", ".join(f"{value:.4g} ({time:g})" for time, value in points))
        if options.save:
            draw(name, {one: points for one, points in curves.items() if points}, TIME, axis)


if __name__ == "__main__":
    main()
