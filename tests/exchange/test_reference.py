"""`check --against`: the same ids through their implementation, or through another folder of ours."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from clearhead import model_folder
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.importing import import_model
from clearhead.exchange.reference import reference_of
from clearhead.inspection.check import Law, Probe, same_as_reference
from clearhead.model_folder import Bundle
from tests.exchange.folders import change, written
from tests.exchange.test_gguf import write
from tests.exchange.tiny import pair


def law(model: Bundle, source: str | Path) -> Law:
    with torch.no_grad():
        reference = reference_of(source, model.config)
        return same_as_reference(Probe(model), reference.run, reference.padding)


@pytest.mark.parametrize(
    "name",
    [
        "gpt2",
        "llama3",
        "gpt2-classifier",
        "marian",
        "t5",
        "BertForMaskedLM",
        "BertModel",
        "RobertaForSequenceClassification",
    ],
)
def test_an_import_equals_its_source(name: str, tmp_path: Path) -> None:
    import_model(written(name, tmp_path / "theirs"), tmp_path / "ours")
    model = model_folder.load(tmp_path / "ours")
    found = law(model, tmp_path / "theirs")
    assert found.holds
    assert found.difference > 0
    assert law(model, tmp_path / "ours").difference == 0
    with torch.no_grad():
        next(model.module.parameters()).mul_(1.01)
    assert not law(model, tmp_path / "theirs").holds


def test_a_gguf_file_is_a_source_too(tmp_path: Path) -> None:
    """For these `transformers` asks for one more package, and says which."""
    path = write(tmp_path / "x.gguf", "llama2")
    import_model(path, tmp_path / "ours")
    if find_spec("accelerate") is None:
        with pytest.raises(ConfigError, match="accelerate is required when loading a GGUF file"):
            law(model_folder.load(tmp_path / "ours"), path)
    else:
        assert law(model_folder.load(tmp_path / "ours"), path).holds


def test_another_model_is_no_reference(tmp_path: Path) -> None:
    model = Bundle(pair("gpt2").ours)
    model_folder.save(tmp_path / "translator", Bundle(pair("marian").ours))
    with pytest.raises(ModelFolderError, match="has shape = encoder-decoder, but the model has decoder"):
        law(model, tmp_path / "translator")
    model_folder.save(tmp_path / "wider", Bundle(pair("llama-tokens").ours))
    with pytest.raises(ModelFolderError, match="has vocabulary = 520, but the model has 61"):
        law(model, tmp_path / "wider")
    model_folder.save(tmp_path / "narrower", model)
    with pytest.raises(ModelFolderError, match="has vocabulary = 61, but the model has 520"):
        law(model_folder.load(tmp_path / "wider"), tmp_path / "narrower")
    with pytest.raises(ModelFolderError, match="has vocabulary = 61, but the model has 520"):
        law(model_folder.load(tmp_path / "wider"), written("gpt2", tmp_path / "theirs"))


def test_a_source_that_is_none_or_has_code_is_refused(tmp_path: Path) -> None:
    model = Bundle(pair("gpt2").ours)
    with pytest.raises(ModelFolderError, match=r"is neither a folder nor a \.gguf file"):
        law(model, tmp_path / "nothing")
    change(written("gpt2", tmp_path / "theirs") / "config.json", auto_map={"AutoModel": "x.Y"})
    with pytest.raises(ConfigError, match="auto_map"):
        law(model, tmp_path / "theirs")
