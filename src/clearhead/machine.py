"""What the libraries below PyTorch must hear of this machine before they compute: variables of the environment.

They read them once, when they are first used. What the user has set stays as it is.
"""

import os
from pathlib import Path

TILES = 0x1D  # the leaf of CPUID that says how the tiles of AMX may be cut


def settle() -> None:
    """Sets what is not set."""
    if hides_tiles():
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


def hides_tiles(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether a virtual machine announces AMX, but not its tiles: oneDNN's bfloat16 products then end the process."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            first = lines.read(8192).split("\n\n")[0]  # one processor is as all
    except OSError:
        return False
    facts = dict(line.split(":", 1) for line in first.splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    return "amx_tile" in facts.get("flags", "").split() and int(facts.get("cpuid level", TILES)) < TILES
