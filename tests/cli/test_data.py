"""`clearhead data`: the report on stdout, progress on stderr, errors without a traceback."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clearhead.cli.commands import app
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.shards import splits
from clearhead.errors import ConfigError, DataError
from clearhead.model_folder import Bundle, save
from clearhead.models.build import build
from clearhead.text.tokenizers.tokenizer import Tokenizer


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    rows = ["the dog sleeps\tel perro duerme", "a cat\tun gato", "a cat\tun gato", "the fish\tel pez"]
    (tmp_path / "pairs.tsv").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "test.tsv").write_text("a cat\tun gato\n")
    path = tmp_path / "recipe.toml"
    path.write_text(
        'task = "translate"\n[data]\ntrain = "pairs.tsv"\nvalidation = 0\ntest = "test.tsv"\n'
        '[tokenizer]\nkind = "byte"\n[model]\nd = 32\nh = 4\n'
    )
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["data", *map(str, arguments)], catch_exceptions=True)


def test_the_table_shows_the_counts(recipe: Path) -> None:
    result = run(recipe)
    assert result.exit_code == 0, result.output
    lines = {
        line.split("│")[1].strip(): line.split("│")[2:-1]
        for line in result.stdout.splitlines()
        if "│" in line
    }
    counts = {name: [value.strip() for value in values] for name, values in lines.items()}
    assert counts["examples"] == ["4", "1"]
    assert counts["duplicates"] == ["1", "0"]
    assert counts["also in train"] == ["", "1"]
    assert counts["also in test"] == ["2", ""]
    assert "train, tokens of the source: 7 to 16" in result.stdout


def test_what_was_found_out_about_the_files_is_shown_once(recipe: Path) -> None:
    for name in ("pairs.csv", "test.csv"):
        rows = f"SOURCE;Target\r\nel niño;the boy of {name}\r\nla niña;the girl\r\n"
        (recipe.parent / name).write_bytes(rows.encode("latin-1"))
    recipe.write_text(recipe.read_text().replace(".tsv", ".csv"))
    result = run(recipe)
    assert result.exit_code == 0, result.output
    output = "".join(result.stdout.split())
    for name in ("pairs.csv", "test.csv"):
        assert output.count(f"{name}isreadasWindows-1252(data.encoding)") == 1
        assert output.count(f"{name}:columnsareseparatedby';'(data.delimiter)") == 1
    assert "Windows-1252" in json.loads(run(recipe, "--json").stdout)["train"]["guesses"][1]


def test_json_is_one_object_and_nothing_else(recipe: Path) -> None:
    result = run(recipe, "--json")
    report = json.loads(result.stdout)
    assert list(report) == ["train", "test"]
    assert report["train"]["examples"] == 4
    assert report["train"]["overlap"] == {"test": 2}
    for key in ("examples", "tokens", "unknown", "truncated", "dropped", "duplicates", "overlap"):
        assert key in report["test"]


def test_settings_are_overridden_by_their_own_names(recipe: Path) -> None:
    result = run(recipe, "--json", "--model.context", "12", "--data.too_long=truncate")
    assert json.loads(result.stdout)["train"]["truncated"] == 1
    result = run(recipe, "--json", "--model.context", "12")
    assert json.loads(result.stdout)["train"]["dropped"] == 1


def test_verify_finds_a_change_in_what_was_prepared(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(recipe, "--verify").exit_code == 0
    monkeypatch.setattr(splits, "VERIFIED_BYTES", 10)
    for file in recipe.parent.glob("cache/shards/*/*.ids.npy"):
        file.write_bytes(file.read_bytes()[:-1] + b"\1")
    assert run(recipe).exit_code == 0
    result = run(recipe, "--verify")
    assert isinstance(result.exception, DataError)
    assert "has changed since it was written" in str(result.exception)


def test_errors_are_of_our_family(recipe: Path) -> None:
    result = run(recipe, "--model.deep", "3")
    assert isinstance(result.exception, ConfigError)
    (recipe.parent / "pairs.tsv").write_text("no tab\n")
    result = run(recipe)
    assert isinstance(result.exception, DataError)
    assert "line 1" in str(result.exception)


def test_the_tokenizer_of_a_model_to_start_from_counts(recipe: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["the dog a cat"], TokenizerConfig(kind="word", minimum_frequency=1))
    sizes = {"shape": "encoder-decoder", "vocabulary": tokenizer.size, "d": 8, "h": 2}
    save(tmp_path / "model", Bundle(build(ModelConfig.model_validate(sizes)), tokenizer))
    result = run(recipe, "--training.init_from", tmp_path / "model", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["train"]["unknown"] > 8  # every word of Spanish, and two of English
    assert json.loads(run(recipe, "--json").stdout)["train"]["unknown"] == 0
    shown = run(recipe, "--training.init_from", tmp_path / "model").stdout
    assert f"thetokenizerof{tmp_path / 'model'}," in "".join(shown.split())  # wherever its lines are broken
