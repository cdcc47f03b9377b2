"""`clearhead evaluate` by command: which examples it measures on, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead import model_folder
from clearhead.config.data import DataConfig
from clearhead.config.decoding import DecodingConfig
from clearhead.text.sources.read import read_split
from clearhead.training.evaluation.evaluate import Evaluation
from tests.commands import Run, runner
from tests.decoding.tiny import language_model, translator

OPTIONS = ["--max_tokens", "3", "--beam", "1"]
WORDS = ("cat", "dog", "ball", "table", "boy", "friend", "he", "she")
PAIRS = [f"the {one} sat\tthe {other} is old" for one in WORDS for other in WORDS]
SHARES = {"validation": 0.3, "test": 0.2}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Evaluates in a folder with models and data."""
    monkeypatch.chdir(tmp_path)
    model_folder.save("run/best", translator("word"))
    model_folder.save("writes", language_model("byte"))
    Path("pairs.tsv").write_text("".join(f"{pair}\n" for pair in PAIRS), encoding="utf-8")
    Path("recipes").mkdir()
    for name, shares in (("whole", SHARES), ("short", {"validation": 0.3})):
        table = "".join(f"{key} = {value}\n" for key, value in shares.items())
        Path(f"recipes/{name}.toml").write_text(
            f'task = "translate"\n[data]\ntrain = "{tmp_path / "pairs.tsv"}"\n{table}'
        )
    return runner(capsys, "evaluate")


def numbers(result: tuple[int, str, str]) -> dict[str, Any]:
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def expected(split: str) -> dict[str, Any]:
    """What Python gives for a split of the recipe."""
    reader = read_split(DataConfig.model_validate({"train": "pairs.tsv", **SHARES}), "pair", split)  # type: ignore[arg-type]
    assert reader is not None
    evaluation = Evaluation(model_folder.load("run/best"))
    examples = list(reader)
    evaluation.run(examples)
    return {"examples": len(examples), "loss": evaluation.nats / evaluation.predictions}


@pytest.mark.parametrize("model", ["run", "run/best"])
def test_a_recipe_gives_each_of_its_parts(run: Run, model: str) -> None:
    found = {}
    for split in ("train", "validation", "test"):
        result = numbers(run(model, "--recipe", "recipes/whole.toml", "--split", split, "--json", *OPTIONS))
        assert {key: result[key] for key in ("examples", "loss")} == pytest.approx(expected(split))
        found[split] = result["examples"]
    assert min(found.values()) > 0
    assert len(set(found.values())) == 3
    by_default = numbers(run(model, "--recipe", "recipes/whole.toml", "--json", *OPTIONS))
    assert by_default["examples"] == found["test"]


def test_a_model_in_a_run_knows_its_own_recipe(run: Run) -> None:
    named = numbers(run("run", "--recipe", "recipes/whole.toml", "--split", "validation", "--json", *OPTIONS))
    Path("recipes/whole.toml").rename("run/recipe.toml")
    for model in ("run", "run/best"):
        assert numbers(run(model, "--split", "validation", "--json", *OPTIONS)) == named


def test_without_test_data_the_validation_data_is_used_with_a_word(run: Run) -> None:
    code, out, err = run("run", "--recipe", "recipes/short.toml", "--json", *OPTIONS)
    assert code == 0
    assert err == (
        "recipes/short.toml has no test data: evaluating on its validation data, by which the best model was "
        "chosen.\nEvaluating ...\n"
    )
    assert json.loads(out)["split"] == "validation"
    stated = run("run", "--recipe", "recipes/short.toml", "--split", "validation", "--json", *OPTIONS)
    assert (stated[0], stated[1], stated[2]) == (0, out, "Evaluating ...\n")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--columns", "source,target"],
        ["--data.columns", "source,target"],
        ["--columns", "source", "--columns", "target"],
        ["--columns", '["source", "target"]'],
        ["--columns", "3,1"],
        ["--columns", "3", "--columns", "1"],
    ],
    ids=str,
)
def test_a_file_is_read_with_the_columns_of_the_run(run: Run, words: list[str]) -> None:
    rows = [pair.split("\t") for pair in PAIRS[:5]]
    table = "target,note,source\n" + "".join(f"{target},x,{source}\n" for source, target in rows)
    Path("other.csv").write_text(table, encoding="utf-8")
    Path("few.tsv").write_text("".join(f"{pair}\n" for pair in PAIRS[:5]), encoding="utf-8")
    expected = numbers(run("run", "--data", "few.tsv", "--json", *OPTIONS))
    recipe = Path("recipes/whole.toml").read_text() + 'columns = ["source", "target"]\nheader = true\n'
    Path("run/recipe.toml").write_text(recipe)
    assert numbers(run("run", "--data", "other.csv", "--json", *words, *OPTIONS)) == expected
    corpus = ["--data", "builtin:spanish", "--limit", "2", "--json"]
    assert numbers(run("run", *corpus, *OPTIONS))["examples"] == 2  # which has no columns


