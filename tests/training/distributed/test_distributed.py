"""Several ranks learn what one learns, resume from each other's checkpoints, and outlive one that is killed."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import torch

from clearhead.config.run import RunConfig
from clearhead.training.checkpoints.files import list_checkpoints, shard_names
from clearhead.training.checkpoints.restore import check, read
from clearhead.training.checkpoints.sharded import StoredTensor
from clearhead.training.distributed.collectives import (
    all_gather,
    distribute_like,
    full_tensor,
    map_over_ranks,
    sum_over_ranks,
)
from clearhead.training.distributed.ranks import (
    TIMEOUT,
    broadcast_from_first,
    one_rank_first,
    process_group,
    rank,
    ranks,
)
from clearhead.training.loop.optimizers import orthogonal
from clearhead.training.reporting.history import read_log
from clearhead.training.run.run import make_run
from tests.training.distributed.ranked import SHAPES, STOP, learned
from tests.training.small import small_config
from tests.training.trainers import TASKS

ROOT = Path(__file__).resolve().parents[3]
PARALLELS = ("ddp", "fsdp")
CLEARHEAD = ("--no-python", str(Path(sys.executable).parent / "clearhead"))
STEPS = 50
# Sums over other parts round differently. AdamW divides by the size of a gradient, so that one of almost 0 could
# be ±1: ε keeps it small. What is left grows slowly over the steps; 3e-7 was seen.
TOLERANCE = 1e-5
STEADY = {"epsilon": 1e-4, "threads": 1, "log_every": 1}


def test_a_process_by_itself_gets_back_what_it_gives() -> None:
    X = torch.arange(6.0).reshape(2, 3)
    with process_group(), one_rank_first():
        assert (rank(), ranks()) == (0, 1)
        assert sum_over_ranks(torch.device("cpu"), 1.5, 2) == [1.5, 2]
        assert broadcast_from_first(lambda: "x") == "x"
    assert full_tensor(X) is X
    assert torch.equal(distribute_like(X, X), X)
    assert torch.equal(all_gather(X), X[None])
    assert torch.equal(
        torch.stack(list(map_over_ranks(lambda M: 2 * M, [X, X + 1]))), 2 * torch.stack([X, X + 1])
    )


def as_json(config: RunConfig) -> Any:
    return config.model_dump(mode="json", exclude_unset=True)


def started(command: list[str], ranks: int = 2, *options: str) -> subprocess.Popen[str]:
    """`torchrun`, with so many ranks, in the root of the repository."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*launch, *options, *command], cwd=ROOT, env=environment, **pipes)  # type: ignore[call-overload]


def torchrun(command: list[str], ranks: int = 2, *options: str) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    process = started(command, ranks, *options)
    out, err = process.communicate(timeout=1200)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def train(config: RunConfig, out: Path, resume: bool = False, until: int | None = None) -> None:
    """A run of one process, to its end or until a step."""
    run = make_run(config, out)
    for record in run.train(resume):
        if until is not None and record.step >= until:
            run.stop()


