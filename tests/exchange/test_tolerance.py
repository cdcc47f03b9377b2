"""Sources as they are found: settings that are missing, weights that are too many, a vocabulary that spells nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from clearhead import model_folder
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.importing import import_model
from tests.commands import Run, runner
from tests.exchange.folders import change, written
from tests.exchange.test_importing import assert_same_model
from tests.exchange.tiny import ALL, pair

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "THE", "RIVER", "##S", "BOAT", "a"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.mark.parametrize("name", [name for name in ALL if name != "mistral-no-window"])
def test_a_family_is_known_by_its_architecture(name: str, tmp_path: Path) -> None:
    folder = written(name, tmp_path / "theirs")
    change(folder / "config.json", model_type=None)
    found = import_model(folder, tmp_path / "ours")
    assert found.family == pair(name).config["model_type"]
    assert found.notes[0].startswith("config.json has no model_type; ")
    assert_same_model(tmp_path / "ours", name)


@pytest.mark.parametrize(
    "name", [name for name in ALL if name not in ("mistral-no-window", "EuroBertForMaskedLM")]
)
def test_a_family_and_its_head_are_known_by_their_weights(name: str, tmp_path: Path) -> None:
    """A Mistral without a window is a Llama."""
    folder = written(name, tmp_path / "theirs")
    change(folder / "config.json", model_type=None, architectures=None)
    found = import_model(folder, tmp_path / "ours")
    assert (found.family, len(found.notes)) == (pair(name).config["model_type"], 2)
    assert_same_model(tmp_path / "ours", name)


def test_a_family_may_be_null(tmp_path: Path) -> None:
    folder = written("gpt2", tmp_path / "theirs")
    settings = json.loads((folder / "config.json").read_text()) | {"model_type": None}
    (folder / "config.json").write_text(json.dumps(settings))
    assert import_model(folder, tmp_path / "ours").family == "gpt2"


def test_a_source_without_a_family_can_be_compared(run: Run, tmp_path: Path) -> None:
    folder = written("BertForSequenceClassification", tmp_path / "it's theirs")
    change(folder / "config.json", model_type=None, architectures=None)
    import_model(folder, tmp_path / "ours")
    code, printed, _ = run("check", tmp_path / "ours", "--against", folder, "--json")
    assert (code, json.loads(printed)["holds"]) == (0, True)


@pytest.mark.parametrize("family", ["albert", "modernbert"])
def test_a_family_that_cannot_be_is_refused_with_the_reason(family: str, tmp_path: Path) -> None:
    folder = written("BertModel", tmp_path / "theirs")
    change(folder / "config.json", model_type=family)
    with pytest.raises(ConfigError, match=f"a model of type {family} cannot be imported: .*its blocks"):
        import_model(folder, tmp_path / "ours")


def test_an_albert_is_known_by_its_weights(tmp_path: Path) -> None:
    folder = written("BertModel", tmp_path / "theirs")
    change(folder / "config.json", model_type=None, architectures=None)
    name = "encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight"
    save_file({name: torch.zeros(2, 2)}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match="all its blocks share one set of weights"):
        import_model(folder, tmp_path / "ours")


@pytest.mark.parametrize(
    ("settings", "labels", "notes"),
    [
        ({"num_labels": 3}, None, []),
        ({}, None, ["3 classes, as the weights have; they have no names"]),
        ({"id2label": ["a", "b", "c"]}, ["a", "b", "c"], []),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 5}, ["a", "b", "c"], []),
        (
            {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "num_labels": 3},
            None,
            ["3 classes, as num_labels says; they have no names"],
        ),
    ],
)
@pytest.mark.parametrize("name", ["BertForSequenceClassification", "llama-classifier"])
def test_the_classes_are_those_of_the_weights(
    name: str, settings: dict[str, Any], labels: list[str] | None, notes: list[str], tmp_path: Path
) -> None:
    folder = written(name, tmp_path / "theirs")
    change(folder / "config.json", **{"id2label": None, "label2id": None} | settings)
    found = import_model(folder, tmp_path / "ours")
    assert (found.config.classes, found.labels, found.notes) == (3, labels, notes)


def test_weights_may_be_ignored(run: Run, tmp_path: Path) -> None:
    folder = written("BertModel", tmp_path / "theirs")
    more = {"extra.head.weight": torch.zeros(2), "extra.head.bias": torch.zeros(2)}
    save_file(load_file(folder / "model.safetensors") | more, folder / "model.safetensors")
    with pytest.raises(ModelFolderError, match=r"Unexpected weights: extra\.head\.bias"):
        import_model(folder, tmp_path / "ours")
    with pytest.raises(ConfigError, match=r"--ignore 'cls\.\*' matches no weight of the source"):
        import_model(folder, tmp_path / "ours", ignore=["extra.*", "cls.*"])
    with pytest.raises(ModelFolderError, match=r"Missing weights: embeddings\."):
        import_model(folder, tmp_path / "ours", ignore=["e*"])
    assert run("import", folder, tmp_path / "ours", "--ignore", "extra.*")[0] == 0
    assert_same_model(tmp_path / "ours", "BertModel")


@pytest.mark.parametrize("pool", ["first", "mean", "last"])
def test_vectors_are_pooled_as_asked(run: Run, pool: str, tmp_path: Path) -> None:
    folder = written("BertModel", tmp_path / "theirs")
    assert run("import", folder, tmp_path / "ours", "--pool", pool)[0] == 0
    assert model_folder.load(tmp_path / "ours").config.pool == pool


def test_a_classifier_keeps_its_pool(run: Run, tmp_path: Path) -> None:
    folder = written("BertForSequenceClassification", tmp_path / "theirs")
    with pytest.raises(ConfigError, match="this classifier has learned with pool = 'first'"):
        import_model(folder, tmp_path / "ours", pool="mean")
    code, _, errors = run("import", folder, tmp_path / "ours", "--pool", "men")
    assert (code, "--pool men is unknown. Did you mean mean?" in errors) == (1, True)


@pytest.mark.parametrize("lowercases", [True, False])
def test_a_vocabulary_that_cannot_spell_its_own_words_is_named(
    run: Run, lowercases: bool, tmp_path: Path
) -> None:
    folder = written("BertModel", tmp_path / "theirs")
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercases}))
    found = import_model(folder, tmp_path / "ours")
    assert found.tokenizers[0] is not None
    if not lowercases:
        assert found.notes == []
        return
    assert found.notes[0].startswith(
        "the tokenizer makes 4 of 5 words of its own vocabulary unknown, such as 'THE'"
    )
    assert f"note: {found.notes[0]}" in run("import", folder, tmp_path / "again")[1]


def test_the_command_that_compares_is_complete(run: Run, tmp_path: Path) -> None:
    folder = written("gpt2", tmp_path / "with a space")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    printed = run("import", folder, tmp_path / "ours", "--allow-pickle")[1]
    assert f"clearhead check {tmp_path}/ours --against '{folder}' --allow-pickle\n" in printed


def test_a_folder_of_ctranslate2_is_recognised(tmp_path: Path) -> None:
    for name in ("model.bin", "shared_vocabulary.json", "config.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ModelFolderError, match="is a model of CTranslate2") as error:
        import_model(tmp_path, tmp_path / "ours")
    assert "Import the Hugging Face folder that it was converted from" in str(error.value)
