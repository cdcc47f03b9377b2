"""The plan says what a run will be without touching it, and refuses what cannot fit before memory is taken."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.training import TrainingConfig
from clearhead.data.batching.batches import Batch, Position
from clearhead.data.prepare import Prepared, prepare
from clearhead.errors import ConfigError
from clearhead.machine import load
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run import plan as plans
from clearhead.training.run import requirements, trial_steps
from clearhead.training.run.disk import used_room
from clearhead.training.run.plan import (
    Plan,
    count_steps,
    make_plan,
    model_config,
    steps_between_saves,
)
from clearhead.training.run.requirements import check_size, free_in_container
from clearhead.training.run.run import keep_length, make_run
from clearhead.training.run.trial_steps import LEAST_MEASURED, STEADY, TRIAL_STEPS, take_trial_steps
from tests.training.trainers import TASKS, configured, make_trainer, weights_of

GB = 10**9


def prepared(task: str, folder: Path, **settings: Any) -> tuple[RunConfig, Prepared, Model]:
    config = configured(task, folder, **settings)
    data = prepare(config)
    return config, data, build(model_config(config, data), seed=3)


def plan_of(task: str, folder: Path, **settings: Any) -> Plan:
    return make_plan(*prepared(task, folder, **settings), folder / "run")


@pytest.mark.parametrize("task", TASKS)
def test_measuring_leaves_everything_as_it_was(task: str, tmp_path: Path) -> None:
    config, data, model = prepared(task, tmp_path, model={"dropout": 0.2}, recompute=True)
    for number, weight in enumerate(model.parameters()):
        weight.grad = torch.full_like(weight, float(number))
    torch.manual_seed(7)
    random = torch.get_rng_state()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    threads = torch.get_num_threads()
    plan = make_plan(config, data, model, tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), random)
    for number, (name, weight) in enumerate(model.named_parameters()):
        assert torch.equal(weight, before[name])
        assert weight.grad is not None
        assert (weight.grad == float(number)).all()
    assert not model.training
    assert not model._forward_pre_hooks
    assert all("forward" not in vars(module) for module in model.modules())
    assert torch.get_num_threads() == threads
    assert plan.parameters == sum(weight.numel() for weight in model.parameters())
    batches = data.batches("train", config.training.batch_tokens, config.training.seed)
    assert plan.epochs == pytest.approx(6 / batches.count(0))
    assert 0 < plan.tokens_per_step <= config.training.batch_tokens
    assert plan.seconds == 6 * plan.seconds_per_step > 0


def test_measuring_slow_steps_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Batch] = []
    update = Trainer.update

    def noted(self: Trainer, batch: Batch) -> tuple[float, float]:
        taken.append(batch)
        return update(self, batch)

    monkeypatch.setattr(Trainer, "update", noted)
    counts = []
    for patience in (trial_steps.PATIENCE, 0.0):
        monkeypatch.setattr(trial_steps, "PATIENCE", patience)
        taken.clear()
        plan = plan_of("language-model", tmp_path / str(patience))
        counts.append(len(taken))
        assert plan.seconds_per_step > 0
    assert counts[0] >= 2 + trial_steps.TRIAL_STEPS  # one row, the step that warms up, and the others
    assert counts[1] == 2


@given(st.integers(1, 500), st.floats(0.001, 20), st.floats(0.01, 50), st.floats(0.001, 300))
def test_epochs_and_minutes_become_steps(batches: int, seconds: float, epochs: float, minutes: float) -> None:
    def steps(**lengths: float) -> int:
        return count_steps(TrainingConfig.model_validate(lengths), batches, seconds)

    assert steps(steps=17) == 17
    assert steps(epochs=epochs) == max(1, round(epochs * batches))
    assert steps() == 10 * batches
    timed = steps(minutes=minutes)
    assert timed == 1 or timed * seconds <= 60 * minutes * (1 + 1e-9)
    assert (timed + 1) * seconds > 60 * minutes * (1 - 1e-9)
    assert steps(minutes=minutes, epochs=epochs) == min(timed, steps(epochs=epochs))


def test_a_plan_in_minutes_fits_into_them(tmp_path: Path) -> None:
    plan = plan_of("translate", tmp_path, steps=None, minutes=0.05)
    assert plan.steps == 1 or plan.seconds <= 3.0 + 1e-6


# What does not fit.


def test_parts_and_running_again_save_memory(tmp_path: Path) -> None:
    """What the plan advises must bring the estimate down, or the advice would lead nowhere."""
    sizes: dict[str, Any] = {
        "batch_tokens": 1024,
        "model": {"d": 16, "encoder_blocks": 3, "decoder_blocks": 3},
    }

    def memory(**changes: Any) -> int:
        return plan_of("translate", tmp_path, **(sizes | changes)).memory_bytes - requirements.RUNTIME_BYTES

    whole = memory()
    assert memory(accumulate=4) < 0.6 * whole
    assert memory(recompute=True) < 0.8 * whole
    assert memory(batch_tokens=256) < 0.6 * whole
    assert memory(average="exponential") > whole


def test_what_a_block_takes_when_it_runs_again_is_counted(tmp_path: Path) -> None:
    """So running again saves the less the fewer blocks there are, and nothing where there is one."""
    data = prepare(configured("language-model", tmp_path))

    def passing(blocks: int, recompute: bool) -> int:
        model = {"d": 96, "decoder_blocks": blocks}  # so that logits are little
        config = configured("language-model", tmp_path, model, batch_tokens=1024, recompute=recompute)
        return take_trial_steps(config, data, build(model_config(config, data)), lambda needed: None).bytes

    one, two, eight = (passing(n, True) / passing(n, False) for n in (1, 2, 8))
    assert 0.85 < one < 1.2
    assert 0.4 < two < 0.9
    assert eight < 0.35


PEAK = """
import json, sys
from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.run.plan import model_config
from clearhead.training.run.trial_steps import take_trial_steps
from clearhead.training.loop.trainer import Trainer

