"""How fast is translation with a beam of 5? Our search in float32 and int8 beside CTranslate2.

Random weights of Marian's shape: 4 + 4 blocks with d = 128 and a vocabulary of 8,000, 6 + 6 blocks with d = 512 and
one of 32,000. 32 sources of 30 tokens, 30 new tokens each, the same weights in all engines, which are warm and run in
turn, each after a pause.
"""

import statistics
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import torch
import transformers as hf
from decode_speed import FLOAT, INT8, same_start
from harness import arguments, ratio, report
from peers import PAUSE, start_peers, write_ctranslate2

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.search import beam_search
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.exchange.importing import import_model
from clearhead.model_folder import Bundle, load
from clearhead.models.model import Model

SOURCES, LENGTH, NEW, BEAM = 32, 30, 30, 5
SHAPES = {"4+4, d 128": (4, 128, 4, 8000), "6+6, d 512": (6, 512, 8, 32000)}


def marian(blocks: int, d: int, h: int, vocabulary: int) -> Any:
    """A translator with random weights, the same every time."""
    torch.manual_seed(1)
    config = hf.MarianConfig(
        vocab_size=vocabulary + 1, d_model=d, encoder_layers=blocks, decoder_layers=blocks, encoder_attention_heads=h,
        decoder_attention_heads=h, encoder_ffn_dim=4 * d, decoder_ffn_dim=4 * d, max_position_embeddings=128,
        pad_token_id=vocabulary, eos_token_id=0, decoder_start_token_id=vocabulary, forced_eos_token_id=None,
        activation_function="relu", scale_embedding=True,
    )  # fmt: skip
    model = hf.MarianMTModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model


def ours(model: Model, start: int) -> Callable[[list[list[int]]], tuple[list[list[int]], float]]:
    """Our search, with one stepper for all runs."""
    stepper = stepper_of(model)
    assert isinstance(stepper, SwitchingStepper)
    stepper.prepare()
    settings = DecodingConfig(beam=BEAM, max_tokens=NEW, length_penalty=1.0)

    def run(sources: list[list[int]]) -> tuple[list[list[int]], float]:
        begin = perf_counter()
        found = beam_search(stepper, [[start]] * len(sources), settings, [], None, sources)
        return [best[0].ids for best in found], perf_counter() - begin

    return run


def measure(shape: str, options: Any, place: Path) -> dict[str, Any]:
    """All engines on one model."""
    vocabulary = SHAPES[shape][3]
    theirs = marian(*SHAPES[shape])
    theirs.save_pretrained(f"{place}/theirs")
    import_model(f"{place}/theirs", f"{place}/ours")
    model = load(f"{place}/ours").module
    rounded = Bundle(deepcopy(model))
    rounded.quantise()
    for kind in ("float32", "int8"):
        write_ctranslate2(place / "theirs", place / kind, kind, vocabulary)
    peers, missing = start_peers(
        {
            f"CTranslate2 {kind}": (options.peers, "ctranslate2-translator", place / kind, [options.threads])
            for kind in ("float32", "int8")
        }
    )
    engines: dict[str, Callable[[list[list[int]]], tuple[list[list[int]], float]]] = {
        FLOAT: ours(model, vocabulary), INT8: ours(rounded.module, vocabulary),
    }  # fmt: skip
    for name, peer in peers.items():
        engines[name] = lambda sources, peer=peer: peer.write(prompts=sources, new=NEW, beam=BEAM)  # type: ignore[misc]
    generator = torch.Generator().manual_seed(2)
    sources = torch.randint(1, vocabulary, (SOURCES, LENGTH), generator=generator).tolist()
    texts = {name: engine(sources)[0] for name, engine in engines.items()}
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for round in range(options.rounds):
        names = list(engines)
        first = round % len(names)
        for name in names[first:] + names[:first]:
            sleep(PAUSE)
            seconds[name].append(engines[name](sources)[1])
    result: dict[str, Any] = {
        "missing": missing,
        "engines": {name: peer.about for name, peer in peers.items()},
    }
    for name, times in seconds.items():
        speeds = sorted(SOURCES / time for time in times)
        result[name] = {
            "sentences_per_second": statistics.median(speeds), "slowest": speeds[0], "fastest": speeds[-1],
            "same_start": same_start(texts[FLOAT], texts[name]),
        }  # fmt: skip
        print(
            f"  {name:20s} {statistics.median(speeds):8.1f} sentences/s ({speeds[0]:.1f} to {speeds[-1]:.1f})"
        )
    for own in (FLOAT, INT8):
        result[own]["times_as_fast_as"] = {name: ratio(seconds[name], seconds[own]) for name in peers}
        ratios = result[own]["times_as_fast_as"]
        print(
            f"  {own}: "
            + ", ".join(f"{found['median_ratio']:.2f} × {name}" for name, found in ratios.items())
        )
    for peer in peers.values():
        peer.close()
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--peers", default="python", help="the Python of an environment with CTranslate2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--note", default="", help="of the result's name, such as avx2")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = {}
    for shape in options.shapes:
        print(shape, flush=True)
        with TemporaryDirectory() as place:
            results[shape] = measure(shape, options, Path(place))
    question = "_".join(["translate_speed", *filter(None, [options.note])])
    report(
        question,
        {"results": results, "rounds": options.rounds, "seed": 1},
        options.save,
        ("torch", "ctranslate2", "numba"),
    )


if __name__ == "__main__":
    main()
