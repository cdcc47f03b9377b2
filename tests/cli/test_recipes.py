"""`clearhead recipes`: the list, one recipe, JSON, and an unknown name."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clearhead.cli.commands import app
from clearhead.config import run as runs
from clearhead.errors import ConfigError


@pytest.fixture(autouse=True)
def _two_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-translator.toml").write_text('# From a to b.\n# More.\ntask = "translate"\n')
    (tmp_path / "b-model.toml").write_text('task = "language-model"\n')
    monkeypatch.setattr(runs, "RECIPES", tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["recipes", *words])


def test_the_list_has_a_line_for_each() -> None:
    lines = run().stdout.splitlines()
    assert lines[0].split() == ["a-translator", "translate", "From", "a", "to", "b."]
    assert lines[1].split() == ["b-model", "language-model"]
    listed = json.loads(run("--json").stdout)["recipes"]
    assert listed[0] == {"name": "a-translator", "task": "translate", "description": "From a to b."}


def test_one_is_printed_as_it_is() -> None:
    assert run("a-translator").stdout == '# From a to b.\n# More.\ntask = "translate"\n'
    facts = json.loads(run("a-translator", "--json").stdout)
    assert tomllib.loads(facts["text"]) == {"task": "translate"}


def test_an_unknown_name_gives_the_nearest() -> None:
    error = run("a-translater").exception
    assert isinstance(error, ConfigError)
    assert "Did you mean a-translator?" in str(error)


def test_every_shipped_recipe_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for recipe in json.loads(run("--json").stdout)["recipes"]:
        assert recipe["description"], recipe["name"]
