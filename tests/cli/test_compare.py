"""`clearhead compare` as a user meets it: recipes trained side by side, finished runs, and what cannot be compared."""

import json
import re
import shutil
from pathlib import Path

import pytest

from clearhead.training.run.compare import names_of
from tests.commands import Run, runner

RECIPE = """
task = "{task}"
[data]
train = "{data}"
validation = 0.1
test = 0.3
documents = "line"
[tokenizer]
kind = "{kind}"
minimum_frequency = 1
[model]
d = 8
h = 2
decoder_blocks = 1
encoder_blocks = 1
context = 32
[training]
steps = {steps}
batch_tokens = 256
samples = 0
"""


def write(folder: Path, name: str, **settings: object) -> str:
    """A small recipe."""
    values = {"task": "language-model", "data": "text.txt", "kind": "word", "steps": 4} | settings
    text = RECIPE.format(**values)
    if values["task"] == "classify":
        text = text.replace('documents = "line"\n', "").replace("decoder_blocks = 1\n", "")
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return f"{name}.toml"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs `clearhead compare` in a folder with data."""
    monkeypatch.chdir(tmp_path)
    texts = [
        f"the {who} sees {k} {what}"
        for who in ("cat", "dog")
        for k in range(20)
        for what in ("birds", "mice")
    ]
    (tmp_path / "text.txt").write_text("\n".join(texts), encoding="utf-8")
    labelled = [f"{text}\t{'cats' if 'cat' in text else 'dogs'}" for text in texts]
    (tmp_path / "labels.tsv").write_text("\n".join(labelled), encoding="utf-8")
    return runner(capsys, "compare")


@pytest.mark.slow
def test_recipes_are_trained_compared_and_not_trained_again(run: Run, tmp_path: Path) -> None:
    """Models of words and of bytes, by bits per byte; a second call trains only what is missing."""
    words, bytes_ = write(tmp_path, "words"), write(tmp_path, "bytes", kind="byte")
    code, out, err = run(words, bytes_, "--tokens", 1024, "--out", "both", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert [row["name"] for row in result["runs"]] == ["words", "bytes"]
    first, second = result["runs"]
    assert first["score"] == second["score"] == "bits_per_byte"
    assert first["interval"][0] <= first["value"] <= first["interval"][1]
    assert (first["p_value"], second["against"]) == (None, "words")
    assert 0 < second["p_value"] <= 1
    assert all(row["parameters"] and row["seconds"] and row["memory_bytes"] for row in result["runs"])
    assert all(row["decoding_per_second"] > 0 for row in result["runs"])
    assert "steps = 4\n" in (tmp_path / "both/words/recipe.toml").read_text()

    page = (tmp_path / "both/compare.html").read_text(encoding="utf-8")
    assert "words or bytes?" in page
    assert not re.search(r"<script|src=|href=", page)

    weights = (tmp_path / "both/words/best/model.safetensors").stat().st_mtime_ns
    shutil.rmtree(tmp_path / "both/bytes")
    code, out, err = run(words, bytes_, "--tokens", 1024, "--out", "both")
    assert code == 0
    assert "2 of 2: both/bytes" in err
    assert "1 of 2" not in err
    assert (tmp_path / "both/words/best/model.safetensors").stat().st_mtime_ns == weights
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:4] == ["run", "bits", "per", "byte"]
    assert [line[0] for line in lines[1:3]] == ["words", "bytes"]

    code, _, err = run(words, bytes_, "--tokens", 2048, "--out", "both")
    assert code == 1
    assert "both contains another comparison" in err

    code, out, _ = run("both/words", "both/bytes", "--json")
    assert code == 0
    again = json.loads(out)["runs"]
    assert [row["value"] for row in again] == [row["value"] for row in result["runs"]]
    assert [row["p_value"] for row in again] == [row["p_value"] for row in result["runs"]]


def test_a_run_that_was_stopped_is_resumed(run: Run, tmp_path: Path) -> None:
    """What a kill leaves: a run with a checkpoint and no scores."""
    recipes = [write(tmp_path, "a"), write(tmp_path, "b", kind="byte")]
    assert run(*recipes, "--out", "both")[0] == 0
    weights = (tmp_path / "both/a/best/model.safetensors").read_bytes()
    (tmp_path / "both/a/quality.json").unlink()
    code, _, err = run(*recipes, "--out", "both")
    assert code == 0, err
    assert "1 of 2: both/a" in err
    assert (tmp_path / "both/a/quality.json").exists()
    assert (tmp_path / "both/a/best/model.safetensors").read_bytes() == weights


@pytest.mark.slow
def test_seeds_give_means_and_spread(run: Run, tmp_path: Path) -> None:
    recipes = [write(tmp_path, name, task="classify", data="labels.tsv", kind=kind) for name, kind in
               (("a", "word"), ("b", "byte"))]  # fmt: skip
    code, out, err = run(*recipes, "--seeds", 2, "--out", "both", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert [(row["name"], row["seed"], row["against"]) for row in result["runs"]] == [
        *(("a", 1, None), ("a-seed-2", 2, None), ("b", 1, "a"), ("b-seed-2", 2, "a-seed-2"))
    ]
    assert result["runs"][0]["score"] == "accuracy"
    assert result["groups"]["a"]["runs"] == 2
    assert result["groups"]["a"]["deviation"] is not None


def test_what_cannot_be_compared_is_explained_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    one, other = write(tmp_path, "one"), write(tmp_path, "other", data="labels.tsv")
    task = write(tmp_path, "task", task="masked-language-model")
    before = sorted(path.name for path in tmp_path.iterdir())
    for words, message in (
        ([one], "compare needs two or more"),
        ([one, task], "Only recipes of one task can be compared"),
        ([one, other], "learn from different data. In other.toml: data.train = "),
        ([one, "missing.toml"], "There is no recipe 'missing.toml'"),
        ([one, one, "--tokens", 5, "--minutes", 1], "exclude each other"),
        ([one, "."], "Recipes and run folders are mixed"),
        ([".", "."], "is not a run folder"),
        ([".", ".", "--seeds", 2], "are for recipes"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (1, ""), words
        assert message in err
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    assert "full is not an empty folder" in run(one, one, "--out", "full")[2]


def test_runs_on_other_test_data_are_refused(run: Run, tmp_path: Path) -> None:
    recipe = write(tmp_path, "a")
    assert run(recipe, recipe, "--out", "both")[0] == 0
    place = tmp_path / "both/a-2/recipe.toml"
    place.write_text(place.read_text().replace("test = 0.3", "test = 0.2"), encoding="utf-8")
    code, _, err = run("both/a", "both/a-2")
    assert code == 1
    assert "have different test data" in err
    shutil.rmtree(tmp_path / "both/a-2/best")
    assert "the run has not finished" in run("both/a", "both/a-2")[2]


def test_recipes_of_one_name_get_numbers() -> None:
    assert names_of(["a.toml", "x/a.toml", "b.toml", "a.toml"]) == ["a", "a-2", "b", "a-3"]
