"""What do products in bfloat16 cost in loss, and gain in time? The demo and `python-lm`, the same steps in each format.

Each seed trains both, on the same batches from the same first weights; the validation losses, in float32, are compared.
The bar: 0.5 %, for each seed. Runs drift apart whatever is rounded: with `--noise`, a third run in float32
starts from weights that are rounded to bfloat16 once (`rounded start`), and what it differs by is noise. `--keep FILE`
collects the losses, so that the runs can be made one by one.
"""

import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from harness import arguments, report

from clearhead.config.run import RunConfig
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config

BAR = 0.005
NOISE = "rounded start"


def train(recipe: str, name: str, seed: int, steps: int) -> dict[str, float]:
    """The validation loss after so many steps, and the seconds that they took."""
    config = RunConfig.read(recipe)
    lengths = {"steps": steps, "epochs": None, "minutes": None, "evaluate_every": steps, "samples": 0}
    precision = "bfloat16" if name == "bfloat16" else "float32"
    config = config.replace(training=config.training.replace(precision=precision, seed=seed, **lengths))
    if recipe == "spanish-translator":  # the other one has a validation split of its own
        config = config.replace(data=config.data.replace(count=50_000))
    data = prepare(config)
    config = config.replace(model=model_config(config, data))
    model = build(config.model, seed)
    if name == NOISE:
        with torch.no_grad():
            for W in model.parameters():
                W.copy_(W.bfloat16())
    trainer = Trainer(config, data, model, steps)
    start = time.perf_counter()
    for _ in trainer.train():
        pass
    return {"loss": trainer.best_loss, "seconds": time.perf_counter() - start}


def summary(recipe: str, seeds: list[int], found: dict[str, dict[str, float]]) -> dict[str, Any]:
    """How the losses of a recipe compare, seed by seed and on average."""
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        losses = {
            name: found[key]["loss"]
            for name in ("float32", "bfloat16", NOISE)
            if (key := f"{recipe} {name} {seed}") in found
        }
        changes = {name: loss / losses["float32"] - 1 for name, loss in losses.items() if name != "float32"}
        rows.append({"seed": seed, "losses": losses, "changes": changes})
        print(f"{recipe} seed {seed}: {losses['float32']:.4f}", {k: f"{v:+.2%}" for k, v in changes.items()})
    all_changes = [row["changes"]["bfloat16"] for row in rows]
    mean = statistics.mean(all_changes)
    is_each_within = all(abs(change) <= BAR for change in all_changes)
    print(f"{recipe}: mean {mean:+.2%}, every seed within the bar: {is_each_within}")
    return {
        "recipe": recipe,
        "seeds": rows,
        "mean_change": mean,
        "standard_error": statistics.stdev(all_changes) / len(all_changes) ** 0.5 if len(rows) > 1 else None,
        "is_no_worse": mean <= BAR,
        "kept": is_each_within,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--recipes", nargs="+", default=["spanish-translator", "python-lm"])
    parser.add_argument("--noise", action="store_true", help="a third run, which shows the noise")
    parser.add_argument("--keep", type=Path, help="file of the losses that are known already")
    options = parser.parse_args()
    known = options.keep and options.keep.exists()
    found: dict[str, dict[str, float]] = json.loads(options.keep.read_text()) if known else {}
    names = ["float32", "bfloat16", *([NOISE] if options.noise else [])]
    for recipe in options.recipes:
        for seed in options.seeds:
            for name in names:
                if (key := f"{recipe} {name} {seed}") not in found:
                    found[key] = train(recipe, name, seed, options.steps)
                    print(key, found[key], flush=True)
                    if options.keep:
                        options.keep.write_text(json.dumps(found, indent=1))
    results = [summary(recipe, options.seeds, found) for recipe in options.recipes]
    kept = all(row["kept"] for row in results)
    print("kept" if kept else "FAILED")
    report(
        "precision_loss", {"results": results, "bar": BAR, "steps": options.steps, "kept": kept}, options.save
    )


if __name__ == "__main__":
    main()
