"""The card of a model folder: what it is, what it learned from, how good it is, how to use it."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from clearhead.model_folder import load
from clearhead.training.reporting.card import card_of, cell, code, fenced
from clearhead.training.reporting.sections import quality_section
from clearhead.training.run.run import Run
from tests.training.small import small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = small_run("classify", tmp_path_factory.mktemp("card"))
    list(run.train())
    run.evaluate()
    return run


def test_best_and_last_have_a_card_that_is_loaded_with_the_model(run: Run) -> None:
    best, last = (load(run.out / name).card for name in ("best", "last"))
    assert best == card_of(run.summary, "best")
    assert run.quality is not None
    assert f"| accuracy | {run.quality['accuracy']:.2%} |" in best
    assert "| accuracy |" not in last
    for card, record in ((best, run.history.best), (last, run.history.evaluations[-1])):
        assert record is not None
        assert f"Validation loss {record.validation_loss:.4f} after step {record.step}." in card


def test_it_holds_its_parts_and_the_recipe(run: Run) -> None:
    card = card_of(run.summary)
    titles = re.findall(r"^## (.+)$", card, flags=re.MULTILINE)
    assert titles == ["Use", "Quality", "Data", "Limits", "Settings"]
    assert card.startswith("# run\n\nA classifier: encoder, 1 block, d = 8, 2 heads, ")
    assert f"clearhead classify {run.out / 'best'} TEXT" in card
    recipe = re.search(r"```toml\n(.+?)```", card, flags=re.DOTALL)
    assert recipe is not None
    assert tomllib.loads(recipe[1])["training"]["steps"] == 6
    assert r"label \<up\>" in card
    assert r"label down\|&" in card


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("translate", "clearhead translate"),
        ("language-model", "clearhead generate"),
        ("masked-language-model", "training.init_from"),
    ],
)
def test_each_task_says_how_to_use_it(task: str, words: str, tmp_path: Path) -> None:
    card = card_of(small_run(task, tmp_path).summary)
    assert words in card
    assert "Not evaluated." in card


def test_texts_cannot_leave_their_place() -> None:
    assert code("a `b`\nc") == "a 'b' c"
    assert cell("a|b\n*c* <d>") == r"a\|b \*c\* \<d\>"
    assert fenced("x = '````'", "toml").startswith("`````toml\n")


def test_a_class_without_examples_is_named_beside_the_scores(run: Run) -> None:
    quality = {"split": "test", "accuracy": 1.0, "unmeasured": ["a|b", "<c>"]}
    summary = replace(run.summary, quality=quality)
    assert r"| unmeasured | a\|b, \<c\> | classes without an example in these data" in card_of(summary)
    assert "a|b, &lt;c&gt;" in str(quality_section(quality))
