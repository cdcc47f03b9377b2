"""How much faster is a pruned model, and how much smaller its cache? Decode steps of 124M weights with fewer heads.

Random weights of GPT-2's shape; the same share of heads is removed from every block; one text, 512 tokens read and 6
written by the steps that generation uses. Ratios are to the whole model, measured in turn.
"""

import torch
from harness import arguments, in_turn, ratio, report

from clearhead.config.model import ModelConfig
from clearhead.decoding.steppers.direct import stepper_of
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.models.transformer.pruned import pruned

READ, WRITTEN, HEADS = 512, 6, 12
KEPT = (12, 8, 4, 0)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    config = ModelConfig(
        vocabulary=50257, d=768, h=HEADS, decoder_blocks=12, context=1024, positions="learned", norm="layer",
        attention_bias="qkvo", feedforward="gelu_tanh", feedforward_bias=True,
    )  # fmt: skip
    whole = build(config)
    ids = torch.randint(50257, (1, READ + WRITTEN), generator=torch.Generator().manual_seed(1))
    models: dict[str, Model] = {
        str(kept): pruned(whole, {name: range(kept) for name in config.attentions()}) for kept in KEPT
    }
    states, bytes_ = {}, {}
    for name, model in models.items():
        stepper = stepper_of(model)
        state = stepper.start(1, READ + WRITTEN)
        stepper.step(ids[:, :READ], state)
        states[name] = stepper, state
        bytes_[name] = state.used_bytes

    def write(name: str) -> None:
        stepper, state = states[name]
        for i in range(WRITTEN):
            stepper.step(ids[:, READ + i : READ + i + 1], state)
        state.truncate(torch.tensor([READ]))

    seconds = in_turn({name: lambda name=name: write(name) for name in models}, options.rounds)  # type: ignore[misc]
    results = {}
    for name, model in models.items():
        found = ratio(seconds[name], seconds[str(HEADS)])
        weights = sum(weight.numel() for weight in model.parameters())
        share = bytes_[name] / bytes_[str(HEADS)]
        results[name] = found | {"cache_bytes": bytes_[name], "cache_ratio": share, "weights": weights}
        print(f"{name:>2} of {HEADS} heads: time per token × {found['median_ratio']:.2f}, cache × {share:.2f}, "
              f"{weights / 1e6:.0f}M weights")  # fmt: skip
    report("pruned_speed", {"results": results, "read": READ, "written": WRITTEN, "seed": 1}, options.save)


if __name__ == "__main__":
    main()
