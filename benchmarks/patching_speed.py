"""What does activation patching cost? All patches of a text beside as many plain passes in batches of the same size.

Random weights of GPT-2's shape, 124M; 20 tokens × 3 sites a block (what both sublayers add, and the stream after) are
720 patches. Batch by batch, patched and plain in turn; both compute the logits of one position. The bar is 1.3.
"""

import time

import torch
from harness import arguments, is_within, ratio, report

from clearhead.config.model import ModelConfig
from clearhead.inspection.attribution.ablation import values_in
from clearhead.inspection.attribution.goals import Logit, answers, repeated
from clearhead.inspection.attribution.passes import chunks, edited_outcomes
from clearhead.inspection.capture import replace
from clearhead.models.build import build
from clearhead.models.inputs import Inputs

BAR, TOKENS = 1.3, 20


@torch.no_grad()
def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--most", type=int, default=8, help="batches of each kind, at most")
    options = parser.parse_args()
    config = ModelConfig(
        vocabulary=50257, d=768, h=12, decoder_blocks=12, context=1024, positions="learned", norm="layer",
        attention_bias="qkvo", feedforward="gelu_tanh", feedforward_bias=True,
    )  # fmt: skip
    model, goal = build(config), Logit(11, against=5)
    generator = torch.Generator().manual_seed(1)
    clean, corrupted = (Inputs(torch.randint(50257, (1, TOKENS), generator=generator)) for _ in range(2))
    places = [f"decoder.{i}.{part}" for i in range(12) for part in ("self", "ffn", "residual.1")]
    start = time.perf_counter()
    values = values_in(model, clean, places)
    once = time.perf_counter() - start
    edits = [
        replace(place, values[place][:, token : token + 1], token=token)
        for place in places
        for token in range(TOKENS)
    ]
    seconds: tuple[list[float], list[float]] = ([], [])
    batches = [chunk for _, chunk in chunks(edits, corrupted)][: options.most]
    for number, chunk in enumerate([batches[0][:4], *batches]):  # the first one warms up
        for which in (0, 1) if number % 2 else (1, 0):
            start = time.perf_counter()
            if which == 0:
                edited_outcomes(model, corrupted, chunk, goal)
            else:
                answers(model, repeated(corrupted, len(chunk)), goal)
            if number:
                seconds[which].append(time.perf_counter() - start)
    result = ratio(*seconds)
    low, high = result["interval_95"]
    keeps = is_within(result, BAR)
    print(f"{sum(map(len, batches))} patches in {len(batches)} batches, the clean pass once: {once:.2f} s")
    print(f"patched / plain: {result['median_ratio']:.3f}  (95 %: {low:.3f} to {high:.3f})")
    print(f"bar {BAR}: {'kept' if keeps else 'FAILED'}")
    facts = {
        "results": result,
        "patches": sum(map(len, batches)),
        "clean_pass_seconds": once,
        "bar": BAR,
        "kept": keeps,
    }
    report("patching_speed", facts | {"seed": 1}, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
