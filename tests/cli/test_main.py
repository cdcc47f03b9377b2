"""The command line as a user meets it: its help, its version, its errors and its exit codes."""

import subprocess
import sys

import pytest
import typer

import clearhead
from clearhead.cli import commands, main
from clearhead.config.overrides import parse_overrides
from clearhead.errors import ConfigError, DataError
from tests.cli.said import without_stages
from tests.commands import COMMAND


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as typed in a terminal."""
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"clearhead {clearhead.__version__}\n", "")


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in commands.COMMANDS:
        assert command.__name__ in done.stdout


@pytest.mark.parametrize("words", [["--help"], ["demo", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = f"""
import atexit, sys
from clearhead.cli.main import main
heavy = ("torch", "numpy", "matplotlib", "tokenizers", "starlette", "numba")
atexit.register(lambda: print("loaded:", [name for name in heavy if name in sys.modules]))
sys.argv = ["clearhead", *{words}]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "loaded: []", done.stderr


def test_every_option_has_dashes_and_takes_underscores() -> None:
    group = typer.main.get_command(commands.app)
    assert isinstance(group, typer.core.TyperGroup)
    options = {
        option
        for command in group.commands.values()
        for parameter in command.params
        for option in parameter.opts
    }
    assert {"--max-tokens", "--on-error", "--no-open"} <= options
    assert not [option for option in options if option.startswith("--") and "_" in option]
    for option in ("--max-tokens", "--max_tokens"):
        assert "decoding.max_tokens = 0 is invalid" in run("generate", "model", "text", option, "0").stderr


def test_settings_take_dashes_too() -> None:
    assert parse_overrides(["--training.learning-rate", "3e-4", "--data.on_error=skip"]) == {
        "training.learning_rate": "3e-4",
        "data.on_error": "skip",
    }


@pytest.mark.parametrize("words", [["dream"], ["recipes", "--nonsense"]])
def test_misuse_ends_with_2(words: list[str]) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert words[-1] in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_of_ours_is_shown_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ConfigError("model.d = 250 does not split into model.h = 8 heads.\nUse 248 or 256.")

    monkeypatch.setattr(commands, "app", fail)
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 1
    shown = capsys.readouterr()
    assert shown.err == "error: model.d = 250 does not split into model.h = 8 heads.\nUse 248 or 256.\n"
    assert shown.out == ""


def test_an_error_inside_a_command_reaches_main() -> None:
    """A real command raises through the whole of typer, and still leaves as one line."""
    code = """
from clearhead.cli import commands, main
from clearhead.errors import DataError
def fail() -> None: raise DataError("train.de has 29000 lines but train.en has 28999.")
commands.app.command()(fail)
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code, "fail"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: train.de has 29000 lines but train.en has 28999.\n")


def test_what_the_system_refuses_is_shown_without_a_traceback() -> None:
    name = "x" * 5000
    done = run("check", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert without_stages(done.stderr) == f"error: {name}/config.json: File name too long.\n"


def test_another_error_is_a_bug_and_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "app", fail)
    with pytest.raises(ZeroDivisionError):
        main.main()
    assert not issubclass(ZeroDivisionError, DataError)


def test_ctrl_c_while_the_commands_are_read_leaves_no_traceback() -> None:
    """They are read within `main`, so that nothing of ours that takes a moment comes before it."""
    code = """
import sys
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "typer": raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
from clearhead.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nStopped.\n")
