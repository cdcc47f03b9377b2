"""A run that is killed with SIGKILL ends with the bits of one that was not; `make torture` does it fifty times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "torture.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_run_that_is_killed_four_times_ends_as_if_nobody_had() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "4", "--steps", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["identical"], result["kills"]) == (True, 4)
    assert result["in_a_save"] >= 1
    assert result["epochs"] > 1