def log_of(out: Path) -> list[float]:
    log = read_log(out / "log.jsonl")
    return [record.loss for record in log.steps] + [record.validation_loss for record in log.evaluations]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two ranks found, in one start of them, and the folder where they did."""
    folder = tmp_path_factory.mktemp("ranks")
    cases: list[dict[str, Any]] = []
    for task in TASKS:
        for parallel in PARALLELS:
            config = small_config(task, folder / task, evaluate_every=25, parallel=parallel, **STEADY)
            cases.append({"name": f"{task} {parallel}", "config": as_json(config), "steps": STEPS})
    for name in VARIANTS:
        for parallel in PARALLELS:
            config = variant(name, folder, parallel=parallel)
            cases.append({"name": f"{name} {parallel}", "config": as_json(config), "steps": 10})
    for name in RUNS:
        train(one_run(name, folder), folder / f"{name} begun by one", until=STOP)
        cases += cases_of(name, folder)
    (folder / "cases.json").write_text(json.dumps(cases))
    done = torchrun(["-m", "tests.training.distributed.ranked", str(folder)])
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads((folder / "found.json").read_text()) | {"folder": folder}


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "translator": ("translate", {"average": "exponential"}),
    "fine-tuned": ("classify", {"average": "last", "average_last": 2}),
    "adapted": ("classify", {"lora_rank": 2, "optimizer": "adamw"}),
    "dropping": ("translate", {}),  # numbers by chance, which are others on each rank
}
SURE = [name for name in RUNS if name != "dropping"]


def one_run(name: str, folder: Path, **more: Any) -> RunConfig:
    """One of the runs; those that classify begin with a language model."""
    task, settings = RUNS[name]
    if task == "classify":
        settings = settings | {"init_from": str(given(folder)), "learning_rate": 0.01}
    config = small_config(task, folder / task, **{"steps": 8, **STEADY, **settings, **more})
    return config if name in SURE else config.replace(model=config.model.replace(dropout=0.2))


def given(folder: Path) -> Path:
    """The model folder of a language model, made at the first call."""
    if not (folder / "given").exists():
        train(small_config("language-model", folder / "language-model", **STEADY), folder / "given")
    return folder / "given" / "best"


def cases_of(name: str, folder: Path) -> list[dict[str, Any]]:
    """A run begun by one and by two, and gone on with by two, as it was and spread otherwise; and all by two."""
    cases: list[dict[str, Any]] = []
    for parallel, other in (PARALLELS, PARALLELS[::-1]):
        begun, mine = f"{name} begun by two {parallel}", as_json(one_run(name, folder, parallel=parallel))
        cases += [
            {"name": f"{name} by two {parallel}", "config": mine},
            {"name": begun, "config": mine, "stops": True},
            {"name": f"{name} again by two {parallel}", "config": mine, "begun": begun},
            {"name": f"{name} of one by two {parallel}", "config": mine, "begun": f"{name} begun by one"},
            {"name": f"{name} of {other} by two {parallel}", "config": mine, "begun": f"{name} begun by two {other}"},
        ]  # fmt: skip
    last = cases.pop(4)  # what the other kind has begun is there only now
    return [*cases, last]


VARIANTS: dict[str, dict[str, Any]] = {
    "in parts and again": {"accumulate": 3, "recompute": True, "average": "exponential"},
    "fewer rows than ranks": {"batch_tokens": 16, "average": "last", "average_last": 2, "optimizer": "adamw"},
}


def variant(name: str, folder: Path, **more: Any) -> RunConfig:
    settings = {"evaluate_every": 3, **STEADY, **VARIANTS[name], **more}
    return small_config("translate", folder / "translate", **settings)


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("losses", "validation"):
        assert found[name] == pytest.approx(expected[name], rel=TOLERANCE)
    for name, weight in expected["weights"].items():
        assert found["weights"][name] == pytest.approx(weight, abs=10 * TOLERANCE)


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("parallel", PARALLELS)
@pytest.mark.parametrize("task", TASKS)
def test_two_ranks_learn_what_one_learns(task: str, parallel: str, found: dict[str, Any]) -> None:
    config = small_config(task, found["folder"] / task, evaluate_every=25, **STEADY)
    expected = learned(config, STEPS)
    assert len(expected["losses"]) == STEPS
    assert expected["losses"][-1] < expected["losses"][0]
    same(found[f"{task} {parallel}"], expected)


@pytest.mark.prove
@pytest.mark.parametrize("parallel", PARALLELS)
@pytest.mark.parametrize("name", VARIANTS)
def test_parts_recomputation_averages_and_idle_ranks_change_nothing(
    name: str, parallel: str, found: dict[str, Any]
) -> None:
    same(found[f"{name} {parallel}"], learned(variant(name, found["folder"]), 10))


@pytest.mark.prove
def test_muon_orthogonalises_whole_matrices_whatever_the_shards(found: dict[str, Any]) -> None:
    assert len(found["muon"]) == len(SHAPES)
    assert max(found["muon"]) < 1e-5
    G = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(1))
    halves = torch.cat([orthogonal(G[:, :4]), orthogonal(G[:, 4:])], 1)
    assert float((halves - orthogonal(G)).abs().max()) > 0.1  # what the shards by themselves would give


@pytest.fixture(scope="module")
def straight(found: dict[str, Any]) -> dict[str, list[float]]:
    """The losses of each run by one process that nobody stopped."""
    for name in SURE:
        train(one_run(name, found["folder"]), found["folder"] / f"{name} by one")
    return {name: log_of(found["folder"] / f"{name} by one") for name in SURE}


@pytest.mark.prove
@pytest.mark.parametrize("parallel", PARALLELS)
@pytest.mark.parametrize("name", SURE)
def test_a_run_goes_on_with_another_number_of_ranks_or_spread_otherwise(
    name: str, parallel: str, found: dict[str, Any], straight: dict[str, list[float]]
) -> None:
    begun, other = f"{name} begun by two {parallel}", PARALLELS[parallel == "ddp"]
    # Only the second rank was asked to stop; all did, after the same step.
    assert found[begun]["is_done"] is False
    assert STOP <= found[begun]["step"] < 8
    by_one = found["folder"] / f"{begun}, then one"
    shutil.copytree(found["folder"] / begun, by_one)
    train(one_run(name, found["folder"]), by_one, resume=True)
    by_two = [f"{name} {way} by two {parallel}" for way in ("of one", f"of {other}", "again")]
    for out in (by_one, *(found["folder"] / by for by in by_two)):
        assert log_of(out) == pytest.approx(straight[name], rel=TOLERANCE), out.name
        assert (out / "best" / "model.safetensors").is_file()
        assert (out / "report.html").is_file()


@pytest.mark.prove
@pytest.mark.parametrize("parallel", PARALLELS)
@pytest.mark.parametrize("name", RUNS)
def test_as_many_ranks_go_on_to_the_last_bit(name: str, parallel: str, found: dict[str, Any]) -> None:
    outs = [found["folder"] / f"{name} {way}by two {parallel}" for way in ("", "again ")]
    assert log_of(outs[0]) == log_of(outs[1])
    for model in ("best", "last"):
        one, other = ((out / model / "model.safetensors").read_bytes() for out in outs)
        assert one == other


def latest(out: Path) -> Path:
    return list_checkpoints(out / "checkpoints")[-1]


def tensors_in(out: Path) -> dict[str, StoredTensor]:
    """What the latest checkpoint keeps, beside random states."""
    kept = read(latest(out))[1]
    return {name: tensor for name, tensor in kept.items() if not name.startswith("random")}


@pytest.mark.prove
@pytest.mark.parametrize("name", SURE)
def test_each_rank_writes_and_reads_only_what_it_holds(
    name: str, found: dict[str, Any], straight: dict[str, list[float]]
) -> None:
    folder = found["folder"]
    assert len(list(latest(folder / f"{name} by two ddp").glob("*.safetensors"))) == 1
    assert {path.name for path in latest(folder / f"{name} by two fsdp").glob("*.safetensors")} == {
        *shard_names(2)
    }
    tensors = tensors_in(folder / f"{name} by two fsdp")
    shapes = {key: kept.shape for key, kept in tensors.items()}
    assert shapes == {key: kept.shape for key, kept in tensors_in(folder / f"{name} by one").items()}
    for key, kept in tensors.items():
        if len(kept.shape) and not key.endswith(".steps"):  # numbers are on the first rank only
            count = kept.shape[0]
            assert [piece.get_shape()[0] for piece in kept.slices] == [-(-count // 2), count // 2]
    begun = tensors_in(folder / f"{name} begun by two fsdp")
    for way in ("again", "of one", "of ddp"):
        read = found[f"{name} {way} by two fsdp"]["read"]
        assert read < 0.6 * sum(math.prod(kept.shape) for kept in begun.values())


@pytest.mark.prove
@pytest.mark.parametrize("parallel", PARALLELS)
def test_adapters_and_the_new_head_are_all_that_two_ranks_keep(parallel: str, found: dict[str, Any]) -> None:
    tensors = tensors_in(found["folder"] / f"adapted by two {parallel}")
    names = {name.removeprefix("weights.") for name in tensors if name.startswith("weights.")}
    assert {name for name in names if not name.endswith((".A", ".B"))} == {"head.out.weight", "head.out.bias"}
    assert any(name.endswith(".A") for name in names)


@pytest.mark.prove
def test_killed_in_a_save_every_checkpoint_is_whole_and_three_end_what_two_began(
    found: dict[str, Any], straight: dict[str, list[float]], tmp_path: Path
) -> None:
    shutil.copytree(found["folder"] / "translator begun by two fsdp", tmp_path / "begun")
    config = one_run("translator", found["folder"], parallel="fsdp", checkpoint_every=1)
    (tmp_path / "cases.json").write_text(json.dumps([{"config": as_json(config), "dies": True}]))
    done = torchrun(["-m", "tests.training.distributed.ranked", str(tmp_path)], 3, "--max-restarts=2")
    assert done.returncode == 0, done.stderr[-6000:]
    first, second, third = map(json.loads, (tmp_path / "starts.jsonl").read_text().splitlines())
    begun = found["translator begun by two fsdp"]["step"]
    assert (first["whole"][-1], first["left"]) == (f"step-{begun}", [])
    assert second["whole"][-1] == f"step-{begun + 1}"
    assert third["whole"][-1] == f"step-{begun + 2}"
    assert third["left"] == [["checksums.json", *shard_names(3), "state.json"]]
    outs = [tmp_path / name for name in ("in peace", "killed")]
    for out in outs:
        assert log_of(out) == pytest.approx(straight["translator"], rel=TOLERANCE)
    one, other = ((out / "last" / "model.safetensors").read_bytes() for out in outs)
    assert one == other
    check(latest(outs[1]))


RECIPE = """
task = "translate"
data = {{ train = "{train}", validation = 0.2 }}
tokenizer = {{ kind = "byte" }}
model = {{ d = 8, h = 2, encoder_blocks = 1, decoder_blocks = 1, context = 64 }}
training = {{ steps = 100, log_every = 1, evaluate_every = 50, checkpoint_every = 5, batch_tokens = 256, samples = 0 }}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "d.tsv").write_text("".join(f"uno {k} dos\tone {k} two\n" for k in range(60)))
    place = tmp_path / "recipe-of-two.toml"
    place.write_text(RECIPE.format(train=tmp_path / "d.tsv"))
    return place


