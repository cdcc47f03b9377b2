"""The models of the package: the files that were shipped, within their size, and good enough for the lecture."""

import hashlib

import pytest
import torch

import clearhead
from clearhead.api import Model
from clearhead.corpora.lecture import OF_THE_NOTES
from clearhead.errors import ModelFolderError
from clearhead.inspection.kept_models import kept_models, load_kept
from clearhead.inspection.passes import Inspector
from clearhead.inspection.readings.heads import head_statistics
from clearhead.model_folder import WEIGHTS, weights_of
from clearhead.shipped import SHIPPED
from tools.shipped import LARGEST, MODELS

HASHES = {
    "translator": "e6390ba6688a2f1c1ef2494b95e88dce6ea2e4e933f29bf4ace156217ab5ce8a",
    "language-model": "a294160671b857eadb8d1bedf757537cc9f6d96c6313ac9cbfa781d21f2f0132",
}  # of the weights; `make shipped` makes others, which are kept only if they are as good
KEPT = "fd83ed67676848c359d85a534a023700bd04b667a85b848a9399a9cccd7ce052"  # of its models after some steps
SENTENCES = [
    "Emma hates games but she is a great friend",
    "The chicken didn't cross the road because it was too tired",
    "They are rich, but are they happy?",
    "My dog wanted to eat",
]


@pytest.fixture(scope="module", params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Model:
    return clearhead.load(f"builtin:{request.param}")


@pytest.mark.parametrize("name", MODELS)
def test_the_files_are_those_that_were_shipped(name: str) -> None:
    files = [file for file in (SHIPPED / name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < LARGEST
    assert hashlib.sha256((SHIPPED / name / WEIGHTS).read_bytes()).hexdigest() == HASHES[name]
    assert (SHIPPED / name / "recipe.toml").is_file()
    assert "/tmp" not in (SHIPPED / name / "card.md").read_text(encoding="utf-8")


def test_the_language_model_has_kept_its_steps() -> None:
    kept = kept_models(SHIPPED / "language-model")
    assert [one.step for one in kept] == [0, 11, 44, 100, 178, 278, 400]
    losses = [one.loss for one in kept if one.loss is not None]
    assert losses == sorted(losses, reverse=True)
    model = clearhead.load("builtin:language-model")
    last = weights_of(load_kept(model.bundle, kept[-1]).module)
    assert all(torch.equal(last[name], weight) for name, weight in weights_of(model.module).items())
    found = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(one.path for one in kept)))
    assert found.hexdigest() == KEPT


def test_they_know_the_words_of_the_notes_in_lower_and_upper_case(model: Model) -> None:
    tokenizer = model.reader.tokenizer
    for text in SENTENCES:
        for given in (text, text.lower()):
            assert not tokenizer.counts_unknown(tokenizer.encode(given)), given


def test_their_attention_is_not_uniform(model: Model) -> None:
    captured = Inspector(model.bundle).run(SENTENCES[1])
    sharpest = max(one.largest for one in head_statistics(captured))
    assert sharpest > 0.6  # of eleven words, uniform attention gives each less than 0.1


def test_the_translator_resolves_what_it_is() -> None:
    model = clearhead.load("builtin:translator")
    for spanish, english in list(OF_THE_NOTES.items())[:6]:
        assert model.translate(english) == spanish
        assert model.translate(spanish) == english


def test_the_language_model_continues_as_the_notes_do() -> None:
    model = clearhead.load("builtin:language-model")
    assert (
        " ".join(model.generate("Emma hates games but", temperature=0).text.split()[:4]) == "she is a great"
    )
    Z = model.logits(torch.tensor([model.generator.prompt("my dog wanted").ids]))
    assert model.tokenizer.piece(int(Z[0, -1].argmax())).strip() == "to"


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        ModelFolderError, match=r"builtin:translater is not a model of the package.*builtin:translator"
    ):
        clearhead.load("builtin:translater")
