"""What does another program that takes a core cost a training, and what do threads save that spin for a shorter time?

OpenMP's threads spin while they wait for one another, and so hold the core that the one they wait for needs. With
GOMP_SPINCOUNT=1000 they sleep much sooner. Steps of a small model on all cores, each way alone and beside a program
that keeps one core busy, in turn.
"""

import os
import statistics
import subprocess
import sys
import time
from typing import Any

from harness import arguments, ratio, report

STEPS, WARM_UP = 20, 4
SPINS = {"shorter": {"GOMP_SPINCOUNT": "1000"}, "as usual": {}}
BUSY = "while True: pass"


def train() -> None:
    """Prints the seconds of some steps; this is what runs in a process of its own."""
    import torch

    from clearhead.config.model import ModelConfig
    from clearhead.models.build import build
    from clearhead.models.inputs import Inputs

    model = build(ModelConfig(vocabulary=512, d=128, h=4, decoder_blocks=3, context=64), seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, 512, (32, 64), generator=torch.Generator().manual_seed(1))
    for step in range(STEPS + WARM_UP):
        start = time.perf_counter()
        model(Inputs(tokens)).logsumexp(-1).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step >= WARM_UP:
            print(time.perf_counter() - start, flush=True)


def seconds_of(spins: str, is_beside: bool) -> float:
    """The median step of a process whose threads spin so, alone or beside a program that keeps a core busy."""
    other = subprocess.Popen([sys.executable, "-c", BUSY]) if is_beside else None
    try:
        environment = os.environ | SPINS[spins]
        command = [sys.executable, __file__, "--train"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    finally:
        if other is not None:
            other.kill()
    return statistics.median(map(float, done.stdout.split()))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", action="store_true", help="the steps themselves")
    options = parser.parse_args()
    if options.train:
        train()
        return
    results: dict[str, Any] = {}
    for name, is_beside in (("alone", False), ("beside", True)):
        seconds: dict[str, list[float]] = {spins: [] for spins in SPINS}
        for round in range(options.rounds):
            for spins in SPINS if round % 2 else reversed(SPINS):
                seconds[spins].append(seconds_of(spins, is_beside))
        result = results[name] = ratio(seconds["shorter"], seconds["as usual"])
        low, high = result["interval_95"]
        spread = f"(95 %: {low:.2f} to {high:.2f})"
        print(
            f"{name:7s} a step with shorter spins takes {result['median_ratio']:.2f} × {spread}", flush=True
        )
    report("busy_machine", {"results": results}, options.save)


if __name__ == "__main__":
    main()
