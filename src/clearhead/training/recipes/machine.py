"""What computes, and how much of it fits into the minutes: a device enters; the tokens that a model can read leave.

Processors differ by a factor of three in float32, and by more where bfloat16 is fast, and wide models use them better
than narrow ones. So the speed is measured, for each width that is considered, in a tenth of a second or so.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.nn import functional as F

from clearhead.config.model import ModelConfig
from clearhead.config.training import Precision
from clearhead.machine.load import usable_cores
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.training.distributed.ranks import ranks
from clearhead.training.loop.threads import one_core_each, spread
from clearhead.training.run.trial_steps import FASTER, fastest, product_gain

CORE_SPEED = 40e9  # operations per second of a core in training, where it cannot be measured
GPU_SPEED = 20e12
# That are measured; wider models are little faster, and take seconds.
WIDTHS = (64, 96, 128, 192, 256, 384, 512)
HEAD_WIDTH, BLOCKS, VOCABULARY, TOKENS = 32, 2, 1024, 256  # of the model that is measured, and of a text
TEXTS, ROUNDS = 2, 2  # for each thread; rounds after one to warm up


@dataclass(frozen=True)
class Machine:
    """What computes, for how long, and in which number format."""

    name: str
    minutes: float
    threads: int  # of the processor; none if a GPU computes
    precision: Precision = "auto"

    @classmethod
    def here(
        cls, minutes: float, device: str | None, threads: int | None, precision: Precision | None = None
    ) -> "Machine":
        """This machine."""
        precision = precision or "auto"
        if device in (None, "auto", "cuda") and torch.cuda.is_available():
            return cls("a GPU", minutes, 0, precision)
        cores = threads or torch.get_num_threads()
        return cls(f"{cores} cores" if cores > 1 else "1 core", minutes, cores, precision)

    @property
    def is_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self.threads == 0

    def tokens(self, d: int, weights: float) -> float:
        """How many tokens can pass so many weights, in a model of width d: six operations for each weight."""
        return 60 * self.minutes * self.speed(d) / (6 * weights)

    def speed(self, d: int) -> float:
        """Operations per second in training."""
        if self.is_gpu:
            return GPU_SPEED
        if ranks() > 1:  # which must agree without asking one another
            return CORE_SPEED * self.threads
        threads = min(self.threads, len(usable_cores()))  # more threads than cores compute no more
        return measured_speed(
            max([width for width in WIDTHS if width <= d] or WIDTHS[:1]), threads, self.precision
        )


@lru_cache
def measured_speed(d: int, threads: int, precision: Precision) -> float:
    """Operations per second of the gradient of a small decoder, in the number format that the plan would choose."""
    config = ModelConfig(
        shape="decoder", vocabulary=VOCABULARY, context=TOKENS, d=d, h=d // HEAD_WIDTH, decoder_blocks=BLOCKS
    )
    with torch.random.fork_rng():
        model = build(config, seed=1)
    weights = [weight for weight in model.parameters() if weight.dim() > 1]
    ids = torch.arange(TEXTS * (TOKENS + 1)).view(TEXTS, -1) % VOCABULARY

    def compute(is_rounded: bool) -> float:
        def gradient(_: int) -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=is_rounded):
                Z = model(Inputs(ids[:, :-1]))
            loss = F.cross_entropy(Z.flatten(0, 1).float(), ids[:, 1:].flatten())
            torch.autograd.grad(loss, weights)

        return fastest(lambda: spread(gradient, range(threads)), ROUNDS)

    count = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with one_core_each():
            seconds = compute(precision == "bfloat16")
            if precision == "auto" and product_gain(d) >= FASTER:
                rounded = compute(is_rounded=True)
                seconds = rounded if FASTER * rounded <= seconds else seconds
    finally:
        torch.set_num_threads(count)
    passed = sum(weight.numel() for weight in weights)
    return 6 * passed * threads * TEXTS * TOKENS / seconds
