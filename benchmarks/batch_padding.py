"""How much of a batch is padding, and how long does it take to make? Multi30k through the real data path.

Pairs of English and German captions (29,000) are prepared with a joint BPE of 10,000 and split into batches of
several sizes; every batch of three epochs is made and its padding counted, beside the same examples in
batches that are not sorted by length. The bar: less than 5 % of padding at 4,096 tokens.
"""

import os
import tempfile
import time
from typing import Any

import numpy as np
from harness import SHARED_DATA, arguments, report

from clearhead.config.data import DataConfig
from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.batching.batches import Batches
from clearhead.data.batching.plans import Bucketed, Lengths
from clearhead.data.order import Integers
from clearhead.data.prepare import Prepared, prepare

FOLDER = SHARED_DATA / "multi30k" / "raw"
SIZES = (1024, 2048, 4096, 8192, 16384)
BAR, BAR_AT = 0.05, 4096
EPOCHS = 3
SEED = 1


def measure(prepared: Prepared, batch_tokens: int) -> dict[str, Any]:
    """The padding and the cost of batches of one size."""
    batches = prepared.batches("train", batch_tokens, SEED)
    real = padded = count = 0
    started = time.perf_counter()
    for epoch in range(EPOCHS):
        for batch in batches.epoch(epoch):
            assert batch.source is not None
            real += batch.tokens
            padded += batch.inputs.numel() + batch.source.numel()
            count += 1
    seconds = time.perf_counter() - started
    return {
        "padding": 1 - real / padded,
        "padding_unsorted": unsorted(batches, count // EPOCHS),
        "batches": count / EPOCHS,
        "fill": padded / count / batch_tokens,
        "milliseconds_a_batch": 1000 * seconds / count,
    }


def padding(lengths: Lengths, batches: list[Integers]) -> float:
    """The share of padding in all the tokens of these batches."""
    real = sum(int(lengths[batch].sum()) for batch in batches)
    padded = sum(len(batch) * int(lengths[batch].max(axis=0).sum()) for batch in batches)
    return 1 - real / padded if padded else 0.0


def unsorted(batches: Batches, count: int) -> float:
    """The padding of equally many batches of random examples."""
    plan = batches.plan
    assert isinstance(plan, Bucketed)
    examples = np.random.default_rng(SEED).permutation(plan.size)
    return padding(plan.lengths(np.arange(plan.size)), np.array_split(examples, count))


def main() -> None:
    options = arguments(__doc__).parse_args()
    if not FOLDER.is_dir():
        raise SystemExit(f"skipped: Multi30k is not in {FOLDER}, and is not part of the project.")
    train = (str(FOLDER / "train.en.gz"), str(FOLDER / "train.de.gz"))
    tokenizer = TokenizerConfig(kind="bpe", vocabulary=10_000)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CLEARHEAD_CACHE"] = cache
        data = DataConfig(train=train, validation=0.0)
        prepared = prepare(RunConfig(task="translate", data=data, tokenizer=tokenizer))
        print(f"{'tokens':>8s}{'padding':>10s}{'unsorted':>10s}{'batches':>10s}{'filled':>10s}{'ms':>8s}")
        results = {}
        for size in SIZES:
            result = results[size] = measure(prepared, size)
            print(
                f"{size:8d}{result['padding']:10.2%}{result['padding_unsorted']:10.2%}{result['batches']:10.0f}"
                f"{result['fill']:10.1%}{result['milliseconds_a_batch']:8.2f}"
            )
    keeps = results[BAR_AT]["padding"] < BAR
    report("batch_padding", {"results": results, "kept": keeps, "bar": BAR, "seed": SEED}, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
