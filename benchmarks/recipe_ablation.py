"""What helps a small language model to learn fast? `shakespeare-char-quick` with one thing changed at a time.

Every variation, a setting or a part of `recipe_parts.py`, is trained for the same steps on the first 90 % of the plays,
or with `--data brown` of as many characters of the Brown corpus, from the same seeds; the loss is that of the same
60,000 characters of the last 10 %. The seconds are those of the steps, of all cores together. What is done is kept in
--out, and the command continues there.
"""

import gzip
import json
import statistics
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from harness import SHARED_DATA, arguments, plays_in, report
from recipe_parts import cautious_decay, embedding_skips, value_embeddings

from clearhead.config.run import RunConfig
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.records import StepRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config

RECIPE, BASE = "shakespeare-char-quick", "the recipe"
VARIATIONS: dict[str, dict[str, str]] = {
    BASE: {},
    "no norm of the embeddings": {"model.embedding_norm": "false"},
    "gelu": {"model.feedforward": "gelu"},
    "no norm of queries and keys": {"model.query_key_norm": "false"},
    "no zero outputs": {"model.zero_outputs": "false"},
    "AdamW for all": {"training.optimizer": "adamw"},
    "learned positions": {"model.positions": "learned"},
    "tied tables": {"model.tied": "true"},
    "soft cap of 15": {"model.soft_cap": "15"},
    "cosine schedule": {"training.schedule": "cosine"},
    "no clipping": {"training.clip": "none"},
    "swiglu": {"model.feedforward": "swiglu"},
    "norms before and after": {"model.norm_placement": "both"},
    "weight decay of 0.1": {"training.weight_decay": "0.1"},
    "cautious decay of 0.1": {"training.weight_decay": "0.1"},
    "embedding skips": {},
    "value embeddings": {},
}
PARTS = {  # of the variations that are more than settings
    "cautious decay of 0.1": cautious_decay,
    "embedding skips": embedding_skips,
    "value embeddings": value_embeddings,
}


def train(changes: dict[str, str], seed: int, files: dict[str, str], steps: int) -> dict[str, float]:
    """One training of a variation: its loss at the end, and the processor's seconds of its steps."""
    fixed = {
        "training.steps": str(steps),
        "training.evaluate_every": "none",
        "training.evaluate_tokens": "60000",
    }
    config = RunConfig.read(RECIPE, files | fixed | {"training.seed": str(seed)} | changes)
    config = config.replace(training=config.training.replace(evaluate_every=steps))
    data = prepare(config)
    settings = model_config(config, data)
    trainer = Trainer(config.replace(model=settings), data, build(settings, seed), steps)
    seconds, started = 0.0, time.process_time()
    for record in trainer.train():
        if isinstance(record, StepRecord):
            seconds = time.process_time() - started
        else:
            return {"seed": seed, "loss": record.validation_loss, "processor_seconds": seconds}
    raise AssertionError("no evaluation at the end")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--data", choices=("plays", "brown"), default="plays")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--minutes", type=float, default=1e9, help="after which no further training starts")
    parser.add_argument("--out", type=Path, default=Path("runs/recipe-ablation"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # as `recipe_parts.py` needs it
    out = options.out / options.data
    files = plays_in(out)
    if options.data == "brown":
        write_brown(files)
    kept = out / f"{options.steps}.json"
    done: dict[str, list[dict[str, float]]] = json.loads(kept.read_text()) if kept.exists() else {}
    until = time.perf_counter() + 60 * options.minutes
    for seed in options.seeds:
        for name, changes in VARIATIONS.items():
            if any(run["seed"] == seed for run in done.get(name, [])) or time.perf_counter() > until:
                continue
            with PARTS.get(name, nullcontext)():
                done.setdefault(name, []).append(train(changes, seed, files, options.steps))
            kept.write_text(json.dumps(done))
            print(f"{name:30s} {done[name][-1]}", flush=True)
    question = "recipe_ablation" if options.data == "plays" else f"recipe_ablation_{options.data}"
    report(question, {"recipe": RECIPE, "steps": options.steps} | summary(done), options.save)


def write_brown(files: dict[str, str]) -> None:
    """Writes Brown into the files of the plays, as many characters of it."""
    with gzip.open(SHARED_DATA / "word2vec" / "brown.txt.gz", "rt", encoding="utf-8") as text:
        for name in ("data.train", "data.validation"):
            place = Path(files[name])
            place.write_text(text.read(len(place.read_text(encoding="utf-8"))), encoding="utf-8")


def summary(done: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """The mean loss of each variation, and how much it is above that of the recipe for the same seeds."""
    base = {run["seed"]: run for run in done[BASE]}
    found = {}
    for name, runs in done.items():
        pairs = [(run, base[run["seed"]]) for run in runs if run["seed"] in base]
        found[name] = {
            "changes": VARIATIONS[name],
            "loss": statistics.mean(run["loss"] for run, _ in pairs),
            "above_the_recipe": statistics.mean(run["loss"] - same["loss"] for run, same in pairs),
            "times_the_seconds": statistics.mean(
                run["processor_seconds"] / same["processor_seconds"] for run, same in pairs
            ),
            "runs": runs,
        }
    return {"variations": found, "not_run": [name for name in VARIATIONS if name not in done]}


if __name__ == "__main__":
    main()
