"""How good do the shipped recipes on built-in data become? Each is trained to its end, and its test split measured."""

import tempfile
from pathlib import Path

from harness import arguments, report, train_and_evaluate

from clearhead.config.run import RunConfig

RECIPES = ("reviews-classifier", "dna-classifier", "python-lm")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=RECIPES, nargs="+", default=RECIPES)
    options = parser.parse_args()
    results = {}
    for recipe in options.only:
        with tempfile.TemporaryDirectory(prefix="clearhead-recipe-") as folder:
            _, result = train_and_evaluate(RunConfig.read(recipe), Path(folder, "run"))
        results[recipe] = result
        shown = {key: round(value, 4) for key, value in result["quality"].items() if isinstance(value, float)}
        print(f"{recipe:20s} {result['steps']:6,} steps in {result['seconds']:4.0f} s: {shown}", flush=True)
    report("recipe_quality", {"results": results}, options.save)


if __name__ == "__main__":
    main()
