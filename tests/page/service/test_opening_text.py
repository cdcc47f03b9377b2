"""The page opens with a text of the model's own kind."""

from typing import Any

import pytest
import torch

from clearhead.api import Model, load
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.corpora import CORPORA
from clearhead.corpora.lecture import FEELINGS, SIZES
from clearhead.examples import Labelled
from clearhead.inspection.passes import Inspector
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.page.service import opening_text as opening
from clearhead.page.service.opening_text import made
from clearhead.text.tokenizers.tokenizer import Tokenizer

PYTHON = [
    "class Name:\n    def __init__(self, name):\n        self.name = name\n",
    "def __init__(self, name): self.name = name\n",
]
ENGLISH = ["The girl gave her little brother a red book.", "The little girl gave a red ball."]
SPANISH = ["La chica lee un libro rojo.", "El chico lee."]


def opening_text(model: Model) -> str:
    return opening.opening_text(Inspector(model.bundle))


def model_of(texts: list[str], kind: str, shape: str = "encoder", **settings: Any) -> Model:
    words = Tokenizer.train(texts * 3, TokenizerConfig(kind=kind, minimum_frequency=1))  # type: ignore[arg-type]
    config = ModelConfig(
        **{"shape": shape, "vocabulary": words.size, "d": 16, "h": 2, "context": 64, **settings}
    )
    return Model(Bundle(build(config), words))


def test_a_classifier_opens_with_what_its_tokenizer_knows() -> None:
    classes: dict[str, Any] = {"head": "classifier", "classes": 2, "encoder_blocks": 1}
    (dna,) = CORPORA["dna"].examples("test", count=1)
    assert isinstance(dna, Labelled)
    assert opening_text(model_of([dna.text], "dna", **classes)) == dna.text
    review = "The music was great, but the plot was boring."
    assert opening_text(model_of([review], "word", **classes)) == review
    assert dna.text in made()


@pytest.mark.parametrize(("texts", "start"), [(SPANISH, "La chica"), ([*ENGLISH, "reads"], "The girl")])
def test_a_translator_opens_with_its_source_language(texts: list[str], start: str) -> None:
    blocks = {"encoder_blocks": 1, "decoder_blocks": 1}
    assert opening_text(model_of(texts, "word", "encoder-decoder", **blocks)).startswith(start)


@pytest.mark.parametrize(("texts", "start"), [(PYTHON, "def __init__"), (ENGLISH, "The girl gave")])
def test_a_language_model_opens_with_what_it_finds_likely(texts: list[str], start: str) -> None:
    torch.manual_seed(1)
    model = model_of(["".join(map(chr, range(10, 127)))], "byte", "decoder", decoder_blocks=1)
    ids = [torch.tensor([[*model.reader.frame.before, *model.tokenizer.encode(text)]]) for text in texts]
    optimizer = torch.optim.Adam(model.module.parameters(), 1e-2)
    for _ in range(60):
        for row in ids:
            Z = model.module.train()(Inputs(row[:, :-1]))[0]
            torch.nn.functional.cross_entropy(Z, row[0, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.module.eval()
    assert opening_text(model).startswith(start)


def test_a_text_longer_than_the_context_is_not_chosen() -> None:
    model = model_of(ENGLISH, "byte", "decoder", decoder_blocks=1, context=26)
    assert len(model.reader.ids(opening_text(model))) <= 26


def test_the_shipped_models_know_every_word_that_they_open_with() -> None:
    translator, writer = load("builtin:translator"), load("builtin:language-model")
    for model in (translator, writer):
        assert model.reader.tokenizer.counts_unknown(model.reader.tokenizer.encode(opening_text(model))) == 0
    assert translator.translate(opening_text(translator)) == (
        "El pollo no cruzó la carretera porque estaba demasiado cansado."
    )
    reasons = {english for *_, english in (*FEELINGS, *SIZES)}
    assert writer.generate(opening_text(writer), max_tokens=1, temperature=0).text in reasons
