"""`clearhead check`: a line a law, an exit code that a script can trust, one object with `--json`."""

import json
from pathlib import Path

import pytest
import torch

from clearhead import model_folder
from tests.commands import exit_code
from tests.decoding.tiny import random_model

LAWS = [
    "files as written",
    "batched = single",
    "captured = fast",
    "attention rows sum to 1",
    "saved = loaded",
]


@pytest.mark.parametrize("is_sound", [True, False])
def test_the_exit_code_is_the_verdict(
    is_sound: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = random_model("encoder", "word", head="classifier", classes=3)
    with torch.no_grad():
        model.module.get_parameter("head.out.weight")[0, 0] = 0.0 if is_sound else torch.nan
    folder = str(tmp_path / "model")
    model_folder.save(folder, model)
    assert exit_code("check", folder) == (0 if is_sound else 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line[8:].split("  ")[0] for line in lines] == LAWS
    assert all(line.startswith("holds") for line in lines) is is_sound
    assert exit_code("check", folder, "--json") == (0 if is_sound else 1)
    found = json.loads(capsys.readouterr().out)
    assert found["holds"] is is_sound
    assert [law["law"] for law in found["laws"]] == LAWS


def test_a_folder_that_is_none_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("check", str(tmp_path / "nothing")) == 1
    assert capsys.readouterr().err.startswith(
        f"error: The model folder {tmp_path / 'nothing'} does not exist."
    )


def damaged(folder: Path) -> str:
    """A model with a flipped bit in its weights, which every other law accepts."""
    model_folder.save(folder, random_model("encoder", "word", head="classifier", classes=3))
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-4] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    return str(folder)


def test_a_flipped_bit_is_found_and_can_be_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damaged(tmp_path / "model")
    assert exit_code("check", folder) == 1
    told = capsys.readouterr()
    first, *others = told.out.splitlines()
    assert first.startswith("FAILS   files as written")
    assert "model.safetensors is not as it was written" in first
    assert all(line.startswith("holds") for line in others)
    assert f"clearhead check {folder} --accept" in told.err
    assert exit_code("check", folder, "--accept") == 0
    assert exit_code("check", folder) == 0


def test_a_folder_without_checksums_is_unknown_but_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damaged(tmp_path / "model")
    (tmp_path / "model" / "checksums.json").unlink()
    assert exit_code("check", folder) == 0
    assert capsys.readouterr().out.startswith("unknown files as written           no checksums.json")
    assert exit_code("check", folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["holds"], found["laws"][0]["holds"]) == (True, None)
