"""Does reading help to learn a task (N36)? A classifier of reviews from a few labels, with and without pre-training.

An encoder first fills gaps in reviews without labels. Then it learns to tell good, bad and neutral ones apart from 8
to 128 labelled reviews, and so does the same encoder with random weights: with the same tokenizer, labels, rates and
steps.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, report

from clearhead.config.run import RunConfig
from clearhead.training.run.run import make_run

LABELS = (8, 16, 32, 64, 128)
READING, TUNING = 800, 100  # steps


def train(task: str, out: Path, data: dict[str, Any], **training: Any) -> dict[str, Any]:
    """Trains an encoder into a folder; its quality on held-out reviews."""
    config = {
        "task": task,
        "data": {"train": "builtin:reviews", **data},
        "tokenizer": {"kind": "word"},
        "model": {"d": 64, "encoder_blocks": 2, "context": 64},
        "training": {"samples": 0, "batch_tokens": 2048, "optimizer": "adamw", **training},
    }
    run = make_run(RunConfig.model_validate(config), out)
    for _ in run.train():
        pass
    return run.evaluate() or {}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="clearhead-pretraining-") as folder:
        starts = {"random": Path(folder, "random"), "pre-trained": Path(folder, "read")}
        train("masked-language-model", starts["random"], {}, steps=1, learning_rate=1e-12)
        train("masked-language-model", starts["pre-trained"], {}, steps=READING, learning_rate=2e-3)
        print(
            f"{'labels':>8s}{'random':>10s}{'pre-trained':>14s}   accuracy, median of {options.seeds} seeds"
        )
        for labels in LABELS:
            found: dict[str, list[float]] = {name: [] for name in starts}
            for seed in range(1, 1 + options.seeds):
                for name, start in starts.items():
                    quality = train(
                        "classify",
                        Path(folder, f"{name}-{labels}-{seed}"),
                        {"count": labels, "seed": seed},
                        steps=TUNING,
                        learning_rate=1e-3,
                        init_from=str(start / "last"),
                        seed=seed,
                        evaluate_every=TUNING,
                    )
                    found[name].append(quality["accuracy"])
            result[str(labels)] = found
            medians = {name: statistics.median(values) for name, values in found.items()}
            print(f"{labels:8d}{medians['random']:10.3f}{medians['pre-trained']:14.3f}", flush=True)
    report("pretraining", {"accuracy": result, "steps": [READING, TUNING]}, options.save)


if __name__ == "__main__":
    main()
