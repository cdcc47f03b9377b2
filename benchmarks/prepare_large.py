"""Does a corpus larger than memory pass? A file of 4 GB becomes shards and batches in a process under 1 GB.

The text is generated: documents of 40 sentences of 50,000 invented words by Zipf's law. A process of its
own trains the tokenizer, prepares the file, reports on it and takes batches from all over it; its peak
memory is what the system says (the resident set, maps included). The bar: 1 GB.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import SUPPRESS
from pathlib import Path
from typing import Any

import numpy as np
from harness import arguments, report

GB = 1e9
BAR = 1.0
SEED = 1
BATCHES = 200


def words(count: int) -> list[str]:
    """Invented words, the frequent ones shorter."""
    random = np.random.default_rng(SEED)
    syllables = [
        a + b for a in "bcdfghjklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "el", "or", "is")
    ]
    return ["".join(random.choice(syllables, 1 + number.bit_length() // 5)) for number in range(count)]


def documents(count: int) -> list[str]:
    """Documents of 40 sentences, their words drawn by Zipf's law."""
    random = np.random.default_rng(SEED)
    known = words(50_000)
    weights = 1 / np.arange(1, len(known) + 1)
    borders = np.cumsum(weights / weights.sum())
    texts = []
    for _ in range(count):
        lines = []
        for length in random.integers(4, 30, size=40):
            drawn = np.searchsorted(borders, random.random(length)).clip(max=len(known) - 1)
            lines.append(" ".join([known[number] for number in drawn]).capitalize() + ".\n")
        texts.append("".join(lines))
    return texts


def generate(file: Path, size: int) -> None:
    """Write this many bytes: the same documents again and again in other orders, each time under a new title."""
    random = np.random.default_rng(SEED)
    texts = documents(10_000)
    written = number = 0
    with file.open("w", encoding="ascii") as stream:
        while written < size:
            for at in random.permutation(len(texts)):
                number += 1
                written += stream.write(f"Document {number}\n{texts[at]}\n")


def prepared(file: str) -> dict[str, Any]:
    """What the process under observation does; its figures."""
    from clearhead.config.data import DataConfig
    from clearhead.config.run import RunConfig
    from clearhead.data.batching.batches import Position
    from clearhead.data.prepare import prepare

    data = DataConfig(train=file, validation=0.001, documents="blank-line")
    run = RunConfig(task="language-model", data=data)
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    stages: list[str] = []

    def print_progress(progress: Any) -> None:
        if not stages or stages[-1] != progress.stage:
            stages.append(progress.stage)
            print(f"{time.perf_counter() - started:7.0f} s  {progress.stage}", file=sys.stderr, flush=True)

    ready = prepare(run, print_progress)
    seconds["prepare"] = time.perf_counter() - started
    seconds["prepare_processor"] = time.process_time()
    started = time.perf_counter()
    audit = ready.audit.splits["train"]
    seconds["audit"] = time.perf_counter() - started
    batches = ready.batches("train", 4096)
    started = time.perf_counter()
    for step in np.linspace(0, batches.count() - 1, BATCHES).astype(int):
        batches.at(Position(0, int(step)))
    seconds["batch"] = (time.perf_counter() - started) / BATCHES
    started = time.perf_counter()
    prepare(run)
    seconds["prepare_again"] = time.perf_counter() - started
    return {
        "seconds": seconds,
        "tokens": audit.tokens,
        "examples": audit.examples,
        "shard_bytes": ready.splits["train"].bytes,
        "batches": batches.count(),
        "peak_gigabytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GB,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--prepare", help=SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        print(json.dumps(prepared(options.prepare)))
        return
    size = int(options.gigabytes * GB)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 2.5 * size:
        raise SystemExit(
            f"{tempfile.gettempdir()} has {free / GB:.1f} GB free; {2.5 * size / GB:.1f} are needed."
        )
    with tempfile.TemporaryDirectory(prefix="clearhead-large-") as folder:
        file = Path(folder, "large.txt")
        generate(file, size)
        command = [sys.executable, __file__, "--prepare", str(file)]
        environment = os.environ | {"CLEARHEAD_CACHE": str(Path(folder, "cache"))}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
        result = json.loads(done.stdout) | {"gigabytes": file.stat().st_size / GB, "seed": SEED, "bar": BAR}
    result["megabytes_per_second"] = 1000 * result["gigabytes"] / result["seconds"]["prepare"]
    result["kept"] = result["peak_gigabytes"] < BAR
    for name, value in (result | result["seconds"]).items():
        if isinstance(value, float):
            print(f"{name:24s}{value:12.4f}")
    report("prepare_large", result, options.save, packages=("tokenizers", "tiktoken", "numpy"))
    raise SystemExit(not result["kept"])


if __name__ == "__main__":
    main()
