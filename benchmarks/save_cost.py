"""What do checkpoints cost a run? One that keeps them as often as its plan says, against the same that keeps none.

A translator like the demo's, but wider and deeper, so that its state takes a while to write. Both runs are in one
process and take turns; a turn is as many steps as the plan puts between two checkpoints, and in the middle of each of
our turns one is copied, and written while training continues. The bar: 2 %.
"""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import arguments, is_within, paired, ratio, report

from clearhead.config.run import RunConfig
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.run.disk import seconds_to_save, used_room
from clearhead.training.run.folder import CHECKPOINTS
from clearhead.training.run.run import Run, make_run

BAR = 1.02
STEPS = 100_000  # more than are taken
LOG_EVERY, BATCH_TOKENS = 2, 1024  # short steps, so that an interval has many


def make(config: RunConfig, folder: Path, every: int | None) -> Run:
    """A run that keeps a checkpoint every so many steps, or as the plan says."""
    run = make_run(config.replace(training=config.training.replace(checkpoint_every=every)), folder)
    run.data.splits.pop("validation", None)  # steps are compared, not evaluations
    return run


def turns(run: Run, every: int) -> Iterator[None]:
    """Trains, and stops for a moment half-way between any two checkpoints, when what was kept is on disk."""
    middle = every // 2 // LOG_EVERY * LOG_EVERY
    for record in run.train():
        if record.step % every == middle:
            for thread in threading.enumerate():
                if thread.name == "clearhead-checkpoint":
                    thread.join()
            yield


def measure(config: RunConfig, folder: Path, pairs: int) -> dict[str, Any]:
    """The two in turn."""
    run = make(config, folder / "ours", None)
    every = run.plan.checkpoint_every
    ours, bare = turns(run, every), turns(make(config, folder / "bare", STEPS), every)
    print(f"{every} steps between two checkpoints, about {every * run.plan.seconds_per_step:.0f} seconds")
    seconds = paired(lambda: next(ours), lambda: next(bare), pairs)
    kept = list_checkpoints(folder / "ours" / CHECKPOINTS)[-1]
    size = used_room(kept)
    return ratio(*seconds) | {
        "whole_ratio": sum(seconds[0]) / sum(seconds[1]),
        "seconds": seconds,
        "steps_between": every,
        "checkpoint_bytes": size,
        "seconds_to_save_alone": seconds_to_save(folder, size),
        "parameters": run.plan.parameters,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--d", type=int, default=384, help="width of the model")
    options = parser.parse_args()
    config = RunConfig.read("spanish-translator")
    training = config.training.replace(
        steps=STEPS, evaluate_every=STEPS, log_every=LOG_EVERY, batch_tokens=BATCH_TOKENS
    )
    model = config.model.replace(d=options.d, d_ff=4 * options.d, encoder_blocks=4, decoder_blocks=4)
    config = config.replace(training=training, model=model)
    with tempfile.TemporaryDirectory(prefix="clearhead-save-") as folder:
        result = measure(config, Path(folder), options.pairs)
    low, high = result["interval_95"]
    print(
        f"with checkpoints {result['median_ratio']:.4f} × the time without (95 %: {low:.4f} to {high:.4f}; "
        f"pairs from {result['smallest']:.4f} to {result['largest']:.4f})"
    )
    kept = is_within(result, BAR)
    print("kept" if kept else "FAILED")
    report("save_cost", result | {"bar": BAR, "kept": kept}, options.save)
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
