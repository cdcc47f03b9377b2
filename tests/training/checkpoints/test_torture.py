"""A run that is killed with SIGKILL ends with the bits of one that was not; `make torture` does it fifty times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "torture.py"


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
@pytest.mark.slow
@pytest.mark.prove
def test_a_killed_run_ends_with_the_same_bits() -> None:
    kills = 12
    command = [sys.executable, str(SCRIPT), "--kills", str(kills), "--steps", "120"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["identical"], result["kills"]) == (True, kills)
    assert result["in_a_save"] >= 1
    assert result["epochs"] > 1
