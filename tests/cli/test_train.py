"""`clearhead train` as a user meets it: the plan, the run folder, going on, stopping, JSON, errors."""

import json
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clearhead.cli.commands import app
from clearhead.cli.request import claim, default_folder, find_request, name_of, split_arguments
from clearhead.config.run import RunConfig
from clearhead.errors import ClearheadError, ConfigError, TrainingError
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.checkpoints.restore import check
from clearhead.training.reporting.history import read_log
from clearhead.training.run.observers import FolderWriter
from tests.commands import COMMAND, runner
from tests.training.small import small_config


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    small_config("classify", tmp_path / "data").write("tiny.toml")
    return "tiny.toml"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["train", *words])


def done(*words: str) -> Result:
    result = run(*words)
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return result


def test_a_recipe_becomes_a_run_folder_with_all_its_parts(recipe: str) -> None:
    result = done(recipe)
    folder = Path("runs/tiny")
    held = {path.name for path in folder.iterdir()}
    assert {"recipe.toml", "log.jsonl", "checkpoints", "best", "last", "report.html"} <= held
    assert (folder / "best" / "card.md").exists()
    history = read_log(folder / "log.jsonl")
    assert [record.step for record in history.steps] == [1, 2, 3, 4, 5, 6]
    assert [record.step for record in history.evaluations] == [3, 6]
    for line in ("parameters", "6 steps of", "memory", "writes to  runs/tiny", "│ examples"):
        assert line in result.stdout
    assert result.stdout.index("writes to") < result.stdout.index("The best model on the test data:")
    assert 'clearhead classify runs/tiny "A text."' in result.stdout
    assert "accuracy " in result.stdout
    assert "step 6/6" in result.stderr
    assert "step 6/6" not in result.stdout


def test_the_commands_to_go_on_with_work() -> None:
    """Those of a run that holds out no test data, and learns conversations."""
    with Path("talks.jsonl").open("w") as file:
        for number in range(60):
            talk = [{"role": "user", "content": f"Hi {number}"}, {"role": "assistant", "content": "Hello"}]
            print(json.dumps({"messages": talk}), file=file)
    sizes = ["--model.d", "8", "--model.h", "2", "--training.steps", "2", "--training.threads", "1"]
    shown = done("language-model", "talks.jsonl", "--out", "runs/a", *sizes).stdout
    commands = [line.strip() for line in shown.partition("Next:")[2].splitlines()]
    assert "clearhead chat runs/a" in commands
    (evaluate,) = [command for command in commands if command.startswith("clearhead evaluate")]
    result = CliRunner().invoke(app, evaluate.split()[1:])
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"


def test_a_plan_writes_nothing(recipe: str) -> None:
    result = done(recipe, "--plan")
    assert "6 steps of" in result.stdout
    assert not Path("runs").exists()
    facts = json.loads(done(recipe, "--plan", "--json").stdout)
    assert facts["plan"]["steps"] == 6
    assert facts["out"] == "runs/tiny"
    assert facts["audit"]["train"]["examples"] > 0


def test_json_is_one_object_and_nothing_else(recipe: str) -> None:
    facts = json.loads(done(recipe, "--json").stdout)
    assert (facts["steps"], facts["task"]) == (6, "classify")
    assert facts["quality"]["split"] == "test"
    assert facts["best_validation_loss"] == pytest.approx(
        min(record.validation_loss for record in read_log(Path("runs/tiny/log.jsonl")).evaluations)
    )
    assert Path(facts["report"]).exists()


def test_settings_stand_anywhere_and_reach_the_recipe_of_the_run(recipe: str) -> None:
    done("--training.steps=2", recipe, "--model.d", "16", "--out", "mine")
    config = RunConfig.read("mine/recipe.toml")
    assert (config.training.steps, config.model.d) == (2, 16)


def test_minutes_take_the_place_of_steps(recipe: str) -> None:
    done(recipe, "--minutes", "0.01", "--out", "short")
    config = RunConfig.read("short/recipe.toml")
    assert config.training.minutes is None
    assert config.training.steps is not None


