"""Which cores are free: the load of the machine enters, looked at now and then; how many threads should work leaves."""

import math
from dataclasses import dataclass, field
from time import perf_counter

from clearhead.machine.load import LoadMeter, are_others_running, usable_cores

PERIOD = 0.25  # seconds between two looks at the load
STALE = 1.0  # seconds since the last look after which we have paused: what was measured then says little about now
PATIENCE = 16  # most periods between two tries of all threads beside programs of low priority


@dataclass
class FreeCores:
    """Looks at the load now and then, and knows how many cores it leaves to us."""

    meter: LoadMeter = field(default_factory=LoadMeter)
    count: float = math.inf
    waited: int = 0  # periods with fewer threads
    patience: int = 1  # periods to wait before all threads are tried; doubled after each try in vain

    def threads(self, most: int) -> int:
        """How many of `most` threads should work now."""
        seconds = perf_counter() - self.meter.started
        # Whoever has no work now takes no core, such as a browser that has drawn what we computed before.
        if seconds >= PERIOD and not are_others_running():
            self.meter, self.count, self.waited, self.patience = LoadMeter(), math.inf, 0, 1
        elif seconds >= STALE:
            self.resume()
        elif seconds >= PERIOD:
            self.look(most)
        return self.fitting(most)

    def fitting(self, most: int) -> int:
        """How many of `most` threads fit on the free cores."""
        return max(1, min(most, math.floor(min(self.count, most) + 0.5)))

    def resume(self) -> None:
        """Measures after a pause: the first piece of work, such as a click's, has the right number of threads."""
        others, self.meter = self.meter.others(nice=False), LoadMeter()
        self.waited, self.patience = 0, 1
        self.count = math.inf if others is None else len(usable_cores()) - others

    def look(self, most: int) -> None:
        """Measures again.

        With fewer threads than cores, other programs fill the rest, whatever their priority; those of low priority give
        way if all threads work, so that is tried now and then.
        """
        meter, self.meter = self.meter, LoadMeter()
        others, urgent = meter.others(), meter.others(nice=False)
        if others is None or urgent is None:
            self.count = math.inf
            return
        if self.fitting(most) == most:  # all threads have worked
            self.patience = 1 if others < 0.5 else min(PATIENCE, 2 * self.patience)
            self.waited = 0
        else:
            self.waited += 1
        is_try = self.waited >= self.patience
        self.count = len(usable_cores()) - (urgent if is_try else others)
