"""How good do the shipped recipes on built-in data become? Each is trained to its end, and its test split measured."""

import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, report

from clearhead.config.run import RunConfig
from clearhead.training.runs import make_run
from clearhead.training.trainer import StepRecord

RECIPES = ("reviews-classifier", "dna-classifier", "python-lm")


def measure(recipe: str) -> dict[str, Any]:
    """One whole training, and the numbers of its best model."""
    with tempfile.TemporaryDirectory(prefix="clearhead-recipe-") as folder:
        run = make_run(RunConfig.read(recipe), Path(folder, "run"))
        seconds = [record.seconds for record in run.train() if isinstance(record, StepRecord)]
        return {
            "steps": run.plan.steps,
            "seconds": seconds[-1],
            "parameters": run.plan.parameters,
            "quality": run.evaluate(),
        }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=RECIPES, nargs="+", default=RECIPES)
    options = parser.parse_args()
    results = {}
    for recipe in options.only:
        result = results[recipe] = measure(recipe)
        shown = {key: round(value, 4) for key, value in result["quality"].items() if isinstance(value, float)}
        print(f"{recipe:20s} {result['steps']:6,} steps in {result['seconds']:4.0f} s: {shown}", flush=True)
    report("recipe_quality", {"results": results}, options.save)


if __name__ == "__main__":
    main()