def test_a_run_that_gets_no_better_says_why_it_ended(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.training.loop.trainer.validate", lambda *given: (1.0, 10, 5))
    result = done(recipe, "--training.evaluate_every", "1", "--training.patience", "2")
    assert "Stopped before its 6 steps: 2 evaluations in a row without improvement." in result.stdout


@pytest.mark.parametrize("name", ["training.steps", "training.epochs", "training.minutes"])
def test_a_length_is_said_once(recipe: str, name: str) -> None:
    Path("notes.txt").write_text("A line.\n" * 80)
    for words in ([recipe], ["language-model", "notes.txt"]):
        error = str(run(*words, "--minutes", "0.5", f"--{name}", "2").exception)
        assert error.startswith(f"--minutes 0.5 and --{name} 2 both say how long to train.")


def test_a_run_is_not_written_over(recipe: str) -> None:
    done(recipe)
    assert "writes to  runs/tiny-2" in done(recipe, "--plan").stdout
    result = run(recipe, "--out", "runs/tiny")
    assert isinstance(result.exception, ConfigError)
    assert "runs/tiny already contains a run" in str(result.exception)
    assert "clearhead train runs/tiny --resume" in str(result.exception)
    Path("other").mkdir()
    Path("other/file").write_text("x")
    assert "other is not an empty folder" in str(run(recipe, "--out", "other").exception)


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_is_no_run_folder(out: str, recipe: str) -> None:
    Path("file").write_text("x")
    for options in ([], ["--resume"], ["--plan"]):
        assert str(run(recipe, "--out", out, *options).exception) == (
            "file is a file, so the run folder cannot be created there.\nName a folder with --out."
        )


def test_a_run_that_goes_on_ends_like_one_that_never_stopped(recipe: str) -> None:
    done(recipe, "--out", "whole")
    done(recipe, "--out", "parts")
    for path in sorted(Path("parts/checkpoints").iterdir())[1:]:
        path.rename(Path("parts") / f"away-{path.name}")
    result = done("parts", "--resume")
    assert ", resuming" in result.stdout
    whole, parts = (read_log(Path(name) / "log.jsonl") for name in ("whole", "parts"))
    assert [record.step for record in parts.steps] == [1, 2, 3, 4, 5, 6]
    assert [record.loss for record in parts.steps] == pytest.approx([record.loss for record in whole.steps])
    assert len(parts.samples) == len(whole.samples)


@pytest.mark.parametrize("words", [["tiny.toml"], ["runs/tiny"], ["runs/tiny/recipe.toml"]])
def test_going_on_finds_its_folder(recipe: str, words: list[str]) -> None:
    done(recipe)
    request = find_request(words, {}, None, True, None)
    assert (request.out, request.resume) == (Path("runs/tiny"), True)
    assert request.config.training.steps == 6


def test_going_on_where_nothing_is_begins(recipe: str) -> None:
    request = find_request([recipe], {}, Path("new"), True, None)
    assert (request.out, request.resume) == (Path("new"), False)


def test_a_run_that_was_killed_as_it_began_can_begin_again(recipe: str) -> None:
    Path("new").mkdir()
    Path("new/.recipe.toml.0.new").write_text("task =")
    for resume in (False, True):
        assert find_request([recipe], {}, Path("new"), resume, None).resume is False
    done(recipe, "--out", "new", "--training.steps", "2")
    assert not [path.name for path in Path("new").iterdir() if path.name.startswith(".")]


def test_a_run_keeps_its_length_when_it_goes_on(recipe: str) -> None:
    done(recipe)
    for option in ("--minutes", "--training.minutes", "--training.epochs"):
        assert str(run(recipe, "--resume", option, "1").exception).startswith(
            f"{option}: a resumed run keeps its number of steps."
        )


def test_files_become_a_run_with_a_recipe_and_its_reasons() -> None:
    Path("notes.txt").write_text("".join(f"line {k} of a small book\n" for k in range(80)))
    result = done("language-model", "notes.txt", "--training.steps", "2")
    assert "· tokenizer.kind = byte: " in result.stdout
    recipe = Path("runs/notes-language-model/recipe.toml").read_text()
    assert recipe.startswith("# data.chunk_characters = ")
    config = RunConfig.read("runs/notes-language-model/recipe.toml")
    assert (config.task, config.training.steps, config.tokenizer.kind) == ("language-model", 2, "byte")
    assert "tokenizer.kind = byte" in Path("runs/notes-language-model/report.html").read_text()
    assert 'clearhead generate runs/notes-language-model "' in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["notes.txt"], "Try: clearhead train language-model notes.txt --plan"),
        (["my notes.csv"], "Try: clearhead train classify 'my notes.csv' --plan"),
        (["letters"], "letters is a folder.\nSay what to learn: clearhead train language-model letters"),
        (["clasify", "my notes.csv"], "'clasify' is not a task. Did you mean classify?"),
        (["notes.txt", "notes.txt"], "Say what to learn: clearhead train translate notes.txt notes.txt"),
        (["nosuch"], "There is no recipe 'nosuch'"),
        (["tiny.toml", "more.txt"], "A recipe names its own data, but 'more.txt' follows"),
        (["tiny.toml", "--model.deep", "3"], "model.deep is not a setting"),
        (["tiny.toml", "--model.d"], "--model.d has no value"),
        (["language-model", "nosuch.txt"], "nosuch.txt does not exist"),
        (["done"], "done already contains a run"),
    ],
)
def test_errors_say_what_to_do(words: list[str], message: str, recipe: str) -> None:
    Path("notes.txt").write_text("text\n")
    Path("my notes.csv").write_text("text,label\n")
    Path("letters").mkdir()
    Path("done").mkdir()
    Path("done/recipe.toml").write_text(Path(recipe).read_text())
    result = run(*words)
    assert isinstance(result.exception, ClearheadError), result.output
    assert message in str(result.exception)


