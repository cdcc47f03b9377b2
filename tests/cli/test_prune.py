"""`clearhead heads` and `clearhead prune` by command: tables, pictures, smaller models, and what they refuse."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import clearhead
from clearhead import model_folder
from clearhead.inspection.heads.importance import head_names
from clearhead.models.transformer.pruned import pruned
from tests.commands import Run, runner
from tests.decoding.tiny import language_model, translator

WORDS = ("cat", "dog", "ball", "table", "boy", "friend")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and data."""
    folder = tmp_path_factory.mktemp("prune")
    model_folder.save(folder / "run/best", translator("word"))
    model_folder.save(folder / "writes", language_model("word"))
    whole = language_model("word")
    bare = pruned(whole.module, {name: [] for name in whole.config.attentions()})
    model_folder.save(folder / "bare", replace(whole, module=bare))
    lines = [f"the {one} sat\tthe {other} is old" for one in WORDS for other in WORDS]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "text.txt").write_text("the cat sat on the green table\n" * 9, encoding="utf-8")
    (folder / "empty.txt").write_text("", encoding="utf-8")
    recipe = f'task = "translate"\n[data]\ntrain = "{folder / "pairs.tsv"}"\nvalidation = 0.3\n[training]\nsteps = 3\n'
    (folder / "recipes").mkdir()
    (folder / "recipes/ours.toml").write_text(recipe, encoding="utf-8")
    return folder


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in that folder."""
    monkeypatch.chdir(place)
    return runner(capsys)


def test_every_head_has_a_row_and_a_field(run: Run) -> None:
    code, out, err = run("heads", "run", "--data", "pairs.tsv", "--limit", "5", "--svg", "heads.svg")
    assert code == 0, err
    config = translator("word").config
    names = [f"{name}.{head}" for name in config.attentions() for head in config.heads(name)]
    assert [line.split()[0] for line in out.splitlines()] == ["head", *names]
    assert "induction" in out
    assert "diagonal" in out
    fields = ElementTree.parse("heads.svg").getroot().findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(fields) == len(names)


def test_heads_are_sorted_and_given_as_json(run: Run) -> None:
    code, out, err = run(
        "heads", "writes", "--data", "text.txt", "--sort", "importance", "--no-leave-out", "--json"
    )
    assert code == 0, err
    rows = json.loads(out)["heads"]
    values = [row["importance"] for row in rows]
    assert values == sorted(values, reverse=True)
    assert rows[0]["loss_without"] is None
    assert rows[0]["induction"] is not None


def test_a_pruned_model_is_smaller_and_works(run: Run) -> None:
    command = (
        "prune",
        "writes",
        "small",
        "--data",
        "text.txt",
        "--keep",
        "0.5",
        "--ffn",
        "0.5",
        "--curve",
        "c.svg",
    )
    code, out, err = run(*command, "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["heads"][1] == round(facts["heads"][0] / 2)
    assert facts["units"][1] == facts["units"][0] // 2
    assert facts["weights"][1] < facts["weights"][0]
    assert facts["cache_bytes_per_token"][1] < facts["cache_bytes_per_token"][0]
    assert len(facts["curve"]) % 3 == 0
    assert len(ElementTree.parse("c.svg").getroot().findall(".//{http://www.w3.org/2000/svg}path")) == 3
    small = clearhead.load("small")
    assert small.generate("the cat", max_tokens=3, min_tokens=3, seed=1).text
    assert "Pruned:" in small.bundle.card


def test_heads_are_removed_by_name_or_as_many_as_the_loss_allows(run: Run) -> None:
    code, out, err = run(
        "prune", "run", "named", "--data", "pairs.tsv", "--heads", "decoder.0.cross.0, encoder.0.self.1"
    )
    assert code == 0, err
    assert "Measure it: clearhead evaluate named" in out
    assert "Wrote the model folder named" in out
    config = clearhead.load("named").config
    assert 0 not in config.heads("decoder.0.cross")
    assert 1 not in config.heads("encoder.0.self")
    code, out, err = run(
        "prune", "run", "most", "--data", "pairs.tsv", "--max-loss", "500%", "--by", "loss", "--json"
    )
    assert code == 0, err
    facts = json.loads(out)
    assert facts["heads"][1] < facts["heads"][0]
    assert facts["loss"][1] <= 6 * facts["loss"][0]


def test_what_is_left_can_be_fine_tuned(run: Run) -> None:
    code, out, err = run(
        "prune", "run", "tuned", "--recipe", "recipes/ours.toml", "--keep", "0.5", "--rounds", "2", "--fine-tune", "2"
    )  # fmt: skip
    assert code == 0, err
    assert "after fine-tuning" in out
    model = clearhead.load("tuned")
    assert len(head_names(model.config)) * 2 == len(head_names(translator("word").config))  # type: ignore[arg-type]
    assert "Fine-tuned for 2 steps" in model.bundle.card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["prune", "writes", "x", "--keep", "0"], "--keep 0 is not a share above 0 and up to 1"),
        (["prune", "writes", "x", "--keep", "1.5"], "--keep 1.5 is not a share"),
        (["prune", "writes", "x", "--ffn", "2"], "--ffn 2 is not a share"),
        (["prune", "writes", "x"], "Nothing says what to remove"),
        (["prune", "writes", "x", "--keep", "0.5", "--heads", "a"], "--keep and --heads each say"),
        (["prune", "writes", "x", "--max-loss", "a lot"], "--max-loss a lot is not a share"),
        (["prune", "writes", "x", "--keep", "0.5", "--by", "luck"], "--by luck is unknown"),
        (["prune", "writes", "writes", "--keep", "0.5"], "writes already exists"),
        (["prune", "writes", "x", "--keep", "0.5"], "not in a run folder, so its data is unknown"),
        (
            ["prune", "writes", "x", "--keep", "0.5", "--data", "text.txt", "--fine-tune", "3"],
            "Give --recipe RECIPE",
        ),
        (
            ["prune", "writes", "x", "--data", "text.txt", "--heads", "decoder.0.self.99"],
            "is not a head of this model",
        ),
        (["prune", "writes", "x", "--data", "empty.txt", "--keep", "0.5"], "empty"),
        (["prune", "writes", "x", "--data", "text.txt", "--heads", " ,"], "--heads names no head"),
        (["heads", "bare", "--data", "text.txt"], "bare has no attention heads: all of them were pruned"),
        (["heads", "writes", "--data", "text.txt", "--sort", "beauty"], "--sort beauty is not a column"),
    ],
    ids=lambda part: " ".join(part[3:]) if isinstance(part, list) else "",
)
def test_what_makes_no_sense_is_refused(run: Run, words: list[str], message: str) -> None:
    code, _out, err = run(*words)
    assert code == 1
    assert message in err
    assert not Path("x").exists()
