"""How near is a step to what memory allows? One text of 124M float32 weights, beside reading as many numbers only.

What memory gives varies by the minute, so each round reads 1 GB of numbers to add them (the best of three times), and
writes 96 tokens by our engine and by llama.cpp. A share is the speed at which an engine reads its weights, by that of
reading only in the same round.
"""

import statistics
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import torch
from decode_speed import FLOAT, SIZES, ours
from harness import arguments, median_interval, report
from peers import PAUSE, gpt2, start_peers, write_gguf

from clearhead.exchange.importing import import_model
from clearhead.model_folder import load

SIZE, NEW, NUMBERS = "124M", 96, 2**28
READING, LLAMA = "reading only", "llama.cpp f32"


def reading(X: torch.Tensor) -> float:
    """Bytes a second, the best of three times."""
    times = []
    for _ in range(3):
        start = perf_counter()
        X.sum()
        times.append(perf_counter() - start)
    return 4 * X.numel() / min(times)


def measure(options: Any, place: Path) -> dict[str, list[float]]:
    """Bytes a second of each engine in each round."""
    theirs = gpt2(SIZES[SIZE])
    theirs.save_pretrained(f"{place}/theirs")
    import_model(f"{place}/theirs", f"{place}/ours")
    write_gguf(theirs, place / "f32.gguf", is_int8=False)
    model = load(f"{place}/ours").module
    peers, _ = start_peers({LLAMA: (options.peers, "llama", place / "f32.gguf", [options.threads, 1])})
    weights = 4 * (sum(W.numel() for W in model.parameters()) - 1024 * SIZES[SIZE]["n_embd"])
    own, X, prompt = ours(model), torch.ones(NUMBERS), [[5, 8, 13]]
    engines: dict[str, Callable[[], float]] = {FLOAT: lambda: own(prompt, NEW)[1]}
    for name, peer in peers.items():
        engines[name] = lambda peer=peer: peer.write(prompts=prompt, new=NEW)[1]  # type: ignore[misc]
    speeds: dict[str, list[float]] = {name: [] for name in (READING, *engines)}
    for engine in engines.values():
        engine()
    for _ in range(options.rounds):
        sleep(PAUSE)
        speeds[READING].append(reading(X))
        for name, engine in engines.items():
            sleep(PAUSE)
            speeds[name].append(NEW * weights / engine())
    for peer in peers.values():
        peer.close()
    return speeds


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--peers", default="python", help="the Python of an environment with llama.cpp")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as place:
        speeds = measure(options, Path(place))
    results: dict[str, Any] = {}
    for name, own in speeds.items():
        shares = [speed / limit for speed, limit in zip(own, speeds[READING], strict=True)]
        results[name] = {
            "bytes_per_second": own, "share": statistics.median(shares), "interval_95": median_interval(shares),
        }  # fmt: skip
        print(
            f"{name:20s} {statistics.median(own) / 1e9:5.1f} GB/s, {results[name]['share']:.0%} of reading only"
        )
    report(
        "reading_share",
        {"results": results, "rounds": options.rounds, "seed": 1},
        options.save,
        ("torch", "numba"),
    )


if __name__ == "__main__":
    main()
