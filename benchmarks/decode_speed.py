"""How fast is a text written? Our engine, in float32 and int8, beside `generate` of transformers and bare products.

Random weights of GPT-2's shape, 124M (d = 768, 12 blocks, vocabulary 50257) and 10M (d = 384, 6 blocks,
vocabulary 512), the same in all engines; a prompt of 32 tokens, 128 new ones, greedy, batch 1 and 8. The bare
products are those that such a run cannot do without: every matrix once over the prompt, then once for each new
token, with nothing in between. Bars: 10M at least 1.5 × the tokens per second of transformers, 124M at least
0.85 × those of the bare products.
"""

import statistics
from collections.abc import Callable
from copy import deepcopy
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
import transformers as hf
from harness import arguments, in_turn, ratio, report
from torch import Tensor, nn

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import Draft, Engine, Stepper
from clearhead.decoding.steppers.direct import DirectStepper, stepper_of
from clearhead.exchange.importing import import_model
from clearhead.model_folder import Bundle, load
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder

PROMPT, NEW = 32, 128
SIZES: dict[str, dict[str, int]] = {
    "124M": {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257},
    "10M": {"n_embd": 384, "n_layer": 6, "n_head": 6, "vocab_size": 512},
}
# Which engine is the measure of which model, and how many times its speed is asked for.
BARS = {"10M": ("transformers", 1.5), "124M": ("products", 0.85)}


def models(size: str) -> tuple[Decoder, Any]:
    """The same random weights as a model of ours and as one of theirs."""
    torch.manual_seed(1)
    config = hf.GPT2Config(**SIZES[size], n_positions=1024, bos_token_id=None, eos_token_id=None)
    theirs = hf.GPT2LMHeadModel(config).eval()
    with torch.no_grad():  # wide logits, so that the likeliest token is no matter of rounding
        for weight in theirs.parameters():
            weight.mul_(2)
    with TemporaryDirectory() as place:
        theirs.save_pretrained(f"{place}/theirs")
        import_model(f"{place}/theirs", f"{place}/ours")
        ours = load(f"{place}/ours").module
    assert isinstance(ours, Decoder)
    return ours, theirs


def write(stepper: Stepper[Any], context: int | None, prompts: list[list[int]]) -> list[list[int]]:
    """By our engine."""
    engine = Engine(stepper, [], context, len(prompts))
    texts = [Draft(prompt, DecodingConfig(temperature=0.0, max_tokens=NEW)) for prompt in prompts]
    for text in texts:
        engine.add(text)
    while engine.is_busy:
        engine.step()
    return [text.ids for text in texts]


@torch.inference_mode()
def generate(model: Any, prompts: Tensor) -> list[list[int]]:
    """By `generate` of transformers."""
    settings = hf.GenerationConfig(
        max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0, use_cache=True
    )
    mask = torch.ones_like(prompts)
    return model.generate(prompts, attention_mask=mask, generation_config=settings)[:, PROMPT:].tolist()


def products(model: Decoder, batch: int) -> Callable[[], None]:
    """Every matrix of the model, times the rows that a run has for it."""
    layers = [module for module in model.decoder.modules() if isinstance(module, nn.Linear)]
    inputs = {layer.in_features: torch.randn(batch * PROMPT, layer.in_features) for layer in layers}
    head = model.decoder.tokens.weight

    def once(rows: int) -> None:
        for layer in layers:
            F.linear(inputs[layer.in_features][:rows], layer.weight, layer.bias)
        F.linear(inputs[head.shape[1]][:batch], head)

    @torch.inference_mode()
    def run() -> None:
        once(batch * PROMPT)
        for _ in range(NEW - 1):
            once(batch)

    return run


def measure(size: str, batch: int, rounds: int) -> dict[str, Any]:
    """All engines on one model and batch: tokens per second, and how ours compare."""
    ours, theirs = models(size)
    prompts = torch.randint(
        0, SIZES[size]["vocab_size"], (batch, PROMPT), generator=torch.Generator().manual_seed(2)
    )
    stepper, rounded = ready_stepper(ours), Bundle(deepcopy(ours))
    rounded.quantise()
    in_int8 = ready_stepper(rounded.module)
    engines: dict[str, Callable[[], object]] = {
        "clearhead": lambda: write(stepper, ours.config.context, prompts.tolist()),
        "clearhead int8": lambda: write(in_int8, ours.config.context, prompts.tolist()),
        "transformers": lambda: generate(theirs, prompts),
        "products": products(ours, batch),
    }
    seconds = in_turn(engines, rounds)
    texts = write(stepper, ours.config.context, prompts.tolist())
    result: dict[str, Any] = {"same_texts": texts == generate(theirs, prompts)}
    for name, times in seconds.items():
        speeds = sorted(batch * NEW / time for time in times)
        result[name] = {
            "tokens_per_second": statistics.median(speeds),
            "slowest": speeds[0],
            "fastest": speeds[-1],
        }
        if name != "clearhead":  # seconds of theirs over seconds of ours: how many times as fast we are
            result[name]["ours_times_as_fast"] = ratio(times, seconds["clearhead"])
    return result


def ready_stepper(model: Model) -> Stepper[Any]:
    """One stepper for all rounds, as in a server, with its compiled step."""
    stepper = stepper_of(model)
    assert isinstance(stepper, DirectStepper)
    stepper.prepare()
    return stepper


def show(name: str, result: dict[str, Any]) -> None:
    """A line for each engine."""
    print(f"{name}   same texts: {'yes' if result['same_texts'] else 'NO'}")
    for engine in ("clearhead", "clearhead int8", "transformers", "products"):
        row = result[engine]
        spread = f"({row['slowest']:.1f} to {row['fastest']:.1f})"
        line = f"  {engine:15s} {row['tokens_per_second']:9.1f} tokens/s  {spread}"
        if "ours_times_as_fast" in row:
            low, high = row["ours_times_as_fast"]["interval_95"]
            line += (
                f"   ours {row['ours_times_as_fast']['median_ratio']:.2f} ×  (95 %: {low:.2f} to {high:.2f})"
            )
        print(line)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, Any] = {}
    kept = True
    for size in options.sizes:
        for batch in options.batches:
            name = f"{size}, batch {batch}"
            results[name] = measure(size, batch, options.rounds)
            show(name, results[name])
            engine, bar = BARS[size]
            keeps = is_above(results[name][engine]["ours_times_as_fast"], bar)
            print(f"  bar {bar} × {engine}: {'kept' if keeps else 'FAILED'}")
            kept = kept and keeps
    report(
        "decode_speed",
        {"results": results, "bars": BARS, "kept": kept, "rounds": options.rounds, "seed": 1},
        options.save,
        ("torch", "transformers"),
    )
    raise SystemExit(not kept)


def is_above(result: dict[str, Any], at_least: float) -> bool:
    """Whether a ratio keeps its bar: its interval does not lie wholly below."""
    return bool(result["interval_95"][1] >= at_least)


if __name__ == "__main__":
    main()