config = RunConfig(**json.loads(sys.argv[1]))
data = prepare(config)
model = build(model_config(config, data))
trainer = Trainer(config, data, model, 4)
batch = trainer.batches.at(Position())
trainer.update(batch.share(0, batch.rows))  # what libraries and optimizers keep is there
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew

def resident(name):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

before = resident("VmRSS")
trainer.update(batch)
peak = resident("VmHWM") - before
print(json.dumps([peak, take_trial_steps(config, data, model, lambda needed: None).bytes]))
"""


@pytest.mark.prove
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
@pytest.mark.parametrize("recompute", [False, True])
def test_a_step_takes_what_the_plan_says(recompute: bool, tmp_path: Path) -> None:
    model = {"d": 128, "decoder_blocks": 4, "context": 64}
    # In float32: what products in bfloat16 need besides differs from processor to processor.
    config = configured(
        "language-model", tmp_path, model, batch_tokens=4096, recompute=recompute, precision="float32"
    )
    settings = config.model_dump_json(exclude_unset=True)
    # Every tensor goes back to the system as it is freed, so that its own habits do not count.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "16384", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", PEAK, settings], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    peak, planned = json.loads(result.stdout)
    assert 0.7 * planned < peak < 1.1 * planned


def test_a_batch_that_does_not_fit_is_refused_before_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, data, model = prepared("translate", tmp_path, batch_tokens=1024)
    enough = make_plan(config, data, model, tmp_path / "run").memory_bytes
    lasting = requirements.lasting_bytes(config.training, model) + requirements.RUNTIME_BYTES
    tried: list[int] = []
    update = Trainer.update

    def watched(self: Trainer, batch: Batch) -> tuple[float, float]:
        tried.append(batch.rows)
        return update(self, batch)

    monkeypatch.setattr(Trainer, "update", watched)
    monkeypatch.setattr(requirements, "free_memory", lambda device: (lasting + enough) // 2)
    with pytest.raises(ConfigError) as caught:
        make_plan(config, data, model, tmp_path / "run")
    assert tried == [1]
    first, second = str(caught.value).split("\n")
    assert first == "The run needs about 0.4 GB of memory, and 0.4 GB is free."
    assert second == (
        "Use a training.batch_tokens below 1024, training.accumulate to split batches, training.recompute = true, "
        "or a smaller model."
    )
    monkeypatch.setattr(requirements, "free_memory", lambda device: 2 * enough)
    assert make_plan(config, data, model, tmp_path / "run").free_bytes == 2 * enough


def test_weights_that_do_not_fit_are_refused_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, data, model = prepared("translate", tmp_path)
    monkeypatch.setattr(requirements, "free_memory", lambda device: 1000)
    monkeypatch.setattr(plans, "take_trial_steps", None)
    with pytest.raises(ConfigError, match=r"Use a smaller model, or training.average = 'none'"):
        make_plan(config, data, model, tmp_path / "run")


def test_a_model_that_does_not_fit_is_refused_before_it_is_built() -> None:
    huge = ModelConfig(d=1 << 17, h=64, decoder_blocks=400)  # 80 terabytes of weights
    with pytest.raises(
        ConfigError, match=r"^The run needs about \d+\.\d GB of memory, and \d+\.\d GB is free"
    ):
        check_size(huge, TrainingConfig(device="cpu"))
    check_size(ModelConfig(), TrainingConfig(device="cpu"))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.max": "max", "memory.current": "5", "memory.stat": "file 2"}, sys.maxsize),
        ({"memory.max": "100", "memory.current": "60", "memory.stat": "anon 3\nfile 20"}, 60),
        ({"memory.max": "100", "memory.current": "60"}, sys.maxsize),
        ({}, sys.maxsize),
    ],
)
def test_the_limit_of_a_container_counts(files: dict[str, str], expected: int, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert free_in_container(tmp_path) == expected


def test_there_is_memory_here() -> None:
    assert 0 < requirements.free_memory("cpu") < 10**15


# The disk, and how often to save.


@given(st.integers(1, 100), st.floats(1e-4, 1e3), st.floats(1e-4, 1e4))
def test_saving_costs_little_and_falls_on_logged_steps(log_every: int, step: float, save: float) -> None:
    every = steps_between_saves(log_every, step, save)
    assert every % log_every == 0
    assert save <= 0.02 * every * step * (1 + 1e-9)
    assert every * step >= 30 * (1 - 1e-9)
    fewer = (every - log_every) * step
    assert fewer < 30 * (1 + 1e-9) or save > 0.02 * fewer * (1 - 1e-9)  # no rarer than it must be


def test_a_stated_interval_is_kept_and_another_is_chosen(tmp_path: Path) -> None:
    assert plan_of("translate", tmp_path, checkpoint_every=7).checkpoint_every == 7
    plan = plan_of("translate", tmp_path, checkpoint_every=None)
    assert plan.checkpoint_every * plan.seconds_per_step >= 30
    assert not (tmp_path / "run").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_estimate_of_the_disk_is_enough_and_not_far_off(tmp_path: Path) -> None:
    config = configured("translate", tmp_path, {"d": 64}, checkpoint_every=1, average="exponential")
    run = make_run(config, tmp_path / "run")
    most = 0
    for _ in run.train():
        most = max(most, used_room(run.out))
    assert most <= run.plan.disk_bytes < most + 2 * requirements.OTHER_FILES


@pytest.mark.parametrize(
    ("taken", "is_enough"), [(0, False), (10**9, True)], ids=["a new run", "one that goes on"]
)
def test_a_run_that_does_not_fit_on_the_disk_is_refused(
    taken: int, is_enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, data, model = prepared("translate", tmp_path)
    monkeypatch.setattr(requirements, "free_room", lambda out: 1_000_000)
    monkeypatch.setattr(requirements, "used_room", lambda out: taken)
    if is_enough:
        assert make_plan(config, data, model, tmp_path / "run").free_disk_bytes == 1_000_000 + taken
        return
    monkeypatch.setattr(plans, "take_trial_steps", None)
    with pytest.raises(ConfigError) as caught:
        make_plan(config, data, model, tmp_path / "run")
    assert str(caught.value) == (
        f"The run needs about 10 MB on the disk of {tmp_path / 'run'}, and 1 MB is free.\n"
        "Free some space, name another --out, or use a training.keep_checkpoints below 2 or a smaller model."
    )


# What only the data knows.


@pytest.mark.parametrize("task", TASKS)
def test_sizes_come_from_the_data(task: str, tmp_path: Path) -> None:
    config, data, _ = prepared(task, tmp_path)
    found = model_config(config, data)
    assert found.vocabulary == data.tokenizers.target.size
    assert found.classes == (2 if task == "classify" else None)
    assert found.head == ("classifier" if task == "classify" else "language")


def test_a_decoder_that_classifies_reads_its_last_token(tmp_path: Path) -> None:
    config, data, _ = prepared("classify", tmp_path)
    decoder = config.replace(model=config.model.replace(shape="decoder"))
    assert model_config(decoder, data).pool == "last"
    stated = config.replace(model=config.model.replace(shape="decoder", pool="mean"))
    assert model_config(stated, data).pool == "mean"


@pytest.mark.parametrize(
    ("times", "enough"),
    [
        ([9.0, 1.0, 1.0], True),  # the time is over
        ([1.0, 0.5, 0.5], False),  # too few
        ([1.0, 0.5, 0.5, 0.5], True),
        ([1.0, 0.5, 0.9, 0.4], False),  # they scatter
        ([0.1, 0.01, 0.01, 0.01], False),  # too short to see other programs
        ([0.1, *[0.01, 0.014] * 30], True),  # many that scatter
    ],
)
def test_trial_steps_are_repeated_until_they_are_steady(
    times: list[float], enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_steps, "STEADY", STEADY)
    monkeypatch.setattr(trial_steps, "LEAST_MEASURED", LEAST_MEASURED)
    monkeypatch.setattr(trial_steps, "TRIAL_STEPS", TRIAL_STEPS)
    assert trial_steps.is_enough(times) is enough


def test_a_plan_says_how_steady_its_measurement_was(tmp_path: Path) -> None:
    plan = plan_of("classify", tmp_path)
    assert plan.trial_steps >= trial_steps.TRIAL_STEPS
    assert 0 < plan.fastest_step <= plan.seconds_per_step <= plan.slowest_step
    assert replace(plan, fastest_step=0.1, slowest_step=0.14).is_steady
    assert not replace(plan, fastest_step=0.1, slowest_step=0.3).is_steady


@pytest.mark.parametrize(("others", "busy"), [(0.0, False), (0.3, False), (1.6, True), (None, False)])
def test_a_busy_machine_is_said(
    others: float | None,
    busy: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(load, "usable_cores", lambda: {0, 1})
    monkeypatch.setattr(load.LoadMeter, "others", lambda meter, nice=True: others)
    plan_of("classify", tmp_path, steps=None, minutes=1.0)
    assert ("The machine is busy: other programs used 1.6 of" in caplog.text) is busy
    assert ("plan again when the machine is idle" in caplog.text) is busy


def test_the_work_of_this_process_is_not_that_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(load, "STAT", stat)
    monkeypatch.setattr(load, "usable_cores", lambda: {0})
    monkeypatch.setattr(load, "SHORTEST", 0.0)
    clock = {"perf_counter": 0.0, "process_time": 0.0}
    for name in clock:
        monkeypatch.setattr(load, name, partial(clock.__getitem__, name))
    tick = os.sysconf("SC_CLK_TCK")
    stat.write_text("cpu  0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n")
    meter = load.LoadMeter(0.0, 0.0, load.busy_seconds())
    clock |= {"perf_counter": 10.0, "process_time": 4.0}
    stat.write_text(
        f"cpu  0 0 0 0 0 0 0 0\ncpu0 {9 * tick} 0 0 {tick} 0 0 0 0\ncpu1 {10 * tick} 0 0 0 0 0 0 0\n"
    )
    assert meter.others() == pytest.approx(0.5)
    stat.write_text(stat.read_text().replace(f"cpu0 {9 * tick} 0", f"cpu0 {6 * tick} {3 * tick}"))
    assert meter.others() == pytest.approx(0.5)
    assert meter.others(nice=False) == pytest.approx(0.2 if os.nice(0) <= 0 else 0.5)
    stat.unlink()
    assert meter.others() is None


@pytest.mark.parametrize(
    ("products", "gradients", "chosen"),
    [(0.02, 9.0, "float32"), (2.0, 1.4, "bfloat16"), (2.0, 1.05, "float32")],
    ids=["emulated", "faster", "no gain"],
)
def test_the_faster_number_format_is_chosen_and_kept(
    products: float, gradients: float, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_steps, "product_gain", lambda width: products)
    monkeypatch.setattr(trial_steps, "gradient_gain", lambda trial, batch: gradients)
    run = make_run(configured("classify", tmp_path), tmp_path / "run")
    assert run.plan.precision == run.config.training.precision == chosen
    assert run.plan.bfloat16_gain == (None if products < 1 else gradients)
    resumed = keep_length(run.config, configured("classify", tmp_path))  # the recipe, which leaves it open
    assert resumed.training.precision == chosen


def test_both_number_formats_are_measured_on_real_rows(tmp_path: Path) -> None:
    trial = make_trainer("translate", tmp_path)
    batch = trial.batches.at(Position())
    before = weights_of(trial)
    assert trial_steps.gradient_gain(trial, batch) > 0
    assert all(weight.grad is None for weight in trial.model.parameters())
    assert all(torch.equal(weight, before[name]) for name, weight in weights_of(trial).items())


def test_a_slow_number_format_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trial_steps, "product_gain", lambda width: 0.02)
    assert plan_of("classify", tmp_path, precision="bfloat16").precision == "bfloat16"
    assert "a product takes 50.0 times as long as with 'float32'" in caplog.text
    assert "--training.precision float32" in caplog.text
