"""`clearhead quantize` by command: a smaller folder that works like the first, and what it refuses."""

import json
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from clearhead import model_folder
from clearhead.cli import main
from tests.decoding.tiny import language_model, translator

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in a folder with a model: exit code, standard output, standard error."""
    model_folder.save(tmp_path / "model", language_model("word"))
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clearhead", *words])
        with pytest.raises(SystemExit) as stop:
            main.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(stop.value.code or 0), out, err

    return command


def test_a_quantised_model_is_smaller_and_stays_as_it_is(run: Run) -> None:
    code, out, err = run("quantize", "model", "small", "--json")
    assert code == 0, err
    assert "Writing texts" in err
    before, after = json.loads(out)["bytes"]
    assert after < before
    words = ("the cat", "--temperature", "0", "--max-tokens", "5", "--json")
    assert run("generate", "small", *words)[1] == run("generate", "small", *words, "--int8")[1]


def test_a_translator_says_what_int8_says(run: Run, tmp_path: Path) -> None:
    model_folder.save(tmp_path / "translator", translator("word"))
    run("quantize", "translator", "small")
    assert run("translate", "small", "the cat")[1] == run("translate", "translator", "the cat", "--int8")[1]


def test_an_existing_folder_is_replaced_if_asked(run: Run) -> None:
    run("quantize", "model", "small")
    assert "MB of weights" in run("quantize", "model", "small", "--overwrite")[1]


def test_what_is_rounded_or_exists_is_refused(run: Run) -> None:
    run("quantize", "model", "small")
    code, _, err = run("quantize", "small", "smaller")
    assert (code, "already has int8 weights" in err) == (1, True)
    code, _, err = run("quantize", "model", "small")
    assert (code, "already exists" in err) == (1, True)


def test_the_model_itself_and_one_with_nan_are_refused(run: Run, tmp_path: Path) -> None:
    """Weights that are overwritten could not be restored."""
    kept = (tmp_path / "model" / model_folder.WEIGHTS).read_bytes()
    code, _, err = run("quantize", "model", "model", "--overwrite")
    assert (code, "is the model itself" in err) == (1, True)
    assert (tmp_path / "model" / model_folder.WEIGHTS).read_bytes() == kept
    broken = deepcopy(language_model("word"))
    next(broken.module.parameters()).data[0, 0] = float("nan")
    model_folder.save(tmp_path / "broken", broken)
    code, _, err = run("quantize", "broken", "small")
    assert (code, "contain NaN" in err, (tmp_path / "small").exists()) == (1, True, False)


def test_the_next_command_names_the_data(run: Run, tmp_path: Path) -> None:
    """The recipe of its run, if the model is in one."""
    assert "clearhead evaluate small --data FILE" in run("quantize", "model", "small")[1]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").touch()
    model_folder.save(tmp_path / "run" / "best", language_model("word"))
    assert "clearhead evaluate other --recipe run/recipe.toml" in run("quantize", "run/best", "other")[1]
