"""`check --against`: the same ids through their implementation, or through another folder of ours."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from clearhead import checkpoint
from clearhead.checkpoint import Checkpoint
from clearhead.errors import CheckpointError, ConfigError
from clearhead.exchange.importing import import_model
from clearhead.exchange.reference import reference_of
from clearhead.inspection.check import Law, Probe, same_as_reference
from tests.exchange.folders import change, written
from tests.exchange.test_gguf import write
from tests.exchange.tiny import pair


def law(model: Checkpoint, source: str | Path) -> Law:
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
    model = checkpoint.load(tmp_path / "ours")
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
            law(checkpoint.load(tmp_path / "ours"), path)
    else:
        assert law(checkpoint.load(tmp_path / "ours"), path).holds


def test_another_model_is_no_reference(tmp_path: Path) -> None:
    model = Checkpoint(pair("gpt2").ours)
    checkpoint.save(tmp_path / "translator", Checkpoint(pair("marian").ours))
    with pytest.raises(CheckpointError, match="is a model of another shape"):
        law(model, tmp_path / "translator")
    checkpoint.save(tmp_path / "wider", Checkpoint(pair("llama-tokens").ours))
    with pytest.raises(CheckpointError, match="is a model of another vocabulary, 520 and not 61"):
        law(model, tmp_path / "wider")
    checkpoint.save(tmp_path / "narrower", model)
    with pytest.raises(CheckpointError, match="is a model of another vocabulary, 61 and not 520"):
        law(checkpoint.load(tmp_path / "wider"), tmp_path / "narrower")
    with pytest.raises(CheckpointError, match="is a model of another vocabulary, 61 and not 520"):
        law(checkpoint.load(tmp_path / "wider"), written("gpt2", tmp_path / "theirs"))


def test_a_source_that_is_none_or_has_code_is_refused(tmp_path: Path) -> None:
    model = Checkpoint(pair("gpt2").ours)
    with pytest.raises(CheckpointError, match=r"is no folder and no \.gguf file"):
        law(model, tmp_path / "nothing")
    change(written("gpt2", tmp_path / "theirs") / "config.json", auto_map={"AutoModel": "x.Y"})
    with pytest.raises(ConfigError, match="auto_map"):
        law(model, tmp_path / "theirs")
