"""Does the server hold under load? Many streams for a while, some times over, then ten times the requests it can take.

A model as the recipe `python-lm` describes it, with random weights or those of `--model FOLDER`, 16 streams that start
again when they end, a new server each run. Once a minute all end before they start again: what a server gives up when
it has nothing to do, it must find again. To warm up, prompts fill what the server keeps of them. Bars, in every run: no
error, memory in use grows by less than 2 % from the second minute to the last, the time between tokens has a p99 of at
most 3 × its p50. Then requests arrive at ten times the rate at which the streams were served: what is refused is
refused within 100 ms (p99), what is accepted finishes, and `/health/live` answers with a p99 under 200 ms. Ten times as
many requests as there is room for, all at the same moment, are measured without a bar for the time of a refusal.
Started on one core (`taskset -c 0`, with `--threads 1`), server and clients share it, and the results say so.
"""

import asyncio
import json
import os
import random
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import arguments, report
from serving_client import (
    Stream,
    ask,
    free_port,
    get,
    own_mb,
    process,
    quantile,
    resident_mb,
    serve,
    write_recipe,
)

from clearhead.machine.load import usable_cores

STREAMS, SLOTS, QUEUE = 16, 16, 16
WARM_UP = 500  # prompts of a chunk or more, which fill the store of known beginnings
MOST_WARM_UPS = 8  # times over
PAUSE_AFTER = 60.0  # seconds
LONGEST = 7  # statements of a prompt: with the tokens that follow they fit the context


def body(draws: random.Random, shortest: int = 1, tokens: int = 0) -> dict[str, Any]:
    """A request of some length."""
    count = draws.randint(shortest, LONGEST)
    prompt = "\n".join(f"value_{draws.randrange(10**6)} = {draws.random()}" for _ in range(count))
    tokens = tokens or draws.randint(16, 80)
    return {"model": "bench", "prompt": prompt, "max_tokens": tokens, "temperature": 0.8, "stream": True}


def warm_up(port: int, process_id: int) -> None:
    """Fills what the server keeps until its memory stays: the compiled step is also loaded in between."""
    for _ in range(MOST_WARM_UPS):
        before = resident_mb(process_id)
        asyncio.run(fill(port))
        if resident_mb(process_id) < 1.01 * before:
            break


async def fill(port: int) -> None:
    """Sends prompts, with all slots in use."""
    draws, left = random.Random(time.time()), iter(range(WARM_UP))

    async def again() -> None:
        for _ in left:
            await ask(port, body(draws, LONGEST, tokens=2))

    await asyncio.gather(*(again() for _ in range(STREAMS)))


