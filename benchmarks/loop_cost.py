"""What does our loop cost beside a bare one? The demo's translator, with everything on, against plain PyTorch.

Both take the same steps: the same model, batches, losses, clipping and optimizers. Ours also feeds from the prepared
data, watches for bad steps, logs, draws the progress and writes a checkpoint every 100 steps; the bare loop has its
batches in memory and does nothing else. They take turns, ten steps each, and ours waits for its checkpoint to be on the
disk before its turn ends. The bar: 3 %.
"""

import io
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from harness import arguments, is_within, ratio, report
from rich.console import Console

from clearhead.cli.progress import Display
from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.models.build import build
from clearhead.training.loop.losses import inputs_of, training_loss
from clearhead.training.loop.optimizers import make_optimizers, set_rate
from clearhead.training.loop.schedules import make_schedule
from clearhead.training.run.run import Run, make_run

BAR = 1.03
TURN, TURNS, WARM_UP = 10, 30, 2  # steps, turns, and turns that do not count
STEPS = TURN * TURNS


def ours(run: Run) -> Iterator[float]:
    """Seconds of each turn."""
    with Display(STEPS, Console(file=io.StringIO())) as display:
        start = time.perf_counter()
        for record in run.train():
            display.show(record)
            for thread in threading.enumerate():
                if thread.name == "clearhead-checkpoint":
                    thread.join()
            yield time.perf_counter() - start
            start = time.perf_counter()


def bare(run: Run) -> Iterator[float]:
    """The same in a loop of the fewest lines."""
    training = run.config.training
    model = build(run.config.model, training.seed).train()
    optimizers = make_optimizers(model, training)
    schedule = make_schedule(training.schedule, STEPS, training.warmup, training.decay, training.final_rate)
    batches = run.data.batches("train", training.batch_tokens, training.seed)
    held = [batches.at(Position(0, step)) for step in range(STEPS)]
    start = time.perf_counter()
    for step, batch in enumerate(held):
        total, _ = training_loss(model(inputs_of(batch)), batch, training.label_smoothing)
        (total / batch.total).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip or float("inf"))
        set_rate(optimizers, schedule(step))
        for optimizer in optimizers:
            optimizer.step()
        for weight in model.parameters():
            weight.grad = None
        if step % TURN == TURN - 1:
            yield time.perf_counter() - start
            start = time.perf_counter()


def main() -> None:
    options = arguments(__doc__).parse_args()
    config = RunConfig.read("spanish-translator")
    lengths = {"steps": STEPS, "checkpoint_every": 100, "evaluate_every": STEPS, "log_every": TURN}
    config = config.replace(training=config.training.replace(**lengths))
    with tempfile.TemporaryDirectory(prefix="clearhead-loop-") as folder:
        run = make_run(config, Path(folder, "run"))
        run.data.splits.pop("validation", None)  # steps are compared, not evaluations
        turns = list(zip(ours(run), bare(run), strict=False))[WARM_UP:]
    seconds = [one for one, _ in turns], [other for _, other in turns]
    whole = sum(seconds[0]) / sum(seconds[1])
    result = ratio(*seconds) | {"whole_ratio": whole, "bar": BAR, "steps": TURN * len(turns)}
    low, high = result["interval_95"]
    print(
        f"all steps {whole:.3f} × the bare loop; turns {result['median_ratio']:.3f} × (95 %: {low:.3f} to {high:.3f})"
    )
    kept = is_within(result, BAR)
    print("kept" if kept else "FAILED")
    report("loop_cost", result | {"kept": kept}, options.save)
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
