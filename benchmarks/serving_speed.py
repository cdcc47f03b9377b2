"""How fast is the server? Its streams beside the engine called directly, and beside llama-cpp-python's server.

A model of Llama's shape with random weights (float32), prompts of about 30 tokens, 128 new ones each, greedy without
the end token; one stream and eight at a time, rounds of each server in turn. `--llama PYTHON` names an interpreter that
has `llama_cpp.server`; its server gets the same weights as GGUF, in float32. Bars: eight streams at least 0.85 × the
tokens per second of the engine; at least 1.0 × llama.cpp's at one stream and 2 × at eight, first token no later (p99).
The server and the engine leave cores to other programs, as always; `--all-cores` is for a machine on which something of
idle priority runs, which takes no time from them but looks like another program.
"""

import asyncio
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from harness import arguments, report
from serving_client import Stream, ask, free_port, process, quantile, serve, write_model

from clearhead.api import load
from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.generate import Generator
from clearhead.decoding.live.engine import LiveEngine
from clearhead.decoding.live.request import Request
from clearhead.decoding.steppers.switching import stepper_of
from clearhead.decoding.threads import free_cores
from clearhead.exchange.exporting_gguf import export_gguf

NEW = 128
NAMES = {
    "clearhead": "bench",
    "llama.cpp": "gguf",
}  # of the model; llama.cpp sends no part for half a character
SIZES = {"10M": (384, 6, 6), "85M": (768, 12, 12)}  # d, blocks, h
ALL_CORES = "from clearhead.decoding.threads import FREE; FREE.threads = lambda most: most"
WORDS = (
    "number_{} = {}; import os, sys, re; def main(arguments): return sorted(arguments)"  # new from the start
)


def body(place: int, end: int, model: str) -> dict[str, Any]:
    """A request for one text."""
    return {
        "model": model, "prompt": WORDS.format(place, place), "max_tokens": NEW, "temperature": 0,
        "logit_bias": {str(end): -100}, "stream": True,
    }  # fmt: skip


def directly(folder: Path) -> "Any":
    """A function that writes so many texts with the engine alone."""
    model = load(folder)
    generator = Generator(model.bundle)
    stepper: Any = stepper_of(model.module, "fixed")
    prompts = [generator.prompt(WORDS.format(place, place)) for place in range(8)]

    def write(count: int) -> float:
        engine: LiveEngine[Any] = LiveEngine(stepper, generator.end, 1024, 8, guesses=False)
        settings = DecodingConfig(temperature=0.0, max_tokens=NEW, banned=generator.end)
        texts = [Request(prompt.ids, settings, tokenizer=generator.tokenizer) for prompt in prompts[:count]]
        began = time.perf_counter()
        for text in texts:
            engine.add(text)
        while engine.is_busy:
            with free_cores():
                engine.step()
        return count * NEW / (time.perf_counter() - began)

    return write


async def streams(port: int, count: int, end: int, model: str) -> tuple[float, list[Stream]]:
    """Tokens per second of so many streams at a time, and the streams."""
    began = time.perf_counter()
    found = await asyncio.gather(*(ask(port, body(place, end, model)) for place in range(count)))
    assert all(stream.status == 200 for stream in found)
    assert model != "bench" or all(len(stream.parts) == NEW for stream in found)
    return count * NEW / (time.perf_counter() - began), list(found)


def measure(size: str, rounds: int, llama: str | None, place: Path, before: str) -> dict[str, Any]:
    """Everything about one model."""
    folder = place / size
    weights = write_model(folder, *SIZES[size])
    write = directly(folder)
    end = load(folder).tokenizer.specials.end
    assert end is not None
    ports = {"clearhead": free_port()}
    commands = {"clearhead": serve(folder, ports["clearhead"], "--slots", "8", before=before)}
    if llama is not None:
        export_gguf(folder, place / f"{size}.gguf")
        ports["llama.cpp"] = free_port()
        commands["llama.cpp"] = [
            llama, "-m", "llama_cpp.server", "--model", str(place / f"{size}.gguf"), "--port", str(ports["llama.cpp"]),
            "--n_ctx", "1024", "--interrupt_requests", "false", "--n_threads", str(torch.get_num_threads()),
        ]  # fmt: skip
    result: dict[str, Any] = {"weights": weights}
    speeds: dict[str, list[float]] = {}
    client: dict[str, float] = {}  # seconds of a processor for each token
    firsts: dict[str, list[float]] = {}
    with ExitStack() as stack:
        for name, command in commands.items():
            stack.enter_context(
                process(command, ports[name], place / f"{size}-{name}.log", torch.get_num_threads())
            )
        for name, port in ports.items():
            asyncio.run(streams(port, 2, end, NAMES[name]))
        write(2)
        for round in range(rounds):
            for count in (1, 1, 1, 8):  # few first tokens say little about their p99
                for name in list(ports) if round % 2 else list(reversed(ports)):
                    began = time.process_time()
                    speed, found = asyncio.run(streams(ports[name], count, end, NAMES[name]))
                    client[f"{name}, {count}"] = (time.process_time() - began) / (count * NEW)
                    speeds.setdefault(f"{name}, {count}", []).append(speed)
                    firsts.setdefault(f"{name}, {count}", []).extend(stream.first for stream in found)
                speeds.setdefault(f"engine, {count}", []).append(write(count))
    for key, values in speeds.items():
        result[key] = {"tokens_per_second": statistics.median(values), "all": values}
        if key in firsts:
            result[key]["client_seconds_per_token"] = client[key]
            result[key]["first_token_p99"] = quantile(firsts[key], 0.99)
            result[key]["first_token_p50"] = quantile(firsts[key], 0.5)
    return result


def show(size: str, result: dict[str, Any]) -> None:
    """A line for each server and number of streams."""
    print(f"{size}, {result['weights']:,} weights")
    for key in sorted(result.keys() - {"weights"}):
        row = result[key]
        line = f"  {key:14} {row['tokens_per_second']:8.1f} tokens/s"
        if "first_token_p99" in row:
            line += f"   first token {1000 * row['first_token_p50']:.0f} ms, p99 {1000 * row['first_token_p99']:.0f} ms"
        print(line)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--llama", metavar="PYTHON", help="an interpreter that has llama_cpp.server")
    parser.add_argument("--all-cores", action="store_true", help="use all cores, whatever else runs")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.all_cores:
        exec(ALL_CORES)
    results: dict[str, Any] = {}
    with TemporaryDirectory() as place:
        for size in options.sizes:
            results[size] = measure(
                size, options.rounds, options.llama, Path(place), ALL_CORES if options.all_cores else ""
            )
            show(size, results[size])
    bars = {}
    for size, row in results.items():
        speed = {key: value["tokens_per_second"] for key, value in row.items() if key != "weights"}
        bars[f"{size}: server / engine, 8"] = speed["clearhead, 8"] / speed["engine, 8"]
        if options.llama is not None:
            for count in (1, 8):
                ours, theirs = f"clearhead, {count}", f"llama.cpp, {count}"
                bars[f"{size}: server / llama.cpp, {count}"] = speed[ours] / speed[theirs]
                bars[f"{size}: first token p99 / llama.cpp, {count}"] = (
                    row[ours]["first_token_p99"] / row[theirs]["first_token_p99"]
                )
    for name, value in bars.items():
        print(f"{name}: {value:.2f}")
    report(
        "serving_speed",
        {
            "results": results,
            "ratios": bars,
            "rounds": options.rounds,
            "seed": 1,
            "all_cores": options.all_cores,
        },
        options.save,
    )


if __name__ == "__main__":
    main()
