"""A run folder holds what it promises, and a run that was killed ends as if it had not been."""

import json
import math
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clearhead import model_folder
from clearhead.config.decoding import DecodingConfig
from clearhead.config.run import RunConfig, shipped
from clearhead.data.batching.batches import Batch
from clearhead.decoding.generate import Generation, Generator, Prompt
from clearhead.errors import CheckpointError, ConfigError
from clearhead.text.sources.read import read_split
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.checkpoints.metadata import settings_of
from clearhead.training.checkpoints.restore import check
from clearhead.training.evaluation import samples
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.loop import trainer
from clearhead.training.loop.records import EvaluationRecord
from clearhead.training.reporting.history import History, read_log
from clearhead.training.run.run import Run, keep_length, make_run
from tests.training.checkpoints.saved import GONE, rewrite, timeless
from tests.training.small import final_weights, killed_and_resumed, small_config, small_run
from tests.training.trainers import TASKS, configured

MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "card.md", "checksums.json"}


def weights_in(place: Path) -> bytes:
    return (place / "model.safetensors").read_bytes()


def told(history: History) -> list[Any]:
    """What of a log does not depend on the clock."""
    return [*map(timeless, history.steps), *map(timeless, history.evaluations), *history.samples]


@pytest.mark.parametrize("task", TASKS)
def test_a_run_leaves_the_folder_of_design(task: str, tmp_path: Path) -> None:
    run = small_run(task, tmp_path, checkpoint_every=2, keep_checkpoints=2, samples=1)
    given = list(run.train())
    found = {path.name for path in run.out.iterdir()} - {"tensorboard"}
    assert found == {"recipe.toml", "log.jsonl", "checkpoints", "best", "last", "report.html"}
    assert {path.name for path in (run.out / "checkpoints").iterdir()} == {"step-4", "step-6"}
    for name in ("best", "last"):
        files = {path.name for path in (run.out / name).iterdir()}
        assert files - {"tokenizer-source.json", "labels.json"} == MODEL_FILES
        assert ("labels.json" in files) is (task == "classify")
    assert run.is_done
    log = read_log(run.out / "log.jsonl")
    assert log == run.history
    assert sorted(map(repr, given)) == sorted(map(repr, (*log.steps, *log.evaluations, *log.samples)))
    assert [record.step for record in log.evaluations] == [3, 6]
    for path in run.out.rglob("*"):
        assert path.is_dir() or path.suffix in (".json", ".jsonl", ".safetensors", ".toml", ".md", ".html") or (
            "tensorboard" in path.parts
        )  # fmt: skip


def test_a_model_without_blocks_has_a_report_without_attention(tmp_path: Path) -> None:
    config = small_config("classify", tmp_path)
    run = make_run(config.replace(model=config.model.replace(encoder_blocks=0)), tmp_path / "run")
    list(run.train())
    assert run.summary.attention is None
    assert (run.out / "report.html").exists()


def test_the_last_model_is_the_one_that_was_trained(tmp_path: Path) -> None:
    run = small_run("translate", tmp_path, average="exponential")
    list(run.train())
    assert run.trainer is not None
    kept = model_folder.load(run.out / "last").module
    with run.trainer.average.applied():
        for (name, mine), (other, theirs) in zip(
            run.model.named_parameters(), kept.named_parameters(), strict=True
        ):
            assert name == other
            assert torch.equal(mine, theirs)  # the average, not the newest