def ranks_of(process: subprocess.Popen[str]) -> Iterator[tuple[str, int]]:
    """The ranks that a `torchrun` has started, and their processes."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = place.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            values = dict(
                pair.split("=", 1)
                for pair in place.joinpath("environ").read_text().split("\0")
                if "=" in pair
            )
        except (OSError, UnicodeDecodeError):
            continue
        if parent == str(process.pid) and "RANK" in values:
            yield values["RANK"], int(place.name)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the ranks in /proc")
def test_a_run_outlives_a_rank_that_is_killed(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [*CLEARHEAD, "train", str(recipe), "--out", str(out)]
    process = started(command, 2, "--max-restarts=1")
    deadline = time.monotonic() + 600
    while not list(out.glob("checkpoints/step-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(dict(ranks_of(process))["1"], signal.SIGKILL)
    output, errors = process.communicate(timeout=1200)
    assert process.returncode == 0, errors[-4000:]
    assert [record.step for record in read_log(out / "log.jsonl").steps] == list(range(1, 101))
    assert output.count("writes to") == 2  # once before, once after, each by one rank
    assert output.count(", resuming") == 1
    assert output.count("100 steps in") == 1


MEETING = """
import torch
from torch.distributed import distributed_c10d
from clearhead.training.distributed.ranks import TIMEOUT, process_group, one_rank_first, rank
with process_group():
    group = distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    with one_rank_first():
        print("through", rank(), group.options._timeout.days)
