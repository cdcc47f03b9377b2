"""How much of the gradient arrives at a word far back (N42)?

What a model can learn about a distant word is the gradient of its last prediction with respect to that word's vector.
New models of one width, before any training, read 8 rows of random vectors; the norm of the gradient at each distance
is taken relative to that at the word before the last. Draws docs/images/gradient-by-distance.svg.
"""

import statistics
from typing import Any

import torch
from drawing import Axis, draw
from harness import arguments, report

from clearhead.config.families import read_model_config
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

DISTANCES = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES: dict[str, Any] = {"vocabulary": 50, "d": 64, "decoder_blocks": 2, "context": 256}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"h": 4},
    "LSTM": {"family": "recurrent"},
    "RNN": {"family": "recurrent", "cell": "rnn"},
    "CNN": {"family": "convolutional", "decoder_blocks": 5},
}
LEAST = 1e-20  # below it nothing is drawn


def gradients(model: Model, seed: int) -> list[float]:
    """The norm of the gradient at each distance, relative to that of the first."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(8, DISTANCES[-1] + 1, model.config.d, generator=generator).requires_grad_()
    model(Inputs(X))[:, -1].logsumexp(-1).sum().backward()
    assert X.grad is not None
    norms = X.grad.norm(dim=-1).mean(0)
    return [float(norms[-1 - distance] / norms[-1 - DISTANCES[0]]) for distance in DISTANCES]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    print(f"{'':14s}" + "".join(f"{distance:10d}" for distance in DISTANCES))
    for name, own in MODELS.items():
        config = read_model_config(SIZES | own)
        rows = [gradients(build(config, seed), seed) for seed in range(1, options.seeds + 1)]
        columns = list(zip(*rows, strict=True))
        found[name] = {
            "median": dict(zip(DISTANCES, map(statistics.median, columns), strict=True)),
            "smallest": dict(zip(DISTANCES, map(min, columns), strict=True)),
            "largest": dict(zip(DISTANCES, map(max, columns), strict=True)),
        }
        print(f"{name:14s}" + "".join(f"{value:10.1e}" for value in found[name]["median"].values()))
    if options.save:
        curves = {
            name: [(float(distance), value) for distance, value in one["median"].items() if value > LEAST]
            for name, one in found.items()
        }
        draw(
            "gradient-by-distance",
            curves,
            Axis("words back", DISTANCES, is_logarithmic=True),
            Axis(
                "norm of the gradient",
                [10.0**k for k in range(-20, 1, 5)],
                True,
                lambda value: f"{value:.0e}",
            ),
        )
    report("gradient_by_distance", {"seeds": options.seeds, "sizes": SIZES, "models": found}, options.save)


if __name__ == "__main__":
    main()
