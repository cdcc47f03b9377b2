"""Environment variables that the libraries below PyTorch need on this machine.

They are read once, when a library is first used. Those that the user has set are kept.
"""

import os
from pathlib import Path

TILES = 0x1D  # the CPUID leaf that describes the tiles of AMX


def set_environment() -> None:
    """Sets the variables that the user has not set."""
    if is_amx_incomplete():
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


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
