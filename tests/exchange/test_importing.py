"""A folder of Hugging Face becomes a model folder of ours: the same numbers, or a reason why not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from clearhead import model_folder
from clearhead.errors import ClearheadError, ConfigError, ModelFolderError
from clearhead.exchange.importing import import_model, read_source
from tests.exchange.folders import change, written
from tests.exchange.tiny import ALL, pair


def assert_same_model(folder: Path, name: str) -> None:
    """The model folder holds what the tables of names make of the tiny model."""
    loaded, ours = model_folder.load(folder), pair(name).ours
    assert loaded.config == ours.config
    for key, X in ours.state_dict().items():
        assert torch.equal(loaded.module.state_dict()[key], X), key


@pytest.mark.parametrize("name", ALL)
def test_every_family_and_head_comes_in(name: str, tmp_path: Path) -> None:
    foreign = import_model(written(name, tmp_path / "theirs"), tmp_path / "ours")
    assert foreign.config == pair(name).ours.config
    assert_same_model(tmp_path / "ours", name)
    assert "Trained elsewhere" in model_folder.load(tmp_path / "ours").card


@pytest.mark.parametrize("name", ["gpt2", "llama3", "BertForMaskedLM", "marian", "t5-1.1"])
def test_shards_come_in(name: str, tmp_path: Path) -> None:
    folder = written(name, tmp_path / "theirs", max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    import_model(folder, tmp_path / "ours")
    assert_same_model(tmp_path / "ours", name)


def test_a_pickle_comes_in_where_it_is_allowed(tmp_path: Path) -> None:
    folder = written("gpt2", tmp_path / "theirs")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFolderError, match="A pickle can contain code"):
        import_model(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
    import_model(folder, tmp_path / "ours", allow_pickle=True)
    assert_same_model(tmp_path / "ours", "gpt2")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_a_type_of_number_is_kept(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    folder = written(name, tmp_path / "theirs")
    weights = {key: X.to(dtype) for key, X in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors")
    import_model(folder, tmp_path / "ours")
    with safe_open(tmp_path / "ours" / "model.safetensors", framework="pt") as file:
        kinds = {file.get_tensor(key).dtype for key in file.keys()}  # noqa: SIM118
    assert kinds == {torch.float32 if dtype == torch.float64 else dtype}
    loaded = model_folder.load(tmp_path / "ours").module.state_dict()
    expected = pair(name).ours.state_dict()
    assert all(torch.equal(loaded[key], X.to(dtype).float()) for key, X in expected.items())


def test_another_head_may_be_asked_for(tmp_path: Path) -> None:
    folder = written("BertForMaskedLM", tmp_path / "theirs")
    assert import_model(folder, tmp_path / "ours", head="none").config.head == "none"
    assert model_folder.load(tmp_path / "ours").config.head == "none"
    with pytest.raises(ModelFolderError, match=r"Missing weights: .*classifier\.bias, classifier\.weight"):
        import_model(folder, tmp_path / "other", head="classifier")
    assert not (tmp_path / "other").exists()


def test_labels_come_along(tmp_path: Path) -> None:
    folder = written("BertForSequenceClassification", tmp_path / "theirs")
    change(folder / "config.json", id2label={"0": "good", "1": "bad", "2": "neither"})
    import_model(folder, tmp_path / "ours")
    assert model_folder.load(tmp_path / "ours").labels == ["good", "bad", "neither"]
    change(folder / "config.json", id2label={"0": "good", "1": "bad", "3": "neither"})
    with pytest.raises(ConfigError, match="id2label does not name 3 different classes 0 to 2"):
        import_model(folder, tmp_path / "other")


def test_numbers_for_a_text_are_refused(tmp_path: Path) -> None:
    folder = written("BertForSequenceClassification", tmp_path / "theirs")
    change(folder / "config.json", problem_type="regression")
    with pytest.raises(ConfigError, match=r"problem_type = 'regression' .*\n.*--head none"):
        import_model(folder, tmp_path / "ours")
    assert import_model(folder, tmp_path / "ours", head="none").config.head == "none"


def other_shape(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["transformer.wpe.weight"] = torch.zeros(39, 30)
    save_file(weights, folder / "model.safetensors")


def quantised(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["transformer.wpe.weight"] = torch.zeros(40, 30, dtype=torch.int8)
    save_file(weights, folder / "model.safetensors")


def untied(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["transformer.wte.weight"] + 1
    save_file(weights, folder / "model.safetensors")


def cut_short(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-5])


def with_code(folder: Path) -> None:
    change(folder / "config.json", auto_map={"AutoModel": "modeling.Model"})
    (folder / "modeling.py").write_text("raise SystemExit('code of the model was run')", encoding="utf-8")


def tokenizer_with_code(folder: Path) -> None:
    settings = {"auto_map": {"AutoTokenizer": ["tokens.T", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


BROKEN: dict[str, tuple[Any, str]] = {
    "shape": (
        other_shape,
        "transformer.wpe.weight has shape (39, 30), but config.json implies (40, 30).",
    ),
    "int8": (quantised, "transformer.wpe.weight has type int8: these weights are quantised."),
    "untied": (untied, "transformer.wte.weight and lm_head.weight differ, but config.json ties them"),
    "cut short": (cut_short, "It is damaged or truncated; copy it again."),
    "code": (with_code, "config.json has an auto_map: this model is defined by code in its own folder."),
    "code of the tokenizer": (tokenizer_with_code, "tokenizer_config.json has an auto_map"),
    "family": (
        lambda folder: change(folder / "config.json", model_type="gpt3"),
        "model_type = 'gpt3' is unsupported",
    ),
    "no family": (
        lambda folder: change(folder / "config.json", model_type="gpt"),
        "model_type = 'gpt' is unsupported",
    ),
    "blocks": (lambda folder: change(folder / "config.json", n_layer=4), "Missing weights: transformer.h.3"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "is not valid JSON"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json is missing or empty"),
    "tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json is damaged"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_read_is_refused_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    breaks, reason = BROKEN[what]
    folder = written("gpt2", tmp_path / "theirs")
    breaks(folder)
    with pytest.raises(ClearheadError) as error:
        import_model(folder, tmp_path / "ours")
    assert reason in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    folder = written("gpt2", tmp_path / "theirs")
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(ModelFolderError, match="is not an empty folder"):
        import_model(folder, folder)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_source_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFolderError, match=r"nothing does not exist.\nGive a Hugging Face folder.*hub:OWNER/NAME@COMMIT"
    ):
        read_source(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(ModelFolderError, match=r"is a file, but not a \.gguf"):
        read_source(tmp_path / "file")
