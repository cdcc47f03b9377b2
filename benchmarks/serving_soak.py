"""Does the server hold under load? Many streams for a while, then ten times as many requests as it takes.

A model of Llama's shape with random weights, 16 streams that start again when they end. Bars: no error, memory in use
grows by less than 2 % after the first third, the time between tokens has a p99 of at most 3 × its p50. Then 10 ×
overload: what is refused is refused within 100 ms, what is accepted finishes, and `/health/live` answers with a p99
under 200 ms.
"""

import asyncio
import random
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import arguments, report
from serving_client import Stream, ask, free_port, get, process, quantile, resident_mb, serve, write_model

STREAMS, SLOTS, QUEUE = 16, 16, 16


def body(draws: random.Random) -> dict[str, Any]:
    """A request of some length."""
    prompt = " ".join(
        f"value_{draws.randrange(10**6)} = {draws.random()}" for _ in range(draws.randint(1, 20))
    )
    tokens = draws.randint(16, 160)
    return {"model": "bench", "prompt": prompt, "max_tokens": tokens, "temperature": 0.8, "stream": True}


async def soak(port: int, process_id: int, seconds: float) -> dict[str, Any]:
    """Streams for so long: what they took, and the memory of the server."""
    end, draws = time.monotonic() + seconds, random.Random(1)
    done: list[Stream] = []
    memory: list[float] = []

    async def again() -> None:
        while time.monotonic() < end:
            done.append(await ask(port, body(draws)))

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append(resident_mb(process_id))
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *(again() for _ in range(STREAMS)))
    gaps = [gap for stream in done for gap in stream.gaps]
    start = statistics.median(memory[len(memory) // 3 : len(memory) // 3 + 5])
    return {
        "seconds": seconds,
        "requests": len(done),
        "errors": sum(stream.status != 200 for stream in done),
        "tokens_per_second": sum(len(stream.parts) for stream in done) / seconds,
        "gap_p50": quantile(gaps, 0.5),
        "gap_p99": quantile(gaps, 0.99),
        "memory_mb": [start, statistics.median(memory[-5:])],
        "memory_growth": statistics.median(memory[-5:]) / start - 1,
    }


async def overload(port: int) -> dict[str, Any]:
    """Ten times as many requests as there is room for, at once."""
    draws, live = random.Random(2), list[float]()
    asked = asyncio.gather(
        *(ask(port, body(draws)) for _ in range(10 * (SLOTS + QUEUE))), return_exceptions=True
    )
    while not asked.done():
        live.append(await get(port, "/health/live"))
        await asyncio.sleep(0.02)
    found = [one for one in await asked if isinstance(one, Stream)]
    refused = [one.refused_after for one in found if one.status == 429]
    accepted = [one for one in found if one.status == 200]
    return {
        "asked": 10 * (SLOTS + QUEUE),
        "answered": len(found),
        "refused": len(refused),
        "refused_p99": quantile(refused, 0.99),
        "accepted": len(accepted),
        "finished": sum(bool(one.parts) for one in accepted),
        "live_p99": quantile(live, 0.99),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with TemporaryDirectory() as place:
        folder, port = Path(place) / "model", free_port()
        weights = write_model(folder, 192, 4, 6)
        command = serve(folder, port, "--slots", str(SLOTS), "--queue", str(QUEUE))
        with process(command, port, Path(place) / "log", options.threads) as server:
            held = asyncio.run(soak(port, server.pid, 60 * options.minutes))
            flooded = asyncio.run(overload(port))
    for name, value in {**held, **flooded}.items():
        print(f"{name}: {value}")
    kept = {
        "no error": held["errors"] == 0,
        "memory grows by less than 2 %": held["memory_growth"] < 0.02,
        "p99 between tokens at most 3 × p50": held["gap_p99"] <= 3 * held["gap_p50"],
        "refused within 100 ms": flooded["refused_p99"] < 0.1,
        "accepted requests finish": flooded["finished"] == flooded["accepted"] > 0,
        "live p99 under 200 ms": flooded["live_p99"] < 0.2,
    }
    for name, is_kept in kept.items():
        print(f"{name}: {'kept' if is_kept else 'FAILED'}")
    result = {
        "weights": weights,
        "streams": STREAMS,
        "soak": held,
        "overload": flooded,
        "kept": kept,
        "seed": 1,
    }
    report("serving_soak", {**result, "server_threads": options.threads}, options.save)


if __name__ == "__main__":
    main()