def losses(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """Makes the evaluations that follow find these losses."""
    found = iter(values)
    monkeypatch.setattr(trainer, "validate", lambda *_: (next(found), 7, 3))


def is_model(run: Run, name: str, weights: dict[str, torch.Tensor]) -> bool:
    """Whether the model folder of this name holds these weights."""
    stored = load_file(run.out / name / "model.safetensors")
    return all(torch.equal(stored[name], weight) for name, weight in weights.items())


def weights_at(run: Run, records: Iterable[Any]) -> dict[int, dict[str, torch.Tensor]]:
    """The weights at each evaluation, by its step."""
    return {
        record.step: {name: W.detach().clone() for name, W in run.model.named_parameters()}
        for record in records
        if isinstance(record, EvaluationRecord)
    }


def test_the_best_model_is_that_of_the_smallest_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses(monkeypatch, 3.0, 2.0, 1.0, 1.5, math.nan, 2.5)
    run = small_run("translate", tmp_path, evaluate_every=1)
    at_step = weights_at(run, run.train())
    assert [step for step, weights in at_step.items() if is_model(run, "best", weights)] == [3]
    assert [step for step, weights in at_step.items() if is_model(run, "last", weights)] == [6]
    assert "these are the weights after 3 of 6 steps" in (run.out / "best" / "card.md").read_text()


@pytest.mark.parametrize("at", [3, 6])
def test_a_best_model_that_is_gone_is_looked_for_anew_and_its_card_is_true(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where no evaluation follows any more, and the last model takes its place."""
    losses(monkeypatch, 3.0, 1.0, 4.0, 6.0, 5.0, 5.5, 6.0, 5.0, 5.5)
    out = killed_at(at + 1, small_config("classify", tmp_path, evaluate_every=1), tmp_path / "run")
    shutil.rmtree(out / "best")
    run = make_run(RunConfig.read(out / "recipe.toml"), out)
    at_step = weights_at(run, run.train(resume=True))
    assert caplog.messages == [
        f"{out / 'best'} is missing. The best of the remaining evaluations replaces it, or else the last model."
    ]
    best, loss = (5, 5.0) if at == 3 else (6, 5.5)
    assert [step for step, weights in at_step.items() if is_model(run, "best", weights)] == [5][: at < 6]
    assert at < 6 or weights_in(out / "best") == weights_in(out / "last")
    for _ in range(2):  # the second time after another start, with the measured quality
        card = (out / "best" / "card.md").read_text()
        assert f"these are the weights after {best} of 6 steps" in card
        assert f"Validation loss {loss:.4f} after step {best}." in card
        run = make_run(RunConfig.read(out / "recipe.toml"), out)
        assert not list(run.train(resume=True))
        assert run.evaluate()


def test_the_recipe_of_a_run_says_steps(tmp_path: Path) -> None:
    run = small_run("translate", tmp_path, steps=None, epochs=2.0)
    run.notes[:] = ["model.d = 8: small"]
    batches = run.data.batches("train", 256).count(0)
    assert run.plan.steps == round(2 * batches)
    next(iter(run.train()))
    again = RunConfig.read(run.out / "recipe.toml")
    assert (again.training.steps, again.training.epochs, again.training.minutes) == (
        run.plan.steps,
        None,
        None,
    )
    assert again == run.config
    assert (run.out / "recipe.toml").read_text().startswith("# model.d = 8: small\n")


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    run = small_run("translate", tmp_path)
    assert not run.out.exists()


@pytest.mark.parametrize("task", TASKS)
def test_a_run_that_was_killed_ends_with_the_same_bits(task: str, tmp_path: Path) -> None:
    config = configured(task, tmp_path, {"dropout": 0.2}, average="exponential", samples=1)
    whole = make_run(config, tmp_path / "whole")
    list(whole.train())
    again = killed_and_resumed(config, tmp_path / "parts")
    assert final_weights(again) == final_weights(whole)
    assert told(read_log(again.out / "log.jsonl")) == told(read_log(whole.out / "log.jsonl"))


def test_a_run_may_be_killed_again_and_again_over_several_epochs(tmp_path: Path) -> None:
    config = configured(
        "translate", tmp_path, {"dropout": 0.2}, steps=40, evaluate_every=10, checkpoint_every=4
    )
    whole = make_run(config, tmp_path / "whole")
    list(whole.train())
    assert whole.history.steps[-1].epoch > 2
    out = tmp_path / "parts"
    for last in (2, 11, 18, 20, 33):
        killed = make_run(config, out).train(resume=True)
        for record in killed:
            if record.step >= last:
                break
        killed.close()  # type: ignore[attr-defined]
        torch.manual_seed(last)
    list(make_run(config, out).train(resume=True))
    for name in ("best", "last"):
        assert weights_in(out / name) == weights_in(whole.out / name)
    assert told(read_log(out / "log.jsonl")) == told(read_log(whole.out / "log.jsonl"))


def test_a_run_goes_on_past_a_damaged_checkpoint_and_what_a_kill_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured("translate", tmp_path, {"dropout": 0.2}, checkpoint_every=2)
    whole = make_run(config, tmp_path / "whole")
    list(whole.train())
    run = make_run(config, tmp_path / "parts")
    list(run.train())
    newest, out = run.out / "checkpoints" / "step-6", run.out
    (newest / "state.json").write_text("{}")
    (out / "checkpoints" / ".step-8.abc.writing").mkdir()
    (out / "best").rename(out / ".best.previous")  # killed between two renames
    (out / ".report.html.new").write_text("half")
    again = make_run(config, out)
    list(again.train(resume=True))
    assert f"{newest} is damaged: state.json does not match its checksum." in caplog.text
    for name in ("best", "last"):
        assert weights_in(out / name) == weights_in(whole.out / name)
    assert not list(out.rglob(".*"))
    assert {path.name for path in (out / "checkpoints").iterdir()} == {"step-4", "step-6"}
    check(newest)


def killed_at(step: int, config: RunConfig, out: Path) -> Path:
    """The folder of a run that was killed after a step."""
    records = make_run(config, out).train()
    for record in records:
        if record.step == step:
            break
    records.close()  # type: ignore[attr-defined]
    return out


def test_settings_that_change_as_a_run_goes_on_are_told_and_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = killed_at(4, small_config("classify", tmp_path), tmp_path / "run")
    recipe = out / "recipe.toml"
    recipe.write_text(f"# a reason\n{recipe.read_text()}")
    before = recipe.read_text()
    changes = {"training.learning_rate": "1e-3", "training.clip": "2.0"}
    killed = make_run(RunConfig.read(recipe, changes), out).train(resume=True)
    next(iter(killed))
    killed.close()  # type: ignore[attr-defined]
    told = [
        "from step 3: training.learning_rate = 0.001 (was 0.002)",
        "from step 3: training.clip = 2.0 (was 1.0)",
    ]
    assert f"Changed settings: {'; '.join(told)}." in caplog.messages
    assert recipe.read_text().splitlines()[:3] == ["# a reason", *(f"# {line}" for line in told)]
    assert RunConfig.read(recipe) == RunConfig.read(recipe, changes)
    assert before != recipe.read_text()
    caplog.clear()
    before = recipe.read_text()
    list(make_run(RunConfig.read(recipe), out).train(resume=True))
    assert recipe.read_text() == before
    assert not caplog.messages


def go_on(out: Path, changes: dict[str, str] | None = None) -> None:
    """A step more of a run that was killed, with other settings if some are given."""
    records = make_run(RunConfig.read(out / "recipe.toml", changes or {}), out).train(resume=True)
    next(iter(records))
    records.close()  # type: ignore[attr-defined]


def test_settings_that_are_changed_by_hand_are_told_and_written_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = killed_at(4, small_config("classify", tmp_path), tmp_path / "run")
    recipe = out / "recipe.toml"
    original = recipe.read_text()
    recipe.write_text(original.replace("[training]\n", "[training]\nlearning_rate = 0.001\n"))
    line = "from step 3: training.learning_rate = 0.001 (was 0.002)"
    for _ in range(2):  # the second time it is known
        go_on(out)
        assert caplog.messages == [f"Changed settings: {line}."]
        assert recipe.read_text().splitlines()[0] == f"# {line}"
        assert recipe.read_text().count("# ") == 1
    go_on(out, {"training.learning_rate": "0.002"})  # as it was: nothing has ever learned by the other
    assert len(caplog.messages) == 1
    assert "#" not in recipe.read_text()
    assert RunConfig.read(recipe).training.learning_rate == 0.002


def test_a_checkpoint_that_does_not_say_its_settings_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of before; or it says them in words that this version does not know."""
    for number, settings in enumerate((GONE, {"task": "dream"}, [])):
        out = killed_at(4, small_config("classify", tmp_path), tmp_path / f"run{number}")
        rewrite(out / "checkpoints" / "step-3", "settings", settings)
        caplog.clear()
        go_on(out, {"training.learning_rate": "0.001"})
        line = "from step 3: training.learning_rate = 0.001 (was 0.002)"
        assert caplog.messages == [f"Changed settings: {line}."]
        go_on(out)
        assert len(caplog.messages) == 1
        assert (out / "recipe.toml").read_text().startswith(f"# {line}\n")


@pytest.mark.parametrize("name", shipped())
def test_what_a_checkpoint_says_of_settings_is_what_they_are(name: str) -> None:
    config = RunConfig.read(name)
    facts = json.loads(json.dumps({"settings": tomllib.loads(config.to_toml())}))
    found = settings_of(facts)
    assert found is not None
    assert list(config.changes(found)) == []


@pytest.mark.parametrize("change", [{"training.steps": "9"}, {"model.d": "16"}, {"training.init_from": "x"}])
def test_settings_that_cannot_change_are_refused_and_the_recipe_stays(
    change: dict[str, str], tmp_path: Path
) -> None:
    out = killed_at(4, small_config("classify", tmp_path), tmp_path / "run")
    before = (out / "recipe.toml").read_text()
    if "training.init_from" in change:
        change = {"training.init_from": str(out / "best")}
    (name,) = change
    with pytest.raises((CheckpointError, ConfigError), match=name.removeprefix("training.")):
        list(make_run(RunConfig.read(out / "recipe.toml", change), out).train(resume=True))
    assert (out / "recipe.toml").read_text() == before


def test_a_recipe_of_minutes_goes_on_with_the_steps_they_became(tmp_path: Path) -> None:
    config = small_config("classify", tmp_path, steps=None, minutes=0.001, checkpoint_every=None)
    run = make_run(config, tmp_path / "run")
    next(iter(run.train()))
    longer = small_config("classify", tmp_path, steps=None, minutes=1)
    again = keep_length(RunConfig.read(run.out / "recipe.toml"), longer).training
    assert (again.steps, again.minutes) == (run.plan.steps, None)
    assert again.checkpoint_every == 3  # as it says itself
    assert keep_length(run.config, config).training.checkpoint_every == run.plan.checkpoint_every


def test_a_run_that_is_over_stays_as_it_is_when_it_goes_on(tmp_path: Path) -> None:
    run = small_run("translate", tmp_path)
    list(run.train())
    before = weights_in(run.out / "last"), weights_in(run.out / "best"), told(read_log(run.out / "log.jsonl"))
    again = make_run(RunConfig.read(run.out / "recipe.toml"), run.out)
    assert list(again.train(resume=True)) == []
    assert again.is_done
    assert (
        weights_in(run.out / "last"),
        weights_in(run.out / "best"),
        told(read_log(run.out / "log.jsonl")),
    ) == before


def test_a_stop_before_the_first_step_is_a_stop(tmp_path: Path) -> None:
    run = small_run("translate", tmp_path)
    run.stop()
    assert list(run.train()) == []
    assert (run.step, run.is_done) == (0, False)
    assert [path.name for path in (run.out / "checkpoints").iterdir()] == ["step-0"]


def test_the_recipe_finds_the_data_from_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config("classify", tmp_path)
    monkeypatch.chdir(tmp_path)
    run = make_run(config.replace(data=config.data.replace(train="d.tsv")), Path("run"))
    next(iter(run.train()))
    assert RunConfig.read("run/recipe.toml").data == config.data
    assert list(make_run(RunConfig.read("run/recipe.toml"), Path("run")).train(resume=True))


def test_the_interval_of_the_plan_stands_in_the_recipe(tmp_path: Path) -> None:
    run = small_run("translate", tmp_path, checkpoint_every=None)
    next(iter(run.train()))
    again = RunConfig.read(run.out / "recipe.toml")
    assert again.training.checkpoint_every == run.plan.checkpoint_every


def test_samples_and_reports_do_not_change_what_is_learned(tmp_path: Path) -> None:
    found = []
    for count in (0, 3):
        config = configured("translate", tmp_path, {"dropout": 0.2}, samples=count)
        run = make_run(config, tmp_path / str(count))
        list(run.train())
        found.append(weights_in(run.out / "last"))
        assert len(run.history.samples) == 2 * count
    assert found[0] == found[1]


def test_samples_and_pictures_of_conversations_have_the_markers_of_their_messages(tmp_path: Path) -> None:
    """And no others, whatever a message spells."""
    said = [{"role": "user", "content": "<assistant>Hi<user>"}, {"role": "assistant", "content": "Ho"}]
    (tmp_path / "d.jsonl").write_text(
        "".join(json.dumps({"messages": said, "k": k}) + "\n" for k in range(9))
    )
    config = small_config("language-model", tmp_path / "x", samples=1, evaluate_every=6)
    data = {"train": str(tmp_path / "d.jsonl"), "validation": str(tmp_path / "d.jsonl")}
    run = make_run(
        RunConfig.model_validate(config.model_dump(exclude={"data"}) | {"data": data}), tmp_path / "run"
    )
    seen: list[list[int]] = []

    class Watched(Generator):
        def complete(self, prompts: Sequence[Prompt], settings: DecodingConfig) -> list[list[Generation]]:
            seen.extend(prompt.ids for prompt in prompts)
            return super().complete(prompts, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "Generator", Watched)
        list(run.train())
    tokenizer = run.data.tokenizers.target
    markers = [tokenizer.markers["user"], tokenizer.markers["assistant"]]
    (prompt,) = seen
    assert [token for token in prompt if token in tokenizer.markers.values()] == markers
    assert run.history.samples[0].given == "<user><assistant>Hi<user><assistant>"
    assert run.summary.attention is not None
    assert [name for name in run.summary.attention.rows if len(name) > 3] == ["<user>", "<assistant>"]


def test_a_stop_leaves_a_checkpoint_and_no_last_model(tmp_path: Path) -> None:
    run = small_run("translate", tmp_path, steps=50, evaluate_every=40, checkpoint_every=40)
    for record in run.train():
        if record.step == 4:
            run.stop()
    assert not run.is_done
    assert run.step == 4
    assert [path.name for path in (run.out / "checkpoints").iterdir()] == ["step-4"]
    assert not (run.out / "last").exists()


def test_the_numbers_of_the_best_model_are_kept(tmp_path: Path) -> None:
    run = small_run("classify", tmp_path)
    list(run.train())
    quality = run.evaluate()
    assert quality is not None
    assert quality["split"] == "test"
    assert json.loads((run.out / "quality.json").read_text()) == json.loads(json.dumps(quality))


def test_the_best_model_is_measured_in_parts_as_large_as_those_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run("language-model", tmp_path, accumulate=4)  # of 256 tokens
    list(run.train())
    read = []

    def add(self: Evaluation, batch: Batch) -> None:
        read.append(batch.tokens)
        plain(self, batch)

    plain = Evaluation.add
    monkeypatch.setattr(Evaluation, "add", add)
    quality = run.evaluate()
    assert quality is not None
    assert len(read) > 1
    assert max(read) == 64
    whole = Evaluation(model_folder.load(run.out / "best")).run(
        read_split(run.config.data, run.config.kind, "test") or []
    )
    assert quality["loss"] == pytest.approx(whole["loss"], rel=1e-6)


def test_a_run_without_checkpoints_is_not_begun_again_over_its_model(tmp_path: Path) -> None:
    config = small_config("classify", tmp_path, steps=6)
    out = tmp_path / "run"
    list(make_run(config, out).train())
    best = (out / "best" / "model.safetensors").read_bytes()
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(CheckpointError, match="no checkpoint, so the run cannot be resumed"):
        list(make_run(config, out).train(resume=True))
    assert (out / "best" / "model.safetensors").read_bytes() == best


@pytest.mark.parametrize("line", [b"\0\0\0\n", b"\xff\n"])
def test_a_damaged_log_without_a_checkpoint_is_no_dead_end(
    line: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = small_config("classify", tmp_path)
    whole = make_run(config, tmp_path / "whole")
    list(whole.train())
    out = killed_at(2, config, tmp_path / "run")
    assert not list_checkpoints(out / "checkpoints")
    log = out / "log.jsonl"
    log.write_bytes(log.read_bytes() + line)
    list(make_run(config, out).train(resume=True))
    assert [message.split(" and")[0] for message in caplog.messages] == [f"{log} has a damaged line"]
    assert told(read_log(log)) == told(read_log(whole.out / "log.jsonl"))
    assert weights_in(out / "best") == weights_in(whole.out / "best")


def test_a_run_is_not_written_over_by_one_that_was_planned_before(tmp_path: Path) -> None:
    config = small_config("classify", tmp_path, steps=6)
    late = make_run(config, tmp_path / "run")
    list(make_run(config, tmp_path / "run").train())
    with pytest.raises(ConfigError, match="will not be overwritten"):
        list(late.train())