def test_the_decoding_of_the_recipe_is_used_under_the_options(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = (
        Path("recipes/whole.toml").read_text()
        + "[decoding]\nbeam = 2\nmax_tokens = 3\nlength_penalty = 0.5\n"
    )
    Path("run/recipe.toml").write_text(recipe)
    used = []

    def note(self: Evaluation, examples: Any, settings: DecodingConfig, *more: Any) -> dict[str, Any]:
        used.append(settings)
        return {"loss": 1.0}

    monkeypatch.setattr(Evaluation, "run", note)
    for words in ([], ["--max_tokens", "4"], ["--data", "pairs.tsv"], ["--recipe", "recipes/whole.toml"]):
        assert run("run", *words, "--json")[0] == 0
    own = DecodingConfig(beam=2, max_tokens=3, length_penalty=0.5)
    assert used == [own, own.replace(max_tokens=4), own, DecodingConfig()]


def test_lines_that_cannot_be_read_are_skipped_where_asked_for(run: Run) -> None:
    Path("broken.tsv").write_text("the cat\tthe dog\nhalf\nhe\tshe\n", encoding="utf-8")
    code, out, err = run("run", "--data", "broken.tsv", *OPTIONS)
    assert (code, out) == (1, "")
    assert "broken.tsv, line 2" in err
    words = ["--data", "broken.tsv", "--on_error", "skip", "--json", *OPTIONS]
    code, out, err = run("run", *words)
    assert (code, json.loads(out)["examples"]) == (0, 2)
    assert "\n1 line was skipped: broken.tsv, line 2 has 1 column, but line 1 has 2" in err
    assert (
        "it should be 'stop' or 'skip'" in run("run", "--data", "broken.tsv", "--on_error", "go", *OPTIONS)[2]
    )


@pytest.mark.parametrize(
    "words", [["--beam", "3"], ["--bleu", "13a"], ["--lowercase"], ["--temperature", "0.5"]], ids=str
)
def test_options_about_translations_are_refused_where_there_are_none(run: Run, words: list[str]) -> None:
    code, out, err = run("writes", "--data", "builtin:words", *words)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {words[0]} applies to translations, but this model is not a translator")


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_a_limit_takes_the_first_examples(run: Run, limit: int) -> None:
    result = numbers(run("run", "--data", "pairs.tsv", "--limit", str(limit), "--json", *OPTIONS))
    assert result["examples"] == min(limit, len(PAIRS))
    Path("few.tsv").write_text("".join(f"{pair}\n" for pair in PAIRS[:limit]), encoding="utf-8")
    assert numbers(run("run", "--data", "few.tsv", "--json", *OPTIONS)) == result


def test_a_limit_and_a_part_go_together(run: Run) -> None:
    words = ["--recipe", "recipes/whole.toml", "--split", "validation", "--limit", "2", "--json", *OPTIONS]
    assert numbers(run("run", *words))["examples"] == 2


def test_a_corpus_has_parts_too(run: Run) -> None:
    found = [
        numbers(run("writes", "--data", "builtin:words", "--split", split, "--limit", "20", "--json"))
        for split in ("train", "test")
    ]
    assert [result["examples"] for result in found] == [20, 20]
    assert found[0]["loss"] != found[1]["loss"]


def test_people_read_a_number_a_line(run: Run) -> None:
    code, out, _ = run("run", "--data", "pairs.tsv", "--limit", "2", *OPTIONS)
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()]
    assert names[:2] == ["loss", "perplexity"]
    assert {"bleu", "chrf", "exact_match", "examples", "predictions", "too_long"} <= set(names)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--data", "pairs.tsv", "--split", "test"],
            "--split test selects a part of a recipe or a corpus, but pairs.tsv is a file and has no splits.\n"
            "Omit --split, or give the recipe that splits it with --recipe.",
        ),
        (
            ["--recipe", "recipes/whole.toml", "--split", "dev"],
            "--split dev is unknown.\nUse train,",
        ),
        (
            ["--data", "pairs.tsv", "--data", "pairs.tsv", "--data", "pairs.tsv"],
            "--data is given 3 times, but a translator is evaluated on pairs.\nGive one file of pairs",
        ),
        (["--recipe", "none.toml"], "There is no recipe 'none.toml'"),
        (
            ["--recipe", "recipes/short.toml", "--split", "test"],
            "recipes/short.toml has no test data.\nGive --data FILE, or another --split.",
        ),
        ([], "run is not in a run folder, so its data is unknown.\nGive --data FILE or --recipe RECIPE."),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(run: Run, words: list[str], message: str) -> None:
    code, out, err = run("run", *words)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {message}")


def test_a_limit_of_nothing_is_misuse(run: Run) -> None:
    code, out, err = run("run", "--data", "pairs.tsv", "--limit", "0")
    assert (code, out) == (2, "")
    assert "--limit" in err
