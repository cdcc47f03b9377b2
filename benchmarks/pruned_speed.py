"""How much faster is a pruned model, and how much smaller its cache? Decode steps of 124M weights with fewer heads.

Random weights of GPT-2's shape; the same share of heads is removed from every block; one text, 512 tokens read, and
tokens written by the compiled step of generation on one thread. Ratios are to the whole model, a token of each in turn:
of the time on the clock, and of processor time, which other programs on the machine disturb less.
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from harness import arguments, in_turn, ratio, report

from clearhead.config.model import ModelConfig
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.models.transformer.pruned import pruned

READ, HEADS = 512, 12
KEPT = (12, 8, 4, 0)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = ModelConfig(
        vocabulary=50257, d=768, h=HEADS, decoder_blocks=12, context=1024, positions="learned", norm="layer",
        attention_bias="qkvo", feedforward="gelu_tanh", feedforward_bias=True,
    )  # fmt: skip
    whole = build(config)
    ids = torch.randint(50257, (1, READ + 1), generator=torch.Generator().manual_seed(1))
    models: dict[str, Model] = {
        str(kept): pruned(whole, {name: range(kept) for name in config.attentions()}) for kept in KEPT
    }
    states, bytes_ = {}, {}
    for name, model in models.items():
        stepper = stepper_of(model)
        assert isinstance(stepper, SwitchingStepper)
        stepper.prepare()
        state = stepper.start(1, READ + 1)
        stepper.step(ids[:, :READ], state)
        states[name] = stepper, state
        bytes_[name] = state.used_bytes

    def write(name: str) -> None:
        stepper, state = states[name]
        stepper.step(ids[:, READ:], state)
        state.truncate(torch.tensor([READ]))

    engines: dict[str, Callable[[], object]] = {name: partial(write, name) for name in models}
    seconds = in_turn(engines, options.rounds)
    processor = in_turn(engines, options.rounds, time.process_time)
    results = {}
    for name, model in models.items():
        found = ratio(seconds[name], seconds[str(HEADS)])
        weights = sum(weight.numel() for weight in model.parameters())
        share = bytes_[name] / bytes_[str(HEADS)]
        used = ratio(processor[name], processor[str(HEADS)])
        sizes = {"cache_bytes": bytes_[name], "cache_ratio": share, "weights": weights}
        results[name] = found | sizes | {"processor": used, "compiled": states[name][0].compiled is not None}
        low, high = used["interval_95"]
        print(f"{name:>2} of {HEADS} heads: time per token × {found['median_ratio']:.2f}, processor time × "
              f"{used['median_ratio']:.2f} ({low:.2f} to {high:.2f}), cache × {share:.2f}, "
              f"{weights / 1e6:.0f}M weights")  # fmt: skip
    report("pruned_speed", {"results": results, "read": READ, "seed": 1}, options.save)


if __name__ == "__main__":
    main()