async def soak(port: int, process_id: int, seconds: float) -> dict[str, Any]:
    """Streams for so long: what they took, and the memory of the server."""
    end, draws = time.monotonic() + seconds, random.Random(1)
    done: list[Stream] = []
    memory, own = list[float](), list[float]()  # the second says whether growth is ours, or a library's pages

    async def again(until: float) -> None:
        while time.monotonic() < until:
            done.append(await ask(port, body(draws)))

    async def stream() -> None:
        while (now := time.monotonic()) < end:
            await asyncio.gather(*(again(min(end, now + PAUSE_AFTER)) for _ in range(STREAMS)))

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append(resident_mb(process_id))
            own.append(own_mb(process_id))
            await asyncio.sleep(1)

    await asyncio.gather(watch(), stream())
    gaps = [gap for stream in done for gap in stream.gaps]
    minute = min(60, len(memory) // 3)
    start, last = statistics.median(memory[minute : 2 * minute]), statistics.median(memory[-minute:])
    return {
        "seconds": seconds,
        "requests": len(done),
        "errors": sum(stream.status != 200 for stream in done),
        "tokens_per_second": sum(len(stream.parts) for stream in done) / seconds,
        "gap_p50": quantile(gaps, 0.5),
        "gap_p99": quantile(gaps, 0.99),
        "memory_mb": memory[:: max(1, len(memory) // 20)],
        "own_memory_mb": own[:: max(1, len(own) // 20)],
        "memory_growth": last / start - 1,
    }


async def overload(port: int, count: int, rate: float) -> dict[str, Any]:
    """So many requests, at a rate per second: how long refusals took, and whether the others finished."""
    draws, live, arrivals = random.Random(2), list[float](), random.Random(3)

    async def arrive() -> list[Stream | BaseException]:
        asked = []
        for _ in range(count):
            asked.append(asyncio.ensure_future(ask(port, body(draws))))
            if rate < float("inf"):
                await asyncio.sleep(arrivals.expovariate(rate))
        return await asyncio.gather(*asked, return_exceptions=True)

    arriving = asyncio.ensure_future(arrive())
    while not arriving.done():
        live.append(await get(port, "/health/live"))
        await asyncio.sleep(0.02)
    found = [one for one in await arriving if isinstance(one, Stream)]
    refused = [one.refused_after for one in found if one.status == 429]
    accepted = [one for one in found if one.status == 200]
    return {
        "per_second": rate,
        "asked": count,
        "answered": len(found),
        "refused": len(refused),
        "refused_p50": quantile(refused, 0.5),
        "refused_p99": quantile(refused, 0.99),
        "accepted": len(accepted),
        "finished": sum(one.is_whole for one in accepted),
        "live_p99": quantile(live, 0.99),
    }


def run(folder: Path, seconds: float, threads: int) -> dict[str, Any]:
    """A new server: streams, then too many requests, at a rate and at once."""
    port = free_port()
    command = serve(folder, port, "--slots", str(SLOTS), "--queue", str(QUEUE))
    with process(command, port, folder.parent / "log", threads) as server:
        warm_up(port, server.pid)
        held = asyncio.run(soak(port, server.pid, seconds))
        rate = 10 * held["requests"] / seconds
        flooded = asyncio.run(overload(port, max(200, int(rate * min(20.0, seconds))), rate))
        at_once = asyncio.run(overload(port, 10 * (SLOTS + QUEUE), float("inf")))
    at_once["per_second"] = None
    load = os.getloadavg()[2]  # of the last fifteen minutes, ours included
    return {"streams": held, "overload": flooded, "at_once": at_once, "load_average": load}


def bars(run: dict[str, Any]) -> dict[str, bool]:
    """Which bars a run keeps."""
    held, flooded, at_once = run["streams"], run["overload"], run["at_once"]
    return {
        "no error": held["errors"] == 0,
        "memory grows by less than 2 %": held["memory_growth"] < 0.02,
        "p99 between tokens at most 3 × p50": held["gap_p99"] <= 3 * held["gap_p50"],
        "refused within 100 ms": flooded["refused_p99"] < 0.1,
        "accepted requests finish": all(one["finished"] == one["accepted"] > 0 for one in (flooded, at_once)),
        "every request is answered": all(one["answered"] == one["asked"] for one in (flooded, at_once)),
        "live p99 under 200 ms": max(flooded["live_p99"], at_once["live_p99"]) < 0.2,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a trained model in place of random weights")
    parser.add_argument(
        "--after", type=Path, nargs="+", default=[], help="earlier results, whose runs count too"
    )
    options = parser.parse_args()
    runs: list[dict[str, Any]] = [
        one for earlier in options.after for one in json.loads(earlier.read_text())["runs"]
    ]
    with TemporaryDirectory() as place:
        folder = Path(place) / "model"
        weights = write_recipe(folder, "python-lm")
        if options.model is not None:
            folder = options.model
        for _ in range(options.runs):
            runs.append(run(folder, 60 * options.minutes, options.threads))
            print(f"run {len(runs)}")
            for part in ("streams", "overload", "at_once"):
                for name, value in runs[-1][part].items():
                    shown = f"{value:.4g}" if isinstance(value, float) else value
                    print(
                        f"  {part}, {name}: {shown}" if not isinstance(value, list) else f"  {name}: {value}"
                    )
    kept = {name: all(bars(run)[name] for run in runs) for name in bars(runs[0])}
    for name, is_kept in kept.items():
        print(f"{name}: {'kept' if is_kept else 'FAILED'}")
    result = {
        "weights": weights,
        "trained": options.model is not None,
        "streams": STREAMS,
        "runs": runs,
        "kept": kept,
        "seed": 1,
    }
    cores = len(usable_cores())  # which server and clients share
    question = "serving_soak_one-core" if cores == 1 else "serving_soak"
    report(question, {**result, "server_threads": options.threads, "usable_cores": cores}, options.save)


if __name__ == "__main__":
    main()
