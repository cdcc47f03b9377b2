"""Learning rates over time: a step enters, the share of the largest rate leaves.

All schedules rise in a straight line over the warm-up: at first the gradients of a random model are large and
AdamW's averages are not yet filled, and a full step would throw the weights far away (N37).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Curve = Callable[["Schedule", int], float]


@dataclass(frozen=True)
class Schedule:
    """The rate of every step from 0 to steps − 1, as a share of the largest."""

    kind: str
    steps: int
    warmup: int
    decay: int  # steps of the way down of a stable schedule
    final: float

    def __call__(self, step: int) -> float:
        """The share at a step."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return CURVES[self.kind](self, step)

    def progress(self, step: int) -> float:
        """From 0 after the warm-up to 1 at the last step."""
        return min(1.0, (step - self.warmup) / max(1, self.steps - 1 - self.warmup))


def cosine(schedule: Schedule, step: int) -> float:
    """Half a wave from 1 to the final share (Loshchilov and Hutter, 2017)."""
    return schedule.final + (1 - schedule.final) * (1 + math.cos(math.pi * schedule.progress(step))) / 2


def linear(schedule: Schedule, step: int) -> float:
    """A straight line from 1 to the final share."""
    return 1 - (1 - schedule.final) * schedule.progress(step)


def inverse_sqrt(schedule: Schedule, step: int) -> float:
    """√(warmup / step) (Vaswani et al., 2017), but never less than the final share."""
    return max(schedule.final, math.sqrt(max(1, schedule.warmup) / (step + 1)))


def stable(schedule: Schedule, step: int) -> float:
    """1 for most of the run, then a straight line down to the final share."""
    left = max(0, schedule.steps - 1 - step)
    return min(1.0, schedule.final + (1 - schedule.final) * left / max(1, schedule.decay))


def constant(schedule: Schedule, step: int) -> float:
    """1 to the end."""
    return 1.0


CURVES: dict[str, Curve] = {
    "cosine": cosine,
    "linear": linear,
    "inverse_sqrt": inverse_sqrt,
    "stable": stable,
    "constant": constant,
}


def make_schedule(kind: str, steps: int, warmup: float, decay: float, final: float) -> Schedule:
    """A schedule from the settings; a warm-up below 1 is a share of all steps."""
    rising = min(round(warmup * steps) if warmup < 1 else int(warmup), steps)
    # The way down does not start before the warm-up ends, so that the largest rate is reached.
    falling = max(1, min(round(decay * steps), steps - 1 - rising))
    return Schedule(kind, steps, rising, falling, final)
