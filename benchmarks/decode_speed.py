"""How fast is a text written? Our engine in float32 and int8 beside llama.cpp, CTranslate2 and transformers.

Random weights of GPT-2's shape, 124M (d = 768, 12 blocks, vocabulary 50257) and 10M (d = 384, 6 blocks, vocabulary
512), the same in all engines; a prompt of 32 tokens, 128 new ones, greedy, batch 1 and 8; and the time to the first
token after a prompt of 512. Engines are warm and run in turn, each in its own process, with the same threads, after a
pause in which the threads of the one before go to sleep. The share of the memory's bandwidth counts every weight once
for each step.
"""

import statistics
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import torch
import transformers as hf
from harness import arguments, ratio, report
from peers import PAUSE, gpt2, kept_to, memory_bandwidth, start_peers, write_ctranslate2, write_gguf

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import Draft, Engine, Stepper
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.exchange.importing import import_model
from clearhead.model_folder import Bundle, load
from clearhead.models.model import Model

PROMPT, NEW, LONG = 32, 128, 512
SIZES: dict[str, dict[str, int]] = {
    "10M": {"n_embd": 384, "n_layer": 6, "n_head": 6, "vocab_size": 512},
    "124M": {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257},
}
FLOAT, INT8 = "clearhead float32", "clearhead int8"
FLOAT_PEERS = ("llama.cpp f32", "CTranslate2 float32", "transformers")
INT8_PEERS = ("llama.cpp q8_0", "CTranslate2 int8")
Engines = dict[str, Callable[[list[list[int]], int], tuple[list[list[int]], float]]]


def ours(model: Model) -> Callable[[list[list[int]], int], tuple[list[list[int]], float]]:
    """Our engine, with one stepper for all runs, as in a server."""
    stepper = stepper_of(model)
    assert isinstance(stepper, SwitchingStepper)
    stepper.prepare()
    return lambda prompts, new: write(stepper, prompts, new)


def write(stepper: Stepper[Any], prompts: list[list[int]], new: int) -> tuple[list[list[int]], float]:
    """The texts and the seconds of our engine."""
    start = perf_counter()
    engine = Engine(stepper, [], None, len(prompts))
    texts = [Draft(prompt, DecodingConfig(temperature=0.0, max_tokens=new)) for prompt in prompts]
    for text in texts:
        engine.add(text)
    while engine.is_busy:
        engine.step()
    return [text.ids for text in texts], perf_counter() - start


@torch.inference_mode()
def generate(model: Any, prompts: list[list[int]], new: int) -> tuple[list[list[int]], float]:
    """By `generate` of transformers."""
    settings = hf.GenerationConfig(
        max_new_tokens=new, min_new_tokens=new, do_sample=False, pad_token_id=0, use_cache=True
    )
    start, tokens = perf_counter(), torch.tensor(prompts)
    found = model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=settings)
    return found[:, tokens.shape[1] :].tolist(), perf_counter() - start


def in_turn(engines: Engines, prompts: list[list[int]], new: int, rounds: int) -> dict[str, Any]:
    """The texts and the seconds of every engine; each is first equally often, after a run to warm up."""
    names = list(engines)
    texts = {name: engines[name](prompts, new)[0] for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round in range(rounds):
        first = round % len(names)
        for name in names[first:] + names[:first]:
            sleep(PAUSE)
            seconds[name].append(engines[name](prompts, new)[1])
    return {"texts": texts, "seconds": seconds}


def same_start(ours: list[list[int]], theirs: list[list[int]]) -> float:
    """The share of tokens before the first that differs: rounding ends a text's agreement, and no engine skips work."""
    same = 0
    for a, b in zip(ours, theirs, strict=True):
        same += next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))
    return same / sum(map(len, ours))


def summary(
    found: dict[str, Any], tokens: int, bytes_of: dict[str, float], bandwidth: float
) -> dict[str, Any]:
    """Medians and spread of every engine, and how ours compare with the best of the others."""
    seconds, result = found["seconds"], {}
    for name, times in seconds.items():
        speeds = sorted(tokens / time for time in times)
        result[name] = {
            "tokens_per_second": statistics.median(speeds), "slowest": speeds[0], "fastest": speeds[-1],
            "seconds": statistics.median(times), "same_start": same_start(found["texts"][FLOAT], found["texts"][name]),
        }  # fmt: skip
        if name in bytes_of:
            result[name]["share_of_bandwidth"] = bytes_of[name] / statistics.median(times) / bandwidth
    for own in (FLOAT, INT8):
        result[own]["times_as_fast_as"] = {
            name: ratio(times, seconds[own]) for name, times in seconds.items() if name not in (FLOAT, INT8)
        }
    return result