@pytest.mark.parametrize("words", [[], ["classify"], ["--training.steps", "3"]])
def test_misuse_ends_with_2(words: list[str]) -> None:
    assert run(*words).exit_code == 2


def test_words_and_settings_are_told_apart() -> None:
    words, settings = split_arguments(["a.es", "--model.d", "8", "b.en", "--training.steps=3", "-"])
    assert words == ["a.es", "b.en", "-"]
    assert settings == {"model.d": "8", "training.steps": "3"}


def test_runs_are_named_after_recipes_and_files() -> None:
    assert name_of("language-model", ["/a/my book.v2.txt"]) == "my-book-language-model"
    assert name_of("translate", ["a.es", "a.en"]) == "a-translator"
    assert name_of("classify", ["builtin:reviews"]) == "reviews-classifier"
    assert name_of("classify", ["good=x/pos.txt"]) == "pos-classifier"
    assert name_of("language-model", ["-"]) == "text-language-model"
    for name in ("runs/a", "runs/a-2", "runs/a-4"):
        Path(name).mkdir(parents=True)
        (Path(name) / "recipe.toml").write_text("")
    assert default_folder("a", resume=False) == Path("runs/a-3")
    assert default_folder("a", resume=True) == Path("runs/a-4")
    assert default_folder("b", resume=True) == Path("runs/b")


def started(recipe: str, *settings: str) -> "subprocess.Popen[bytes]":
    """A long run in a process of its own, that has logged its first steps; it speaks into the file `err`."""
    words = ["train", recipe, "--training.steps", "100000", "--training.threads", "1", *settings]
    command = [*COMMAND, *words]
    with Path("err").open("w") as err, Path("out").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=os.environ)
    log = Path("runs/tiny/log.jsonl")
    while process.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.05)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.prove), signal.SIGTERM])
def test_a_stop_from_outside_leaves_a_checkpoint_and_says_how_to_go_on(number: int, recipe: str) -> None:
    process = started(recipe, "--training.evaluate_every=100000", "--training.checkpoint_every=100000")
    process.send_signal(number)
    assert process.wait(600) == 128 + number
    said = Path("err").read_text()
    assert "Resume with: clearhead train runs/tiny --resume" in said
    assert "Traceback" not in said
    (kept,) = Path("runs/tiny/checkpoints").iterdir()
    assert f"Stopped after step {int(kept.name.removeprefix('step-')):,} of 100,000" in said


