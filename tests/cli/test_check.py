"""`clearhead check`: a line a law, an exit code that a script can trust, one object with `--json`."""

import json
import sys
from pathlib import Path

import pytest
import torch

from clearhead import checkpoint
from clearhead.cli.main import main
from tests.decoding.tiny import random_model

LAWS = ["batched = single", "captured = fast", "attention rows sum to 1", "saved = loaded"]


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of the command; typer leaves with 0 when nothing is wrong."""
    monkeypatch.setattr(sys, "argv", ["clearhead", "check", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.mark.parametrize("is_sound", [True, False])
def test_the_exit_code_is_the_verdict(
    is_sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = random_model("encoder", "word", head="classifier", classes=3)
    with torch.no_grad():
        model.module.get_parameter("head.out.weight")[0, 0] = 0.0 if is_sound else torch.nan
    folder = str(tmp_path / "model")
    checkpoint.save(folder, model)
    assert run(monkeypatch, folder) == (0 if is_sound else 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line[8:].split("  ")[0] for line in lines] == LAWS
    assert all(line.startswith("holds") for line in lines) is is_sound
    assert run(monkeypatch, folder, "--json") == (0 if is_sound else 1)
    found = json.loads(capsys.readouterr().out)
    assert found["holds"] is is_sound
    assert [law["law"] for law in found["laws"]] == LAWS


def test_a_folder_that_is_none_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, str(tmp_path / "nothing")) == 1
    assert capsys.readouterr().err.startswith(
        f"error: The model folder {tmp_path / 'nothing'} does not exist."
    )
