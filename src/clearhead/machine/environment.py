"""Settings of the libraries below PyTorch that this machine needs.

Environment variables are read once, when a library is first used. What the user has set is kept.
"""

import ctypes
import math
import os
from pathlib import Path

TILES = 0x1D  # the CPUID leaf that describes the tiles of AMX
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt
KEPT_BYTES, LARGE_BYTES = 1 << 28, 1 << 25  # of free memory that is not given back; of a block that always is


def set_environment() -> None:
    """Sets the variables that the user has not set."""
    if is_amx_incomplete():
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    if (quota := quota_cores()) is not None and quota < core_count():
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, math.floor(quota))))
    os.environ.setdefault(
        "THP_MEM_ALLOC_ENABLE", "1"
    )  # PyTorch: huge pages, so that a new tensor costs few faults


def keep_free_memory() -> None:
    """Lets the C library keep some free memory, unless the user has set what it does.

    By default it gives the memory of a pass back to the system at once, and the next pass waits while the system fills
    the same pages with zeros: up to a third of the time of a pass.
    """
    is_stated = "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")
    if is_stated or any(f"MALLOC_{name}_THRESHOLD_" in os.environ for name in ("TRIM", "MMAP")):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def core_count() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota_cores(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """How many cores' worth of time a container's quota allows, if there is one: version 2 of cgroups, or 1.

    With more threads than that, all of them pause whenever the quota of a period is used up.
    """
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / "cpu" if controllers else groups
        folder = root / place.lstrip("/")
        # Inside a container its own group is often shown as the root. A group above may have the smaller quota.
        for group in (folder, *folder.parents) if folder.exists() else (root,):
            quotas.append(read_quota(group))
            if group == root:
                break
    return min((quota for quota in quotas if quota is not None), default=None)


def read_quota(group: Path) -> float | None:
    """The quota of one group, in cores."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota, period = (
                (group / f"cpu.cfs_{name}_us").read_text(encoding="utf-8") for name in ("quota", "period")
            )
        return None if quota.strip() == "max" or int(quota) <= 0 else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def is_amx_incomplete(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether a virtual machine announces AMX, but not its tiles: oneDNN's bfloat16 products then crash."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            first = lines.read(8192).split("\n\n")[0]  # all processors are alike
    except OSError:
        return False
    fields = dict(line.split(":", 1) for line in first.splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    return "amx_tile" in fields.get("flags", "").split() and int(fields.get("cpuid level", TILES)) < TILES
