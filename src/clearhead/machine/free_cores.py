"""Which cores are free: the load of the machine enters, looked at now and then; how many threads should work leaves."""

import math
from dataclasses import dataclass, field
from time import perf_counter

from clearhead.machine.load import LoadMeter, usable_cores

PERIOD = 0.25  # seconds between two looks at the load
STALE = 1.0  # seconds without work after which what was measured says little about now
RETRY = 8  # periods with fewer threads after which all are tried: a program of low priority gives way only to them


@dataclass
class FreeCores:
    """Looks at the load now and then, and knows how many cores it leaves to us."""

    meter: LoadMeter = field(default_factory=LoadMeter)
    count: float = math.inf
    waited: int = 0  # periods with fewer threads

    def threads(self, most: int) -> int:
        """How many of `most` threads should work now."""
        seconds = perf_counter() - self.meter.started
        if seconds >= STALE:
            self.meter, self.count = LoadMeter(), math.inf
        elif seconds >= PERIOD:
            self.look(most)
        return max(1, min(most, math.floor(min(self.count, most) + 0.5)))

    def look(self, most: int) -> None:
        """Measures again; with fewer threads than cores, other programs fill the rest, whatever their priority."""
        others, self.meter = self.meter.others(), LoadMeter()
        self.waited = 0 if self.count >= most else self.waited + 1
        if others is None or self.waited >= RETRY:
            self.count = math.inf
        else:
            self.count = len(usable_cores()) - others
