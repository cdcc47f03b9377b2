"""What do the sites cost when nobody listens? The same pass with and without them, side by side.

Without sites, `site` is replaced by a function that returns its tensor and `is_watched` by one that says no,
in every module that imported them. The bar is 1.02 for a decode step (1 token, the worst case: nothing hides
the cost) and for a pass of 256 tokens.
"""

from collections.abc import Callable

import torch
from harness import arguments, is_within, paired, ratio, report

from clearhead.config.model import ModelConfig
from clearhead.layers import attention, blocks, feedforward
from clearhead.models.initialise import initialise
from clearhead.models.inputs import Inputs
from clearhead.models.transformer import decoder, stack
from clearhead.models.transformer.decoder import Decoder

BAR = 1.02
MODULES = (attention, blocks, feedforward, stack, decoder)


def without_sites(function: Callable[[], object]) -> Callable[[], object]:
    """The same function, run while no site does anything."""

    def run() -> None:
        kept = [
            (module, name, getattr(module, name))
            for module in MODULES
            for name in ("site", "is_watched")
            if hasattr(module, name)
        ]
        for module, name, _ in kept:
            setattr(
                module, name, (lambda owner, key, X: X) if name == "site" else (lambda owner, *keys: False)
            )
        try:
            function()
        finally:
            for module, name, original in kept:
                setattr(module, name, original)

    return run


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    options = parser.parse_args()
    torch.manual_seed(1)
    config = ModelConfig(vocabulary=512, d=384, h=6, decoder_blocks=6)
    model = Decoder(config).eval()
    initialise(model, config, seed=1)
    ids = torch.randint(0, 512, (1, 256))

    @torch.no_grad()
    def whole_pass() -> None:
        for _ in range(3):
            model(Inputs(ids))

    @torch.no_grad()
    def decode_steps() -> None:
        state = model.start(1, 64)
        for i in range(64):
            model.step(ids[:, i : i + 1], state)

    results = {}
    for name, function in (("pass of 256 tokens", whole_pass), ("64 decode steps", decode_steps)):
        results[name] = ratio(*paired(function, without_sites(function), options.pairs))
        low, high = results[name]["interval_95"]
        median = results[name]["median_ratio"]
        print(f"{name:20s} with / without sites: {median:.3f}  (95 %: {low:.3f} to {high:.3f})")
    keeps = all(is_within(result, BAR) for result in results.values())
    print(f"bar {BAR}: {'kept' if keeps else 'FAILED'}")
    report("capture_cost", {"results": results, "bar": BAR, "kept": keeps, "seed": 1}, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
