"""The environment of the libraries below PyTorch."""

import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.machine import is_amx_incomplete

BROKEN = (
    "processor\t: 0\ncpuid level\t: 28\nflags\t\t: fpu avx512f amx_bf16 amx_tile amx_int8\n\nprocessor\t: 1\n"
)


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [
        (BROKEN, True),
        (BROKEN.replace(": 28", ": 29"), False),
        (BROKEN.replace(" amx_tile", ""), False),
        ("processor : 0\nBogoMIPS : 50.00\nFeatures : fp asimd\n", False),
        ("", False),
    ],
)
def test_a_processor_that_hides_its_tiles_is_known(tmp_path: Path, text: str, is_broken: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert is_amx_incomplete(tmp_path / "cpuinfo") is is_broken


def test_a_machine_without_the_file_hides_nothing(tmp_path: Path) -> None:
    assert not is_amx_incomplete(tmp_path / "cpuinfo")


def test_a_product_of_bfloat16_ends_no_process() -> None:
    code = "import clearhead, torch; X = torch.ones(5, 64).bfloat16(); print(torch.nn.functional.linear(X, X)[0, 0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "tensor(64., dtype=torch.bfloat16)")
