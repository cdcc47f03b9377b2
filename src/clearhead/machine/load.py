"""How busy the machine is with other programs: two moments enter; cores that others used between them leave."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

STAT = Path("/proc/stat")
RUNNING = Path("/proc/loadavg")
WORK = (1, 3, 6, 7, 8)  # columns: user, system, interrupts twice, stolen by another virtual machine
NICE = 2  # the column of programs of low priority
SHORTEST = 0.2  # seconds; the system counts in hundredths
ENOUGH = 0.75  # of the cores that training can use must be free


def usable_cores() -> set[int]:
    """The cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def busy_seconds() -> tuple[float, float] | None:
    """Seconds of work on those cores since the machine was started: of all programs, and of those of low priority.

    None if that is not known.
    """
    names = {f"cpu{core}" for core in usable_cores()}
    try:
        rows = [line.split() for line in STAT.read_text().splitlines() if line.startswith("cpu")]
        rows = [row for row in rows if row[0] in names]
        nice = sum(int(row[NICE]) for row in rows)
        ticks = nice + sum(int(row[column]) for row in rows for column in WORK)
        return ticks / os.sysconf("SC_CLK_TCK"), nice / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def are_others_running() -> bool:
    """Whether another thread than this one has work at this moment; also if that is not known."""
    try:
        return int(RUNNING.read_text().split()[3].split("/")[0]) > 1
    except (OSError, ValueError, IndexError):
        return True


@dataclass(frozen=True)
class LoadMeter:
    """Measures from the moment that it is made."""

    started: float = field(default_factory=perf_counter)
    own: float = field(default_factory=process_time)
    busy: tuple[float, float] | None = field(default_factory=busy_seconds)

    def others(self, nice: bool = True) -> float | None:
        """The cores that other programs have used since, on average; None if that is not known.

        Without `nice`, only programs that give no way to this one are counted.
        """
        seconds, busy = perf_counter() - self.started, busy_seconds()
        if self.busy is None or busy is None or seconds < SHORTEST:
            return None
        every, low = (now - then for now, then in zip(busy, self.busy, strict=True))
        given_way = 0.0 if nice or os.nice(0) > 0 else low  # if we are of low priority, nobody gives way
        return max(0.0, (every - given_way - (process_time() - self.own)) / seconds)


def is_busy(others: float | None, threads: int) -> bool:
    """Whether too few cores are free for so many threads."""
    cores = len(usable_cores())
    return others is not None and cores - others < ENOUGH * min(threads, cores)