def test_a_stop_after_the_last_step_is_told_as_one(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(writer: FolderWriter, plainly: Callable[[FolderWriter], None] = FolderWriter.finish) -> None:
        plainly(writer)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(FolderWriter, "finish", finish)
        stopped = run(recipe)
    assert stopped.exit_code == 130
    assert "Stopping once the models are written; interrupt again to stop immediately." in stopped.stderr
    assert "checkpoint" not in stopped.stderr
    assert stopped.stderr.endswith(
        "The model is trained but not evaluated yet.\nResume with: clearhead train runs/tiny --resume\n"
    )
    assert Path("runs/tiny/last").is_dir()
    assert not Path("runs/tiny/quality.json").exists()
    assert "The best model on the test data" in done("runs/tiny", "--resume").stdout


def test_a_damaged_checkpoint_is_named_on_stderr(
    recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done(recipe)
    (Path("runs/tiny/checkpoints/step-6") / "state-1-of-1.safetensors").write_bytes(b"")
    monkeypatch.setattr(logging.root, "handlers", [])  # those of pytest: a program starts with none
    code, _, said = runner(capsys, "train")("runs/tiny", "--resume")
    assert code == 0
    named = "runs/tiny/checkpoints/step-6 is damaged: state-1-of-1.safetensors does not match its checksum."
    assert f"{named} Trying the one before." in said


@pytest.mark.slow
def test_a_second_one_leaves_at_once_and_harms_nothing(recipe: str) -> None:
    """Evaluations that take their time keep the first one waiting."""
    process = started(recipe, "--training.evaluate_every=1", "--training.checkpoint_every=1")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert process.wait(600) == 130
    said = Path("err").read_text()
    assert "Resume with: clearhead train runs/tiny --resume" in said
    assert "Traceback" not in said
    for place in list_checkpoints(Path("runs/tiny/checkpoints")):
        check(place)


def test_runs_that_start_together_have_folders_of_their_own() -> None:
    with ExitStack() as first, ExitStack() as second:
        assert claim("a", None, first) == Path("runs/a")
        assert claim("a", None, second) == Path("runs/a-2")
        with pytest.raises(TrainingError, match="Another process is preparing a run in runs/a"):
            claim("a", Path("runs/a"), second)
    assert not Path("runs/a").exists()  # nothing was written there


def test_a_folder_that_cannot_be_created_is_said_at_once(recipe: str) -> None:
    result = run(recipe, "--out", "/proc/run")
    assert isinstance(result.exception, TrainingError)
    assert "/proc/run cannot be created" in str(result.exception)
    assert "Choose a writable folder with --out." in str(result.exception)


def test_hints_quote_paths(recipe: str) -> None:
    out = "runs/my run"
    assert f"clearhead explore '{out}'" in done(recipe, "--out", out).stdout
    assert f"clearhead train '{out}' --resume" in str(run(recipe, "--out", out).exception)


def test_a_finished_run_can_be_extended_exactly(recipe: str, caplog: pytest.LogCaptureFixture) -> None:
    """Killed within the extension and resumed, it ends with the bits of an extension that was never stopped."""
    for name in ("whole", "stopped"):
        done(recipe, "--out", name, "--training.checkpoint_every", "2")
    assert "Extend it: clearhead train whole --resume --training.steps 12" in done("whole", "--resume").stderr
    done("whole", "--resume", "--training.steps", "12")
    assert "extended at step 6 from 6 to 12 steps" in caplog.text
    assert "schedule of 12 steps" in caplog.text
    done("stopped", "--resume", "--training.steps", "12")
    shutil.rmtree(list_checkpoints(Path("stopped/checkpoints"))[-1])  # back to step 10
    done("stopped", "--resume")
    steps = [record.step for record in read_log(Path("whole/log.jsonl")).steps]
    assert steps == list(range(1, 13))
    assert RunConfig.read("whole/recipe.toml").training.steps == 12
    assert "from step 6: training.steps = 12 (was 6)" in Path("whole/recipe.toml").read_text()
    first, second = (
        next(Path(name, "last").glob("*.safetensors")).read_bytes() for name in ("whole", "stopped")
    )
    assert first == second
    refused = run("whole", "--resume", "--training.steps", "8").exception
    assert isinstance(refused, ClearheadError)
    assert "belongs to a run of 12 steps, which cannot become 8" in str(refused)


def test_an_unfinished_run_is_not_extended(recipe: str) -> None:
    done(recipe, "--out", "a", "--training.checkpoint_every", "2")
    shutil.rmtree(list_checkpoints(Path("a/checkpoints"))[-1])  # back to step 4
    refused = run("a", "--resume", "--training.steps", "12").exception
    assert isinstance(refused, ClearheadError)
    assert "A run can be extended once it has finished" in str(refused)
    assert "--training.init_from a/best" in str(refused)
