"""`clearhead import`, `export` and `check --against` as a user meets them."""

import json
import sys
from pathlib import Path

import pytest

from clearhead import checkpoint
from clearhead.checkpoint import Checkpoint
from clearhead.cli.main import main
from clearhead.config.model import ModelConfig
from clearhead.models.build import build
from tests.exchange.folders import change, written
from tests.exchange.tiny import pair


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Runs a command; its exit code, output and errors."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


def test_in_and_out_and_compared(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    theirs, ours, out = written("gpt2", tmp_path / "theirs"), tmp_path / "ours", tmp_path / "out"
    code, printed, _ = run("import", theirs, ours)
    assert code == 0
    assert printed.splitlines() == [
        f"{theirs}: family gpt2, head language, 36,660 weights",
        "tokenizer: none that can be read here",
        f"{ours} is a model folder. Compare: clearhead check {ours} --against {theirs}",
    ]
    code, printed, _ = run("check", ours, "--against", theirs)
    assert code == 0
    assert printed.splitlines()[-1].startswith("holds   same as reference          largest difference")
    code, printed, _ = run("export", ours, out)
    assert (code, printed) == (0, f"{out}: family gpt2, GPT2LMHeadModel\n")
    code, printed, _ = run("import", out, tmp_path / "again", "--json")
    assert code == 0
    assert json.loads(printed) == {
        "family": "gpt2",
        "shape": "decoder",
        "head": "language",
        "weights": 36660,
        "tokens": None,
        "out": str(tmp_path / "again"),
    }
    assert checkpoint.load(tmp_path / "again").config == pair("gpt2").ours.config


def test_a_difference_is_a_failure(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    theirs, ours = written("gpt2", tmp_path / "theirs"), tmp_path / "ours"
    run("import", theirs, ours)
    change(ours / "config.json", norm_epsilon=0.5)
    code, printed, _ = run("check", ours, "--against", theirs, "--json")
    assert code == 1
    last = json.loads(printed)["laws"][-1]
    assert (last["law"], last["holds"]) == ("same as reference", False)
    assert last["difference"] > last["limit"]


def test_what_was_added_is_told(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    checkpoint.save(tmp_path / "ours", Checkpoint(build(ModelConfig(d=8, h=2, decoder_blocks=1))))
    code, printed, _ = run("export", tmp_path / "ours", tmp_path / "out")
    assert code == 0
    assert "for what only llama has: feedforward, feedforward_bias" in printed
    code, printed, _ = run("export", tmp_path / "ours", tmp_path / "more", "--json")
    assert json.loads(printed)["added"] == ["feedforward", "feedforward_bias"]


def test_errors_are_sentences(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, printed, errors = run("import", tmp_path / "nothing", tmp_path / "out")
    assert (code, printed) == (1, "")
    assert errors.startswith(f"error: {tmp_path / 'nothing'} does not exist.")
    code, _, errors = run(
        "import", written("gpt2", tmp_path / "theirs"), tmp_path / "out", "--head", "langage"
    )
    assert code == 1
    assert "--head langage is not known. Did you mean language?" in errors
    code, _, errors = run("export", tmp_path / "theirs", tmp_path / "out")
    assert code == 1
    assert "is not a clearhead config" in errors
    assert run("import")[0] == 2
