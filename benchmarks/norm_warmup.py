"""Why warm up, and why put the norm first (N37)? One deep model is trained with and without, at a high rate.

A language model of 12 blocks on `builtin:words`, by AdamW at a rate of 0.01 without clipping: with the norm after each
sublayer, as in the transformer of 2017, and before it, each with a rate that is full from the first step and one that
rises over 100 steps. Draws docs/images/norm-warmup.svg.
"""

from pathlib import Path
from typing import Any

from harness import arguments, report

from clearhead.config.run import RunConfig
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.records import StepRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "norm-warmup.svg"
WARMUP = 100  # steps
SETTINGS = {  # placement of the norm, warm-up, colour, line
    "post-norm, no warm-up": ("post", 0, "#d55e00", "-"),
    "post-norm, warm-up": ("post", WARMUP, "#d55e00", ":"),
    "pre-norm, no warm-up": ("pre", 0, "#0072b2", "-"),
    "pre-norm, warm-up": ("pre", WARMUP, "#0072b2", ":"),
}


def losses(placement: str, warmup: int, steps: int, seed: int) -> dict[int, float]:
    """Step -> mean loss of the ten steps before it."""
    config = RunConfig.model_validate(
        {
            "task": "language-model",
            "data": {"train": "builtin:words", "count": 5000},
            "tokenizer": {"kind": "word"},
            "model": {"d": 32, "decoder_blocks": 12, "context": 128, "norm_placement": placement},
            "training": {
                "optimizer": "adamw",
                "learning_rate": 0.01,
                "warmup": warmup,
                "schedule": "constant",
                "clip": None,
                "batch_tokens": 1024,
                "evaluate_every": 10**6,
                "most_skipped": 10**6,
                "seed": seed,
            },
        }
    )
    data = prepare(config)
    settings = model_config(config, data)
    trainer = Trainer(config.replace(model=settings), data, build(settings, seed), steps)
    trainer.validation = None
    return {
        record.step: round(record.loss, 4) for record in trainer.train() if isinstance(record, StepRecord)
    }


def draw(curves: dict[str, list[dict[int, float]]]) -> None:
    """The loss against the steps; a thin line for each seed."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "clearhead"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    for name, seeds in curves.items():
        _, _, colour, line = SETTINGS[name]
        for number, curve in enumerate(seeds):
            steps, values = list(curve), list(curve.values())
            axes.plot(steps, values, line, color=colour, linewidth=2, label=None if number else name)
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats per token)")
    axes.set_title("12 blocks, AdamW at a rate of 0.01", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    curves: dict[str, list[dict[int, float]]] = {}
    for name, (placement, warmup, _, _) in SETTINGS.items():
        curves[name] = [losses(placement, warmup, options.steps, 1 + seed) for seed in range(options.seeds)]
        ends = ", ".join(f"{list(curve.values())[-1]:.2f}" for curve in curves[name])
        print(f"{name:24s} loss after {options.steps} steps: {ends}", flush=True)
    if options.save:
        draw(curves)
    last: dict[str, Any] = {name: [list(c.values())[-1] for c in seeds] for name, seeds in curves.items()}
    report("norm_warmup", {"steps": options.steps, "last": last, "losses": curves}, options.save)


if __name__ == "__main__":
    main()
