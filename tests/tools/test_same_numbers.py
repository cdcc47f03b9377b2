"""One changed bit is reported; what is no number, such as a file's metadata, is not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tools import same_numbers
from tools.result_hashes import hash_losses, hash_parts, hash_tensors, hash_values, hash_weights
from tools.same_numbers import main, report

W = torch.arange(6.0).view(2, 3)


def test_one_bit_a_name_a_shape_and_a_type_change_the_hash_of_tensors() -> None:
    flipped = W.clone()
    flipped.view(torch.int32)[1, 2] ^= 1
    others = [{"W": flipped}, {"V": W}, {"W": W.view(3, 2)}, {"W": W.view(torch.int32)}, {"W": W, "b": W[0]}]
    assert len({hash_tensors({"W": W}), *map(hash_tensors, others)}) == 1 + len(others)


def test_tensors_are_hashed_in_any_order_and_layout() -> None:
    expected = hash_tensors({"W": W, "b": W[0], "s": torch.tensor(0.5)})
    assert hash_tensors({"s": torch.tensor(0.5), "b": W[0].clone(), "W": W.T.contiguous().T}) == expected


def test_the_hash_of_weights_does_not_depend_on_the_metadata_of_their_file(tmp_path: Path) -> None:
    for name, metadata in (("a", {"format": "pt"}), ("b", {"format": "pt", "version": "2"})):
        (tmp_path / name).mkdir()
        save_file({"W": W}, tmp_path / name / "model.safetensors", metadata)
    contents = {path.read_bytes() for path in tmp_path.glob("*/model.safetensors")}
    assert len(contents) == 2
    assert hash_weights(tmp_path / "a") == hash_weights(tmp_path / "b") == hash_tensors({"W": W})


def test_the_last_bit_of_a_float_counts_and_the_order_of_keys_does_not() -> None:
    assert hash_values(0.1 + 0.2) != hash_values(0.3)
    assert hash_values({"a": 1, "b": 2}) == hash_values({"b": 2, "a": 1})
    assert hash_parts(b"ab", b"c") != hash_parts(b"a", b"bc")


def test_losses_count_and_timings_do_not(tmp_path: Path) -> None:
    def logged(**values: float) -> str:
        (tmp_path / "log.jsonl").write_text(
            json.dumps({"kind": "step", "step": 5, "loss": 0.5} | values) + "\n"
        )
        return hash_losses(tmp_path)

    assert logged(seconds=1.0) == logged(seconds=2.0, new=3.0)
    assert logged(loss=0.5) != logged(loss=0.25)


def test_a_difference_is_named_and_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = (
        {"a: weights": "0" * 16, "a: logits": "1" * 16},
        {"a: weights": "0" * 16, "a: logits": "2" * 16},
    )
    assert report({"this tree": ours, "HEAD": ours}) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 2 the same"
    assert report({"this tree": ours, "HEAD": theirs}) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-1] for line in lines[1:3]] == ["same", "DIFFERENT"]
    assert lines[3] == ["1", "of", "2", "the", "same"]
    assert report({"this tree": ours, "HEAD": {}}, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["different"] == ["a: weights", "a: logits"]


def test_an_item_that_one_tree_lacks_is_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert report({"this tree": {"a": "0" * 16}, "HEAD": {"a": "0" * 16, "b": "1" * 16}}) == 1
    assert "missing" in capsys.readouterr().out


def test_one_tree_is_shown_without_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert report({"this tree": {"a": "0" * 16}}) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["a  " + "0" * 16]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one number, committed; measuring a tree prints the number."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "number.py").write_text("NUMBER = 1\n")
    (tmp_path / "pyproject.toml").write_text("")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "One"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    script = "import json, number; print(json.dumps({'number': str(1 / number.NUMBER)}))"
    monkeypatch.setattr(same_numbers, "ROOT", tmp_path)
    monkeypatch.setattr(same_numbers, "commands", lambda tree: [[sys.executable, "-B", "-c", script]])
    return tmp_path


def test_each_tree_runs_its_own_code(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--against", "HEAD"]) == 0
    assert "1 of 1 the same" in capsys.readouterr().out
    (repository / "src" / "number.py").write_text("NUMBER = 2\n")
    assert main(["--against", "HEAD", "--json"]) == 1
    trees = json.loads(capsys.readouterr().out)["trees"]
    assert trees == {"this tree": {"number": "0.5"}, "HEAD": {"number": "1.0"}}
    assert main([]) == 0


def test_a_failure_in_a_tree_is_shown(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--against", "nothing"]) == 1
    assert "error: git archive nothing" in capsys.readouterr().err
    (repository / "src" / "number.py").write_text("NUMBER = 0\n")
    assert main([]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
