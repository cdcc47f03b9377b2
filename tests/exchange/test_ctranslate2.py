"""CTranslate2 converts what `export` writes for translators, and translates as we do."""

from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, processors

import clearhead
from clearhead import model_folder
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.exporting import export_model
from clearhead.exchange.families.accepted_by import accepted_by
from clearhead.exchange.importing import import_model
from clearhead.model_folder import Bundle
from clearhead.models.model import Model
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.exchange.test_exporting import HERE, made_here, randomised
from tests.exchange.tiny import marian, random
from tests.narrow import transformer

WORDS = ["river", "boat", "girl", "dog", "bridge"]
SENTENCES = [f"the {a} saw the {b}" for a in WORDS for b in WORDS if a != b]


def translations(folder: Path) -> list[str]:
    """Greedy, by CTranslate2; the tokenizer is that of `transformers`."""
    converter = ctranslate2.converters.TransformersConverter(str(folder))
    translator = ctranslate2.Translator(
        converter.convert(str(folder.with_name("converted"))), inter_threads=1
    )
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) for text in SENTENCES]
    found = translator.translate_batch(rows, beam_size=1, max_decoding_length=12)
    ids = [tokenizer.convert_tokens_to_ids(row.hypotheses[0]) for row in found]
    return [tokenizer.decode(row, skip_special_tokens=True) for row in ids]


def assert_same_translations(ours: Path, theirs: Path) -> None:
    model = clearhead.load(ours)
    assert len(SENTENCES) == 20
    assert translations(theirs) == [model.translate(text, beam=1, max_tokens=12) for text in SENTENCES]


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_a_t5_translates_the_same(kind: Any, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(SENTENCES, TokenizerConfig(kind=kind, vocabulary=300))
    model = randomised(made_here(HERE["T5 with other factors"][2] | {"vocabulary": tokenizer.size}))
    model_folder.save(tmp_path / "ours", Bundle(model, tokenizer))
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert accepted_by(made, transformer(model.config))["CTranslate2"] == "yes, by ct2-transformers-converter"
    assert_same_translations(tmp_path / "ours", tmp_path / "theirs")


def test_an_imported_marian_translates_the_same(tmp_path: Path) -> None:
    """It starts from the zero vector of its padding token, the last one."""
    tokens = ["</s>", "<unk>", "the", "saw", *WORDS, "<pad>"]
    library = Library(models.WordLevel({token: at for at, token in enumerate(tokens)}, unk_token="<unk>"))
    library.add_special_tokens(["</s>", "<unk>", "<pad>"])
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 0)])
    last = len(tokens) - 1
    model = random(
        marian(vocab_size=len(tokens), pad_token_id=last, decoder_start_token_id=last, eos_token_id=0)
    )
    with torch.no_grad():
        model.model.shared.weight[last] = 0
        model.final_logits_bias[0, last] = -100.0  # which a published model never writes
    model.save_pretrained(tmp_path / "source")
    named = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    hf.PreTrainedTokenizerFast(tokenizer_object=library, **named).save_pretrained(tmp_path / "source")
    found = import_model(tmp_path / "source", tmp_path / "ours")
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert accepted_by(made, found.config)["CTranslate2"] == "yes, by ct2-transformers-converter"
    assert_same_translations(tmp_path / "ours", tmp_path / "theirs")


def marian_made_here(folder: Path, kind: Any = "word", **changes: Any) -> Model:
    tokenizer = Tokenizer.train(SENTENCES, TokenizerConfig(kind=kind, vocabulary=300))
    settings = HERE["the transformer of 2017"][2] | {"vocabulary": tokenizer.size} | changes
    model = randomised(made_here(settings))
    model_folder.save(folder, Bundle(model, tokenizer))
    return model


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_a_marian_made_here_translates_the_same(kind: Any, tmp_path: Path) -> None:
    """Its begin token is in the positions, so that it starts from a zero vector too."""
    model = marian_made_here(tmp_path / "ours", kind)
    made = export_model(tmp_path / "ours", tmp_path / "theirs", for_ctranslate2=True)
    assert accepted_by(made, transformer(model.config))["CTranslate2"] == "yes, by ct2-transformers-converter"
    assert_same_translations(tmp_path / "ours", tmp_path / "theirs")
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    theirs, ours = (
        hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs"),
        clearhead.load(tmp_path / "ours"),
    )
    for text in SENTENCES[:5]:
        found = theirs.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=12, num_beams=1)
        expected = ours.translate(text, beam=1, max_tokens=12)
        assert tokenizer.decode(found[0], skip_special_tokens=True) == expected
    with pytest.raises(ModelFolderError, match="exported for CTranslate2"):
        import_model(tmp_path / "theirs", tmp_path / "again")


def test_a_marian_that_starts_from_a_token_is_not_promised(tmp_path: Path) -> None:
    model = marian_made_here(tmp_path / "ours")
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert accepted_by(made, transformer(model.config))["CTranslate2"] == (
        "no, its marian starts from a zero vector in place of the begin token; export with --for ctranslate2"
    )


def test_only_translators_with_one_vocabulary_can_start_from_zero(tmp_path: Path) -> None:
    marian_made_here(tmp_path / "apart", shared=False, tied=False)
    with pytest.raises(ConfigError, match=r"model\.shared and model\.tied must be true"):
        export_model(tmp_path / "apart", tmp_path / "theirs", for_ctranslate2=True)
    model_folder.save(tmp_path / "writes", Bundle(randomised(made_here({"vocabulary": 50}))))
    with pytest.raises(ConfigError, match="--for ctranslate2 applies to translators"):
        export_model(tmp_path / "writes", tmp_path / "theirs", for_ctranslate2=True)
    assert not (tmp_path / "theirs").exists()
