"""Does the model ever wait for data? A small model of each task steps over batches that a thread makes ahead.

The corpora are built in, the models have 2 blocks of width 64 and the batches 1,024 tokens, so that steps are
as short as anyone would train; a step is the pass forward and back. Waiting is the time in which no batch is
ready. The thread also takes some of the processor and of the interpreter's lock from the model: that is the
ratio of the time of 20 steps to that of the same steps over batches made before, in paired rounds. The bar:
less than 1 % of the time is spent waiting.
"""

import os
import tempfile
import time
from itertools import islice
from typing import Any

import torch
from harness import arguments, ratio, report
from torch.nn.functional import cross_entropy

from clearhead.config.data import DataConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tasks import Task
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.batching.batches import Batch
from clearhead.data.batching.loader import Loader
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.training.loop.losses import inputs_of

BAR = 0.01
BATCH_TOKENS = 1024
STEPS = 20
REST_SECONDS = 0.1
SEED = 1
CORPORA: dict[Task, str] = {
    "language-model": "builtin:reviews",
    "masked-language-model": "builtin:reviews",
    "translate": "builtin:spanish",
    "classify": "builtin:reviews",
}


def run_of(task: Task) -> RunConfig:
    """The smallest run of a task."""
    sizes = {"d": 64, "h": 2, "encoder_blocks": 2, "decoder_blocks": 2, "context": 64}
    head = {"head": "classifier", "classes": 3} if task == "classify" else {}
    shape = {"translate": "encoder-decoder", "language-model": "decoder"}.get(task, "encoder")
    model = ModelConfig.model_validate({"shape": shape, "vocabulary": 1000, **sizes, **head})
    data = DataConfig(train=CORPORA[task], count=5000)
    return RunConfig(
        task=task, data=data, tokenizer=TokenizerConfig(kind="bpe", vocabulary=1000), model=model
    )


def step(model: Model, batch: Batch) -> None:
    """One pass forward and back."""
    logits = model(inputs_of(batch))
    targets = batch.labels if batch.targets is None else batch.targets
    assert targets is not None
    model.zero_grad()
    cross_entropy(logits.flatten(0, -2), targets.flatten()).backward()


def measure(task: Task, rounds: int) -> dict[str, Any]:
    """The share of the time that goes by waiting, and what the thread costs the model."""
    run = run_of(task)
    prepared = prepare(run)
    model = build(run.model, SEED).train()
    seconds: tuple[list[float], list[float]] = ([], [])
    with Loader(prepared.batches("train", BATCH_TOKENS, SEED)) as loader:
        for _ in range(STEPS):
            step(model, next(loader))
        waited = loader.waited_seconds
        for _ in range(rounds):
            batches: list[Batch] = []
            started = time.perf_counter()
            for batch in islice(loader, STEPS):
                step(model, batch)
                batches.append(batch)
            seconds[0].append(time.perf_counter() - started)
            time.sleep(REST_SECONDS)  # the thread makes its last batches ahead
            started = time.perf_counter()
            for batch in batches:
                step(model, batch)
            seconds[1].append(time.perf_counter() - started)
        waited = loader.waited_seconds - waited
    total = sum(seconds[0])
    return ratio(*seconds) | {"waiting": waited / total, "milliseconds_a_step": 1000 * total / rounds / STEPS}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    results = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CLEARHEAD_CACHE"] = cache
        print(f"{'task':24s}{'ms a step':>12s}{'waiting':>10s}{'with / without the thread':>28s}")
        for task in CORPORA:
            result = results[task] = measure(task, options.rounds)
            low, high = result["interval_95"]
            print(
                f"{task:24s}{result['milliseconds_a_step']:12.1f}{result['waiting']:10.3%}"
                f"{result['median_ratio']:12.3f} ({low:.3f} to {high:.3f})",
                flush=True,
            )
    keeps = all(result["waiting"] < BAR for result in results.values())
    report("batch_wait", {"results": results, "kept": keeps, "bar": BAR, "seed": SEED}, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
