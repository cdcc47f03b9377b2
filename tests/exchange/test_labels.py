"""Several labels, labels of words and pairs of texts: the same logits in `transformers`, there and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from clearhead import model_folder
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.decoding.read import Reader
from clearhead.exchange.exporting import export_model
from clearhead.exchange.importing import import_model
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.tokenizer import Tokenizer

LABELS = ["O", "B-PER", "I-PER"]
BERT: dict[str, Any] = {
    "shape": "encoder", "positions": "learned", "norm": "layer", "norm_placement": "post", "embedding_norm": True,
    "feedforward": "gelu", "feedforward_bias": True, "attention_bias": "qkvo",
}  # fmt: skip
LLAMA: dict[str, Any] = {"positions": "rotary", "norm": "rms", "feedforward": "swiglu"}
SHAPES: dict[str, dict[str, Any]] = {
    "bert": BERT | {"token_types": 2},
    "roberta": BERT | {"position_offset": 1},
    "eurobert": LLAMA | {"shape": "encoder"},
    "llama": LLAMA | {"shape": "decoder"},
}


def bundle_of(**settings: Any) -> Bundle:
    words = Tokenizer.train(["Ana runs to Oslo and back"], TokenizerConfig(kind="word", minimum_frequency=1))
    sizes = {
        "vocabulary": words.size,
        "d": 24,
        "h": 3,
        "encoder_blocks": 2,
        "decoder_blocks": 2,
        "context": 32,
    }
    config = ModelConfig.model_validate({"head": "classifier", "classes": 3} | sizes | settings)
    module = build(config, 1)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)), alpha=0.2)
    return Bundle(module.eval(), words, labels=LABELS)


@pytest.mark.parametrize("family", SHAPES)
def test_labels_of_words_leave_and_come_back(tmp_path: Path, family: str) -> None:
    bundle = bundle_of(labels="each-word", **SHAPES[family])
    model_folder.save(tmp_path / "ours", bundle)
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert made.config["architectures"][0].endswith("ForTokenClassification")
    ids = torch.tensor([Reader(bundle).item("Ana runs back").ids])
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "theirs").eval()
    with torch.no_grad():
        expected = bundle.module(Inputs(ids))
        assert torch.allclose(theirs(ids).logits, expected, atol=1e-4)
    import_model(tmp_path / "theirs", tmp_path / "back")
    back = model_folder.load(tmp_path / "back")
    assert (back.config.labels, back.labels) == ("each-word", LABELS)
    with torch.no_grad():
        assert torch.allclose(back.module(Inputs(ids)), expected, atol=1e-5)


def test_several_labels_leave_and_come_back(tmp_path: Path) -> None:
    bundle = bundle_of(labels="several", pool="first", pool_dense="tanh", **SHAPES["bert"])
    model_folder.save(tmp_path / "ours", bundle)
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert made.config["problem_type"] == "multi_label_classification"
    import_model(tmp_path / "theirs", tmp_path / "back")
    back = model_folder.load(tmp_path / "back")
    assert back.config.labels == "several"
    item = Reader(bundle).item("Ana runs")
    (ours,), (theirs,) = Reader(bundle).classify([item]), Reader(back).classify([item])
    assert theirs.probabilities == pytest.approx(ours.probabilities, abs=1e-5)
    assert (
        theirs.labels == ours.labels == [name for name, share in ours.probabilities.items() if share >= 0.5]
    )
    assert sum(ours.probabilities.values()) != pytest.approx(1)  # each by itself


def test_two_texts_are_framed_and_typed_as_the_exported_tokenizer_does(tmp_path: Path) -> None:
    bundle = bundle_of(texts=2, pool="first", pool_dense="tanh", **SHAPES["bert"])
    model_folder.save(tmp_path / "ours", bundle)
    export_model(tmp_path / "ours", tmp_path / "theirs")
    item = Reader(bundle).item("Ana runs", "back to Oslo")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    encoded = tokenizer("Ana runs", "back to Oslo")
    assert (encoded["input_ids"], encoded["token_type_ids"]) == (item.ids, item.types)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    given = {key: torch.tensor([value]) for key, value in encoded.items()}
    with torch.no_grad():
        ours = bundle.module(Inputs(torch.tensor([item.ids]), types=torch.tensor([item.types])))
        assert torch.allclose(theirs(**given).logits, ours, atol=1e-4)


def test_roberta_has_two_ends_between_two_texts() -> None:
    words = Tokenizer.train(["a b"], TokenizerConfig(kind="word", minimum_frequency=1))
    document = json.loads(words.document)
    begin, end = words.specials.begin, words.specials.end
    document["post_processor"] = {
        "type": "RobertaProcessing", "sep": ["</s>", end], "cls": ["<s>", begin], "trim_offsets": True,
        "add_prefix_space": False,
    }  # fmt: skip
    assert Tokenizer(json.dumps(document)).specials.between == (end, end)
