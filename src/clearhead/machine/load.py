"""How busy the machine is with other programs: two moments enter; cores that others used between them leave."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

STAT = Path("/proc/stat")
WORK = (1, 2, 3, 6, 7, 8)  # columns: user, nice, system, interrupts twice, stolen by another virtual machine
SHORTEST = 0.2  # seconds; the system counts in hundredths
ENOUGH = 0.75  # of the cores that training can use must be free


def usable_cores() -> set[int]:
    """The cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def busy_seconds() -> float | None:
    """Seconds of work of all programs on those cores since the machine was started; None where it is not known."""
    names = {f"cpu{core}" for core in usable_cores()}
    try:
        rows = [line.split() for line in STAT.read_text().splitlines() if line.startswith("cpu")]
        ticks = sum(int(row[column]) for row in rows if row[0] in names for column in WORK)
        return ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


@dataclass(frozen=True)
class LoadMeter:
    """Measures from the moment that it is made."""

    started: float = field(default_factory=perf_counter)
    own: float = field(default_factory=process_time)
    busy: float | None = field(default_factory=busy_seconds)

    def others(self) -> float | None:
        """The cores that other programs have used since, on average; None where it is not known."""
        seconds, busy = perf_counter() - self.started, busy_seconds()
        if self.busy is None or busy is None or seconds < SHORTEST:
            return None
        return max(0.0, (busy - self.busy - (process_time() - self.own)) / seconds)


def is_busy(others: float | None, threads: int) -> bool:
    """Whether too few cores are free for so many threads."""
    cores = len(usable_cores())
    return others is not None and cores - others < ENOUGH * min(threads, cores)