"""


@pytest.mark.prove
def test_machines_may_have_different_numbers_of_processes_and_wait_for_days(tmp_path: Path) -> None:
    place = tmp_path / "meeting.py"
    place.write_text(MEETING)
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{free.getsockname()[1]}"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--rdzv-backend=c10d"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    machines = [
        subprocess.Popen(
            [*launch, "--rdzv-id=x", f"--rdzv-endpoint={at}", f"--nproc-per-node={count}", str(place)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in (3, 2)
    ]
    try:
        output = "".join(machine.communicate(timeout=100)[0] for machine in machines)
    finally:
        for machine in machines:
            machine.terminate()
    assert sorted(output.splitlines()) == [f"through {number} {TIMEOUT.days}" for number in range(5)]


@pytest.mark.prove
def test_an_error_is_told_once(recipe: Path, tmp_path: Path) -> None:
    command = [*CLEARHEAD, "train", str(recipe), "--out", str(tmp_path / "run")]
    done = torchrun([*command, "--training.compile", "on", "--training.parallel", "fsdp"])
    assert done.returncode != 0
    assert done.stderr.count("error: ") == 1
    assert "training.compile = 'on' does not work with training.parallel = 'fsdp'" in done.stderr
    assert "[rank" not in done.stderr  # before each line of a traceback
    unnamed = torchrun([*CLEARHEAD, "train", str(recipe)], 1, "--max-restarts=1")
    assert "Name it with --out." in unnamed.stderr
