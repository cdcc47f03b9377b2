"""A `tokenizer.json` comes in as it is, with the roles that its own folder gives to its special tokens."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError, TokenizerError
from clearhead.exchange.hf_folder import HuggingFaceFolder
from clearhead.exchange.tokenizers.read import Pair, read_tokenizers
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.tokenizers.foreign import written

DECODER = ModelConfig(vocabulary=1000, d=8, h=2)
SHAPES = {
    "decoder": DECODER,
    "encoder": DECODER.replace(shape="encoder", head="none"),
    "encoder-decoder": DECODER.replace(shape="encoder-decoder"),
}


def found(style: str, shape: str, folder: Path, settings: dict[str, Any], **config: Any) -> Pair:
    (folder / "tokenizer.json").write_text(written(style), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return read_tokenizers(HuggingFaceFolder(folder), {"model_type": "x"} | config, SHAPES[shape])


def roles(tokenizer: Tokenizer | None) -> dict[str, str | None]:
    assert tokenizer is not None
    numbers = {role: id for role, id in vars(tokenizer.specials).items() if role != "framing"}
    return {role: tokenizer.spelling(number) for role, number in numbers.items() if number is not None}


BERT = {
    "begin": "[CLS]",
    "end": "[SEP]",
    "separator": "[SEP]",
    "padding": "[PAD]",
    "unknown": "[UNK]",
    "mask": "[MASK]",
}


@pytest.mark.parametrize(
    ("style", "shape", "settings", "expected"),
    [
        ("bert", "encoder", {}, BERT),
        (
            "bert",
            "encoder",
            {"cls_token": "[CLS]", "sep_token": {"content": "[SEP]"}, "bos_token": "[PAD]"},
            BERT,
        ),
        ("bert", "encoder", {"cls_token": "[MASK]"}, BERT),  # what is put around a text counts, not a name
        (
            "t5",
            "encoder-decoder",
            {},
            {"end": "</s>", "padding": "<pad>", "unknown": "<unk>", "separator": "</s>"},
        ),
        (
            "gpt2",
            "decoder",
            {"eos_token": "<|endoftext|>"},
            {"begin": "<|endoftext|>", "end": "<|endoftext|>"},
        ),
        (
            "gpt2",
            "decoder",
            {"eos_token": "<|endoftext|>", "pad_token": "!", "bos_token": "no such"},
            {"begin": "<|endoftext|>", "end": "<|endoftext|>"},  # ! stays a piece of text
        ),
    ],
)
def test_roles(
    style: str, shape: str, settings: dict[str, Any], expected: dict[str, str], tmp_path: Path
) -> None:
    target, source = found(style, shape, tmp_path, settings)
    assert source is None
    assert roles(target) == expected
    plain = Tokenizer(written(style))
    assert target is not None
    for text in ("It's 12 o'clock!", ""):
        assert target.decode(target.encode(text)) == plain.decode(plain.encode(text))


def test_a_translator_begins_where_its_config_says(tmp_path: Path) -> None:
    target, source = found("t5", "encoder-decoder", tmp_path, {}, decoder_start_token_id=0)
    assert source is None
    assert "begin" not in roles(target)
    target, source = found("t5", "encoder-decoder", tmp_path, {}, decoder_start_token_id=2)
    assert (roles(target)["begin"], "begin" in roles(source)) == ("<unk>", False)
    with pytest.raises(
        TokenizerError, match=r"decoder_start_token_id = 9999, but the tokenizer has no such token"
    ):
        found("t5", "encoder-decoder", tmp_path, {}, decoder_start_token_id=9999)


def test_code_of_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json has an auto_map"):
        found("t5", "encoder", tmp_path, {"auto_map": {"AutoTokenizer": ["x.T", None]}})


def test_a_file_that_pads_and_cuts_says_what_stands_around_a_text_too(tmp_path: Path) -> None:
    document = json.loads(written("bert"))
    document["truncation"] = {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    document["padding"] = {
        "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    target, _ = read_tokenizers(HuggingFaceFolder(tmp_path), {"model_type": "x"}, SHAPES["encoder"])
    assert roles(target) == BERT


def test_the_beginning_may_stand_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"decoder_start_token_id": 2}', encoding="utf-8")
    target, _ = found("t5", "encoder-decoder", tmp_path, {})
    assert roles(target)["begin"] == "<unk>"