def show(name: str, result: dict[str, Any]) -> None:
    """A line for each engine."""
    print(name)
    for engine, row in result.items():
        line = f"  {engine:20s} {row['tokens_per_second']:9.1f} tokens/s ({row['slowest']:.1f} to {row['fastest']:.1f})"
        line += f"  {row['seconds'] * 1000:8.1f} ms  same start {row['same_start']:.2f}"
        if "share_of_bandwidth" in row:
            line += f"  {row['share_of_bandwidth']:.0%} of the bandwidth"
        print(line, flush=True)
    for own in (FLOAT, INT8):
        ratios = {peer: found["median_ratio"] for peer, found in result[own]["times_as_fast_as"].items()}
        print(f"  {own}: " + ", ".join(f"{value:.2f} × {peer}" for peer, value in ratios.items()), flush=True)


def write_models(theirs: Any, place: Path, vocabulary: int) -> None:
    """The same weights as a folder or a file of each engine."""
    theirs.save_pretrained(f"{place}/theirs")
    import_model(f"{place}/theirs", f"{place}/ours")
    for name, is_int8 in (("f32", False), ("q8_0", True)):
        write_gguf(theirs, place / f"{name}.gguf", is_int8)
    for kind in ("float32", "int8"):
        write_ctranslate2(place / "theirs", place / kind, kind, vocabulary)


def measure(size: str, options: Any, place: Path) -> dict[str, Any]:
    """All engines on one model."""
    place = place / size
    place.mkdir(parents=True, exist_ok=True)
    vocabulary = SIZES[size]["vocab_size"]
    theirs = gpt2(SIZES[size])
    if not (place / "int8").exists():
        write_models(theirs, place, vocabulary)
    model = load(f"{place}/ours").module
    rounded = Bundle(deepcopy(model))
    rounded.quantise()
    rows, python, threads = max(options.batches), options.peers, options.threads
    peers, missing = start_peers(
        {
            "llama.cpp f32": (python, "llama", place / "f32.gguf", [threads, rows]),
            "llama.cpp q8_0": (python, "llama", place / "q8_0.gguf", [threads, rows]),
            "CTranslate2 float32": (python, "ctranslate2", place / "float32", [threads]),
            "CTranslate2 int8": (python, "ctranslate2", place / "int8", [threads]),
        }
    )
    engines: Engines = {FLOAT: ours(model), INT8: ours(rounded.module)}
    for name, peer in peers.items():
        engines[name] = lambda prompts, new, peer=peer: peer.write(prompts=prompts, new=new)  # type: ignore[misc]
    if not options.without_transformers:
        engines["transformers"] = lambda prompts, new: generate(theirs, prompts, new)
    bandwidth = memory_bandwidth()
    # The matrices and the head; the tables of tokens and positions are read for one row.
    weights = sum(W.numel() for W in model.parameters()) - 1024 * SIZES[size]["n_embd"]
    bytes_of = {
        name: float(NEW * weights * (1 if name.endswith(("int8", "q8_0")) else 4))
        for name in (FLOAT, INT8, *FLOAT_PEERS, *INT8_PEERS)
    }
    results: dict[str, Any] = {
        "bandwidth": bandwidth, "missing": missing, "engines": {name: peer.about for name, peer in peers.items()},
        "kept_to": kept_to(),
    }  # fmt: skip
    generator = torch.Generator().manual_seed(2)
    for batch in options.batches:
        prompts = torch.randint(0, vocabulary, (batch, PROMPT), generator=generator).tolist()
        found, again = in_turn(engines, prompts, NEW, options.rounds), memory_bandwidth()
        # It varies by the minute.
        bandwidth = {way: max(speed, again[way]) for way, speed in bandwidth.items()}
        results[f"batch {batch}"] = summary(found, batch * NEW, bytes_of, max(bandwidth.values()))
        show(f"{size}, batch {batch}", results[f"batch {batch}"])
    prompts = torch.randint(0, vocabulary, (1, LONG), generator=generator).tolist()
    results["first token"] = summary(in_turn(engines, prompts, 1, options.rounds), LONG, {}, 1.0)
    show(f"{size}, first token after {LONG}", results["first token"])
    for peer in peers.values():
        peer.close()
    return results


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--peers", default="python", help="the Python of an environment with the other engines"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--size", choices=SIZES, default="10M")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument(
        "--models", type=Path, help="a folder that keeps the models of all engines for other runs"
    )
    parser.add_argument("--without-transformers", action="store_true")
    parser.add_argument("--note", default="", help="of the result's name, such as avx2")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() if options.models is None else nullcontext(options.models) as place:
        results = measure(options.size, options, Path(place))
    question = "_".join(["decode_speed", options.size.lower(), *filter(None, [options.note])])
    report(
        question,
        {"results": results, "rounds": options.rounds, "seed": 1},
        options.save,
        ("torch", "transformers", "numba"),
    )


if __name__ == "__main__":
    main()
