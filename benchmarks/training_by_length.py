"""What does a token cost in training as texts get longer (N34, N41)?

A recurrence must finish one token before it can start the next. Attention and filters take all tokens of a text at
once, so that a longer text is a larger product, but attention compares each token with all before it. Language models
of one width and two blocks are trained on one text at a time, and on as many texts as make 4096 tokens, which also
gives a recurrence something to do at once. Measured is the processor time of forward, loss and backward on one thread,
every case in turn; a machine with more units than one core has more to lose from a recurrence. Draws
docs/images/training-by-length.svg.
"""

import statistics
import time
from typing import Any

import torch
import torch.nn.functional as F
from drawing import Axis, draw
from harness import arguments, median_interval, report

from clearhead.config.families import read_model_config
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

TOKENS = 4096
LENGTHS = (16, 64, 256, 1024)
SIZES: dict[str, Any] = {"vocabulary": 500, "d": 128, "context": 1024, "decoder_blocks": 2}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"h": 4},
    "LSTM": {"family": "recurrent"},
    "RNN": {"family": "recurrent", "cell": "rnn"},
    "CNN": {"family": "convolutional"},
}


def train_once(model: Model, tokens: torch.Tensor) -> None:
    """One pass forward and back."""
    logits = model(Inputs(tokens[:, :-1]))
    F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
    model.zero_grad()


def microseconds(rows: dict[int, int], rounds: int) -> dict[str, dict[int, dict[str, Any]]]:
    """Of each token, by family and length; `rows` says how many texts of a length are read at once."""
    models = {name: build(read_model_config(SIZES | own)) for name, own in MODELS.items()}
    texts = {n: torch.randint(SIZES["vocabulary"], (b, n + 1)) for n, b in rows.items()}
    times: dict[tuple[str, int], list[float]] = {(name, n): [] for name in MODELS for n in rows}
    for number in range(rounds + 1):
        for name, n in times:
            start = time.process_time()
            train_once(models[name], texts[n])
            if number:  # the first one warms up
                times[name, n].append(1e6 * (time.process_time() - start) / (n * rows[n]))
    return {
        name: {
            n: {"median": statistics.median(times[name, n]), "interval_95": median_interval(times[name, n])}
            for n in rows
        }
        for name in MODELS
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    cases = {"one text": dict.fromkeys(LENGTHS, 1), "4096 tokens": {n: TOKENS // n for n in LENGTHS}}
    found = {}
    for case, rows in cases.items():
        found[case] = microseconds(rows, options.rounds)
        print(f"{case:14s}" + "".join(f"{name:>13s}" for name in MODELS) + "  µs per token")
        for n in LENGTHS:
            print(
                f"{n:14,d}" + "".join(f"{found[case][name][n]['median']:13.1f}" for name in MODELS),
                flush=True,
            )
    if options.save:
        alone = found["one text"]
        values = [one["median"] for lengths in alone.values() for one in lengths.values()]
        ticks = [
            tick
            for tick in (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
            if min(values) / 2.5 < tick < max(values) * 2.5
        ]
        draw(
            "training-by-length",
            {name: [(n, one["median"]) for n, one in lengths.items()] for name, lengths in alone.items()},
            Axis("tokens of the text", LENGTHS, is_logarithmic=True),
            Axis("µs per token of training", ticks, is_logarithmic=True),
        )
    report(
        "training_by_length",
        {"rounds": options.rounds, "sizes": SIZES, "seed": 1, "cases": found},
        options.save,
    )


if __name__ == "__main__":
    main()
