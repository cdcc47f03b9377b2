"""The environment of the libraries below PyTorch."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.machine.environment import is_amx_incomplete, quota_cores

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


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),  # of the group above
        ("0::/gone\n", {"cpu.max": "100000 100000"}, 1.0),  # a container sees its own group as the root
        (
            "4:cpu,cpuacct:/c\n0::/\n",
            {"cpu/c/cpu.cfs_quota_us": "50000", "cpu/c/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("0::/\n", {"cpu.max": "nonsense"}, None),
        ("4:memory:/\n", {"cpu.max": "100000 100000"}, None),
    ],
)
def test_the_quota_of_a_container_is_read(
    own: str, files: dict[str, str], cores: float | None, tmp_path: Path
) -> None:
    write(tmp_path / "own", own)
    for name, text in files.items():
        write(tmp_path / "groups" / name, text)
    assert quota_cores(tmp_path / "groups", tmp_path / "own") == cores


def test_a_machine_without_groups_has_no_quota(tmp_path: Path) -> None:
    assert quota_cores(tmp_path, tmp_path / "missing") is None


PASSES = """
import resource, torch, clearhead
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(30):
    before = faults()
    tensors = [torch.ones(100_000) for _ in range(50)]  # 20 MB
    del tensors
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_a_pass_uses_the_memory_of_the_one_before_unless_the_user_decides() -> None:
    def faults(**variables: str) -> int:
        stated = {
            name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))
        }
        command = [sys.executable, "-c", PASSES]
        return int(subprocess.check_output(command, env=stated | {"THP_MEM_ALLOC_ENABLE": "0"} | variables))

    assert faults() < 100
    assert faults(MALLOC_TRIM_THRESHOLD_="0") > 4000
