"""The scripts that reproduce published results: skipped without data, the same numbers after a stop."""

import gzip
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from clearhead.config.run import RunConfig

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[ModuleType, ModuleType]]:
    """`published` and `reproduce`, for which the shared data are an empty folder."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import published
    import reproduce

    monkeypatch.setattr(published, "SHARED_DATA", tmp_path / "shared")
    monkeypatch.setattr(reproduce, "RESULTS", tmp_path / "results")
    yield published, reproduce
    for name in ("published", "reproduce", "harness"):
        sys.modules.pop(name, None)


def test_without_data_every_recipe_is_skipped_with_the_reason(
    scripts: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    published, reproduce = scripts
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "--out", str(tmp_path / "out")])
    reproduce.main()
    lines = capsys.readouterr().out.splitlines()
    for name, goal in published.PUBLISHED.items():
        assert f"{name} is skipped: {tmp_path / 'shared' / goal.folder} does not exist." in lines
        assert f"| `{name}` | {goal.must:g} | {goal.aim:g} | not measured | | | |" in lines
    assert not (tmp_path / "out").exists()


def test_every_goal_names_a_shipped_recipe_that_has_the_split_it_is_measured_on(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    for goal in scripts[0].PUBLISHED.values():
        config = RunConfig.read(goal.name)
        assert config.data.source(goal.split) is not None
        assert goal.is_reached(goal.aim, goal.must)


def write_sequences(folder: Path, count: int) -> None:
    """Packed sequences of two kinds, of which one has more A."""
    draw = random.Random(1)
    for name, letters in (("Ecoli_prom.fa", "AAAACGT"), ("Ecoli_non_prom.fa", "ACGT")):
        records = (f">{i}\n{''.join(draw.choices(letters, k=81))}\n" for i in range(count))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.gz").write_bytes(gzip.compress("".join(records).encode()))


def test_each_sequence_is_in_the_test_of_one_fold(
    scripts: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    published, _ = scripts
    write_sequences(tmp_path / "shared" / "dna-ecoli", 30)
    goal = published.PUBLISHED["dna-ecoli"]
    goal.unpack(tmp_path / "data")
    tested = []
    runs = goal.runs(tmp_path / "data")
    for settings in runs:
        run = RunConfig.read("dna-ecoli", settings)
        sides = [
            {path: Path(str(path)).read_text() for path in source.values()}  # type: ignore[union-attr]
            for source in (run.data.train, run.data.test)
        ]
        train, test = ({r for text in side.values() for r in text.split(">")[1:]} for side in sides)
        assert not train & test
        assert len(train) + len(test) == 60
        tested += sorted(test)
    seeds = {settings["training.seed"] for settings in runs}
    assert len(runs) == len(seeds) * published.FOLDS
    assert sorted(tested) == sorted([*set(tested)] * len(seeds))
    assert len(set(tested)) == 60


def test_a_reproduction_that_was_stopped_resumes_and_ends_with_the_same_numbers(
    scripts: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    published, reproduce = scripts
    write_sequences(tmp_path / "shared" / "dna-ecoli", 40)
    goal = published.PUBLISHED["dna-ecoli"]
    goal.unpack(tmp_path / "data")
    little = {
        "training.epochs": "none", "training.steps": "6", "training.evaluate_every": "2",
        "training.checkpoint_every": "2", "training.samples": "0", "model.d": "16",
        "model.token_d": "8",
    }  # fmt: skip
    settings = goal.runs(tmp_path / "data")[0] | little
    whole = reproduce.one_run(goal, settings, tmp_path / "whole")

    assert reproduce.one_run(goal, settings, tmp_path / "stopped", until=0.0) is None
    assert len(list((tmp_path / "stopped" / "checkpoints").iterdir())) == 1
    spent = reproduce.Clock(tmp_path / "stopped.spent.json").before["processor"]
    resumed = reproduce.one_run(goal, settings, tmp_path / "stopped")
    times = {"wall_seconds", "processor_seconds", "measuring_processor_seconds"}
    assert {k: v for k, v in resumed.items() if k not in times} == {
        k: v for k, v in whole.items() if k not in times
    }
    assert resumed["processor_seconds"] > spent > 0
    assert resumed["quality"]["split"] == "test"
    assert reproduce.one_run(goal, settings, tmp_path / "stopped") == resumed  # nothing is trained again
