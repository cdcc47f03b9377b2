"""What do products in bfloat16 cost in loss, and gain in time? The demo and `python-lm`, the same steps in each format.

Each seed trains both, in turn; the validation losses are compared. The bar: 0.5 %.
"""

import time
from typing import Any

from harness import arguments, report

from clearhead.config.run import RunConfig
from clearhead.config.training import Precision
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config

BAR = 0.005
FORMATS: tuple[Precision, ...] = ("float32", "bfloat16")


def train(recipe: str, precision: Precision, seed: int, steps: int) -> tuple[float, float]:
    """The validation loss after so many steps, and the seconds that they took."""
    config = RunConfig.read(recipe)
    lengths = {"steps": steps, "epochs": None, "minutes": None, "evaluate_every": steps}
    config = config.replace(training=config.training.replace(precision=precision, seed=seed, **lengths))
    if recipe == "spanish-translator":  # the other one has a validation split of its own
        config = config.replace(data=config.data.replace(count=50_000))
    data = prepare(config)
    config = config.replace(model=model_config(config, data))
    trainer = Trainer(config, data, build(config.model, seed), steps)
    start = time.perf_counter()
    for _ in trainer.train():
        pass
    return trainer.best_loss, time.perf_counter() - start


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipes", nargs="+", default=["spanish-translator", "python-lm"])
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    for recipe in options.recipes:
        for seed in range(1, options.seeds + 1):
            (loss, seconds), (rounded, faster) = (
                train(recipe, precision, seed, options.steps) for precision in FORMATS
            )
            change = rounded / loss - 1
            row = {"recipe": recipe, "seed": seed, "float32": loss, "bfloat16": rounded, "change": change}
            results.append(row | {"seconds": [seconds, faster], "kept": abs(change) <= BAR})
            losses = f"{loss:.4f} and {rounded:.4f} ({change:+.2%})"
            print(f"{recipe} seed {seed}: {losses}, {seconds / faster:.2f} × the speed", flush=True)
    kept = all(row["kept"] for row in results)
    print("kept" if kept else "FAILED")
    report("precision_loss", {"results": results, "steps": options.steps, "kept": kept}, options.save)


if __name__ == "__main__":
    main()
