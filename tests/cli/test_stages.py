"""What a command is doing: a line for each stage where there is no terminal, one line in place where there is."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from clearhead.cli import stages as module
from clearhead.cli.commands import app
from clearhead.cli.stages import Stages, load_pytorch


def test_without_a_terminal_each_stage_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    with Stages("Reading", Console(file=out)) as stages:
        assert out.getvalue() == "Reading ...\n"  # at once
        stages.show("Reading", "5 examples")
        stages.show("Preparing", "train: 6 examples")
        stages.show("Preparing", "train: 7 examples")
        for seconds, count in ((1.9, 8), (2.1, 9), (1000.0, 10), (1003.0, 11)):
            monkeypatch.setattr(module, "monotonic", lambda now=stages.started + seconds: now)
            before = stages.started
            stages.show("Preparing", f"train: {count} examples")
            assert stages.started == before
        monkeypatch.undo()
    assert out.getvalue().splitlines() == [
        "Reading ...",
        "Preparing: train: 6 examples ...",
        "Preparing: train: 9 examples ...",
        "Preparing: train: 10 examples ...",
    ]


def test_on_a_terminal_the_line_is_redrawn() -> None:
    out = io.StringIO()
    with Stages("Reading", Console(file=out, force_terminal=True)) as stages:
        stages.show("Preparing", "train: 6 examples")
    assert "..." not in out.getvalue()


def test_the_first_line_of_train_comes_before_pytorch(tmp_path: Path) -> None:
    """A module named torch that waits stands in for a slow one."""
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    (tmp_path / "a.csv").write_text("text,label\ngood,1\nbad,0\n")
    command = [
        sys.executable,
        "-c",
        "from clearhead.cli.main import main; main()",
        "train",
        "classify",
        "a.csv",
    ]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    with subprocess.Popen(
        [*command, "--plan"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        started = time.monotonic()
        try:
            assert process.stderr.readline() == "Loading PyTorch ...\n"
            assert time.monotonic() - started < 30
        finally:
            process.kill()


def test_train_says_each_thing_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from clearhead.cli.commands import app

    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("text,label\n" + "".join(f"text {k},{k % 2}\n" for k in range(60)))
    words = [
        "train",
        "classify",
        "a.csv",
        "--training.steps",
        "2",
        "--training.threads",
        "1",
        "--model.d",
        "8",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    said = [line for line in result.stderr.splitlines() if line.endswith("...")]
    for stage in (
        "Loading PyTorch",
        "Reading the data",
        "Preparing the data",
        "Planning",
        "Training",
        "Evaluating",
    ):
        assert any(line.startswith(stage) for line in said), stage


def test_pytorch_is_loaded_behind_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[str] = []
    load_pytorch("Reading m")  # it is there already
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(module, "import_module", lambda name: loaded.append(name + capsys.readouterr().err))
    load_pytorch("Reading m")
    assert loaded == ["torchLoading PyTorch ...\n"]  # before it is loaded
    assert capsys.readouterr().err == "Reading m ...\n"


@pytest.mark.parametrize(
    "words",
    [
        ("generate", "m", "a"), ("translate", "m", "a"), ("classify", "m", "a"), ("embed", "m", "a"),
        ("chat", "m"), ("evaluate", "m"), ("check", "m"), ("explore", "m"),
        ("import", "m", "out"), ("export", "m", "out"),
    ],
)  # fmt: skip
def test_every_command_that_uses_a_model_says_so_first(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def load(then: str) -> None:
        said.append(then)
        raise SystemExit(7)

    name = {"import": "exchange", "export": "exchange"}.get(words[0], words[0])
    file = (
        f"clearhead.cli.{name}"
        if name in ("chat", "evaluate", "check", "explore", "exchange")
        else "clearhead.cli.use"
    )
    monkeypatch.setattr(sys.modules[file], "load_pytorch", load)
    assert CliRunner().invoke(app, list(words)).exit_code == 7
    assert said
    assert "m" in said[0]
