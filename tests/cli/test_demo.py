"""`clearhead demo` as a user meets it: with a run so short that it learns nothing, and with a longer one."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clearhead.api import load
from clearhead.cli.commands import app

SHORT = ("--data.count", "600", "--training.steps", "3", "--model.d", "16", "--data.validation", "0.05",
         "--data.test", "0.05")  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def demo(*words: str) -> Result:
    result = CliRunner().invoke(app, ["demo", *words])
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return result


@pytest.mark.slow
def test_the_demo_trains_measures_translates_and_draws_and_is_not_done_twice() -> None:
    first = demo(*SHORT)
    model = load("runs/demo/best")
    assert f"Tengo un coche.\n    {model.translate('Tengo un coche.')}" in first.stdout
    for part in ("exact_match", "Todavía no tengo hambre.", "decoder.", "Next:", "3 steps of"):
        assert part in first.stdout
    assert "<svg" in Path("runs/demo/report.html").read_text(encoding="utf-8")
    written = Path("runs/demo/best/model.safetensors").stat().st_mtime_ns

    again = demo("El coche es rojo.", "--json")
    facts = json.loads(again.stdout)
    assert facts["translations"]["El coche es rojo."] == model.translate("El coche es rojo.")
    assert list(facts["translations"])[:2] == ["Tengo un coche.", "Todavía no tengo hambre."]
    assert {"exact_match", "bleu", "chrf", "out"} <= facts.keys()
    assert "already contains a trained model" in again.stderr
    assert Path("runs/demo/best/model.safetensors").stat().st_mtime_ns == written


@pytest.mark.slow
@pytest.mark.prove
def test_a_short_demo_learns_to_translate() -> None:
    facts = json.loads(demo("--data.count", "40000", "--training.steps", "500", "--json").stdout)
    assert facts["translations"]["Tengo un coche."] == "I have a car."
    assert facts["exact_match"] > 0.5
