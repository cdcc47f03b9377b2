"""The shipped recipes: every one is read, prepared and trained for two steps, and says why it differs."""

import tomllib
from itertools import product
from pathlib import Path

import pytest

import clearhead
from clearhead.config.run import RunConfig, shipped
from clearhead.training.loop.records import StepRecord
from clearhead.training.run.run import make_run

NAMES = {
    "spanish-translator", "python-lm", "reviews-classifier", "dna-classifier", "hops-two-layers",
    "hops-one-layer", "shakespeare-reference", "shakespeare-char-quick", "shakespeare-char",
    "multi30k-en-de", "multi30k-en-de-raw", "mr-sentiment", "mr-sentiment-minilm", "dna-ecoli",
    "spanish-recurrent", "python-lstm", "reviews-cnn", "reviews-lstm",
}  # fmt: skip
TRANSLATOR = Path(clearhead.__file__).parent / "shipped" / "translator"


def test_the_promised_recipes_are_there() -> None:
    assert shipped().keys() >= NAMES


def write_small_data() -> None:
    """Writes files like those that recipes read which the package does not contain, into the current folder."""
    for part in ("train", "validation"):
        play = "".join(f"KING {part}:\nSpeak {k}, and be brief.\n\n" for k in range(120))
        Path(f"shakespeare-{part}.txt").write_text(play, encoding="utf-8")
    for form, part in product(("raw", "tok"), ("train", "val", "test_2016_flickr")):
        folder = Path("multi30k", form)
        folder.mkdir(parents=True, exist_ok=True)
        for language, line in (("en", "a dog with {} balls"), ("de", "ein hund mit {} bällen")):
            lines = "".join(f"{part}: {line.format(k)} .\n" for k in range(60))
            (folder / f"{part}.{language}").write_text(lines, encoding="utf-8")
    Path("mr").mkdir()
    for ending, word in (("pos", "fine"), ("neg", "dull")):
        lines = "".join(f"film {k} is {word} .\n" for k in range(60))
        Path(f"mr/rt-polarity.{ending}").write_text(lines, encoding="utf-8")
    Path("dna-ecoli").mkdir()
    for name, letters in (("prom", "ACGTTA"), ("non_prom", "GGCCAT")):
        records = "".join(f">{k}\n{(letters * 15)[k % 6 :][: 81 - k // 6]}\n" for k in range(60))
        Path(f"dna-ecoli/Ecoli_{name}.fa").write_text(records)


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_shipped_recipe_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_small_data()
    little = {"training.steps": "2", "training.minutes": "none", "training.epochs": "none"}
    little |= {"training.evaluate_every": "none", "training.samples": "1", "training.batch_tokens": "1024"}
    if RunConfig.read(name).data.is_builtin:
        little |= {"data.count": "100", "data.validation": "0.1", "data.test": "0.1"}
    little |= {"training.average": "none"} if RunConfig.read(name).training.average == "last" else {}
    if RunConfig.read(name).training.init_from:  # any encoder will do
        little |= {"training.init_from": str(TRANSLATOR), "training.frozen": "embeddings"}
    if name.startswith("python-"):
        little |= {"tokenizer.vocabulary": "300"}
    run = make_run(RunConfig.read(name, little), tmp_path / "run")
    assert [record.step for record in run.train() if isinstance(record, StepRecord)][-1] == 2
    assert (tmp_path / "run" / "report.html").exists()
    assert clearhead.load(tmp_path / "run" / "best").config.d == run.config.model.d


@pytest.mark.parametrize("name", sorted(shipped().keys() - {"shakespeare-reference"}))
def test_no_recipe_states_a_default(name: str) -> None:
    """A recipe says little: a setting that changes nothing is noise, but in the one to compare with."""
    stated = tomllib.loads(shipped()[name].read_text(encoding="utf-8"))
    run = RunConfig.read(name)
    for section in ("tokenizer", "model", "training", "decoding"):
        settings = getattr(run, section)
        for key in stated.get(section, {}).keys() - {"family"}:  # of which each has its own defaults
            assert getattr(settings, key) != type(settings).model_fields[key].default, f"{section}.{key}"
