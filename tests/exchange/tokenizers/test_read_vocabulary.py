"""Vocabulary files become a tokenizer that gives the ids of `transformers`, and of SentencePiece itself."""

import contextlib
import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.model import ModelConfig
from clearhead.errors import TokenizerError
from clearhead.exchange.hf_folder import HuggingFaceFolder
from clearhead.exchange.tokenizers.read import read_tokenizers
from clearhead.exchange.tokenizers.read_sentencepiece import (
    Piece,
    SentencePieceModel,
    build_library,
    fields,
    parse_sentencepiece,
    renumbered,
)
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.tokenizers.foreign import TEXTS, written

PROBES = [
    *TEXTS[:3],
    "",
    " ",
    "  two  spaces \n\n and\tlines ",
    "It's we'LL 12345 naïve café ΣΊΣΥΦΟΣ 日本語 ½ ﬁ",
    "e\u0301 \U0001f469\u200d\U0001f467 \u200b\ufeff",
    "chicken",
]
DECODER = ModelConfig(vocabulary=1000, d=8, h=2)
ENCODER = DECODER.replace(shape="encoder", head="none")
TRANSLATOR = DECODER.replace(shape="encoder-decoder")


def dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def vocabulary_of(style: str, folder: Path) -> None:
    """`vocab.json` and `merges.txt`, or `vocab.txt`, of a style of tokenizer."""
    model = json.loads(written(style))["model"]
    names = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if style == "bert":
        (folder / "vocab.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        return
    dump(folder / "vocab.json", model["vocab"])
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")


@cache
def trained(algorithm: str, texts: tuple[str, ...] = tuple(TEXTS), **more: Any) -> bytes:
    """A SentencePiece model as its own trainer writes it."""
    model, sizes = io.BytesIO(), {"unigram": 90, "bpe": 400, "word": 20}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 3),
        model_writer=model,
        model_type=algorithm,
        **({"vocab_size": sizes[algorithm], "hard_vocab_limit": False, "minloglevel": 2} | more),
    )
    return model.getvalue()


LLAMA = {
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "character_coverage": 0.98,
}


def tokenizer_in(folder: Path, family: str, ours: ModelConfig = DECODER) -> Tokenizer:
    found, source = read_tokenizers(HuggingFaceFolder(folder), {"model_type": family}, ours)
    assert found is not None
    assert source is None
    return found


def assert_their_ids(ours: Tokenizer, theirs: Any, texts: list[str] = PROBES) -> None:
    for text in texts:
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text


@pytest.mark.parametrize(
    ("family", "style", "kind"),
    [
        ("gpt2", "gpt2", hf.GPT2Tokenizer),
        ("qwen2", "qwen2", hf.Qwen2Tokenizer),
        ("qwen3", "qwen2", hf.Qwen2Tokenizer),
    ],
)
def test_byte_pairs(family: str, style: str, kind: Any, tmp_path: Path) -> None:
    vocabulary_of(style, tmp_path)
    ours, theirs = tokenizer_in(tmp_path, family), kind.from_pretrained(tmp_path)
    assert_their_ids(ours, theirs)
    assert ours.specials.end == theirs.eos_token_id
    assert ours.decode(ours.encode(PROBES[5])) == theirs.decode(theirs(PROBES[5])["input_ids"])


@pytest.mark.parametrize(
    "flags", [{}, {"add_bos_token": True}, {"add_bos_token": False, "add_eos_token": True}]
)
def test_the_settings_say_what_is_put_around_a_text(flags: dict[str, bool], tmp_path: Path) -> None:
    vocabulary_of("gpt2", tmp_path)
    dump(
        tmp_path / "tokenizer_config.json",
        {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"} | flags,
    )
    ours, theirs = tokenizer_in(tmp_path, "gpt2"), hf.GPT2Tokenizer.from_pretrained(tmp_path)
    assert ours.specials.framing is not None
    before, after = ours.specials.framing
    assert [*before, *ours.encode("It's"), *after] == theirs("It's")["input_ids"]


@pytest.mark.parametrize("spaced", [False, True])
def test_roberta(spaced: bool, tmp_path: Path) -> None:
    vocabulary_of("roberta", tmp_path)
    dump(tmp_path / "tokenizer_config.json", {"add_prefix_space": spaced})
    ours = tokenizer_in(tmp_path, "roberta", ENCODER)
    theirs = hf.RobertaTokenizer.from_pretrained(tmp_path)
    assert_their_ids(ours, theirs)
    specials = ours.specials
    assert [specials.begin, *ours.encode("It's"), specials.end] == theirs("It's")["input_ids"]
    assert (specials.padding, specials.mask) == (theirs.pad_token_id, theirs.mask_token_id)


@pytest.mark.parametrize("settings", [{}, {"do_lower_case": False}, {"strip_accents": False}])
@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_wordpiece(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    vocabulary_of("bert", tmp_path)
    dump(tmp_path / "tokenizer_config.json", settings)
    ours = tokenizer_in(tmp_path, family, ENCODER)
    theirs = hf.BertTokenizer.from_pretrained(tmp_path)
    assert_their_ids(ours, theirs)
    specials = ours.specials
    assert [specials.begin, *ours.encode("It's"), specials.end] == theirs("It's")["input_ids"]
    assert (specials.padding, specials.mask, specials.unknown, specials.separator) == (
        theirs.pad_token_id,
        theirs.mask_token_id,
        theirs.unk_token_id,
        theirs.sep_token_id,
    )


def test_t5(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(trained("unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    dump(tmp_path / "tokenizer_config.json", {"extra_ids": 5})
    ours = tokenizer_in(tmp_path, "t5", TRANSLATOR)
    theirs = hf.T5Tokenizer.from_pretrained(tmp_path, extra_ids=5)
    assert_their_ids(ours, theirs, PROBES[:7] + PROBES[8:])
    assert (ours.specials.begin, ours.specials.end, ours.specials.padding) == (None, 1, 0)
    assert ours.encode("<extra_id_0>", allow_special=True)[-1] == ours.size - 1
    assert theirs("<extra_id_0>")["input_ids"][-2] == ours.size - 1
    ids = ours.encode(TEXTS[0])
    assert ours.decode(ids) == theirs.decode(ids)


def test_llama(tmp_path: Path) -> None:
    """SentencePiece puts a mark before a first space; their tokenizer of today, made from the file, does not."""
    (tmp_path / "tokenizer.model").write_bytes(trained("bpe", **LLAMA))
    ours = tokenizer_in(tmp_path, "llama")
    theirs = hf.LlamaTokenizer.from_pretrained(tmp_path)
    assert_their_ids(ours, theirs, [text for text in PROBES if not text.startswith(" ")])
    assert (ours.specials.begin, ours.specials.end, ours.specials.unknown) == (1, 2, 0)
    assert theirs("It's")["input_ids"][-len(ours.encode("It's")) :] == ours.encode("It's")


SPM: dict[str, Callable[[], bytes]] = {
    "unigram": lambda: trained("unigram"),
    "unigram-identity": lambda: trained("unigram", normalization_rule_name="identity"),
    "unigram-plain": lambda: trained("unigram", add_dummy_prefix=False),
    "bpe": lambda: trained("bpe"),
    "bpe-bytes": lambda: trained("bpe", **LLAMA),
}


@pytest.mark.parametrize("name", SPM)
def test_sentencepiece_itself_agrees(name: str) -> None:
    model = SPM[name]()
    library = build_library(parse_sentencepiece(model, name))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for text in PROBES:
        ids = processor.encode(text)
        assert library.encode(text, add_special_tokens=False).ids == ids, text
        if processor.unk_id() not in ids:
            assert library.decode(ids) == processor.decode(ids)


def marian_folder(folder: Path, separate: bool = False) -> dict[str, dict[str, int]]:
    """Two models of two languages, and one list of ids for both; or two lists."""
    halves = {"source": TEXTS[0::3] + TEXTS[2::3], "target": TEXTS[1::3]}
    pieces: dict[str, list[str]] = {}
    for side, texts in halves.items():
        model = trained("unigram", tuple(texts), vocab_size=70)
        (folder / f"{side}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces[side] = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    ends = ["</s>", "<unk>"]
    lists = {"vocab": [*ends, ">>fr<<", *dict.fromkeys(pieces["target"] + pieces["source"]), "<pad>"]}
    if separate:
        lists = {
            "vocab": [*ends, *pieces["source"], "<pad>"],
            "target_vocab": [*ends, *reversed(pieces["target"]), "<pad>"],
        }
    tables = {name: {piece: i for i, piece in enumerate(names)} for name, names in lists.items()}
    for name, table in tables.items():
        dump(folder / f"{name}.json", table)
    dump(
        folder / "tokenizer_config.json",
        {"separate_vocabs": separate, "source_lang": "en", "target_lang": "de"},
    )
    return tables


def has_unknown_run(processor: Any, text: str) -> bool:
    """Whether several unknown characters stand together: theirs then looks all of them up as one piece."""
    pieces = processor.encode(text, out_type=str)
    return any(len(piece) > 1 and processor.piece_to_id(piece) == processor.unk_id() for piece in pieces)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("separate", [False, True])
def test_marian(separate: bool, tmp_path: Path) -> None:
    """Two SentencePiece models with one list of ids, or with two, become two tokenizers."""
    marian_folder(tmp_path, separate)
    target, source = read_tokenizers(HuggingFaceFolder(tmp_path), {"model_type": "marian"}, TRANSLATOR)
    assert target is not None
    assert source is not None
    theirs = hf.MarianTokenizer.from_pretrained(tmp_path)
    compared = 0
    for text in PROBES:
        if not has_unknown_run(theirs.spm_source, text):
            assert source.encode(text) == theirs(text)["input_ids"][:-1], text
            compared += 1
        if not has_unknown_run(theirs.spm_target, text):
            assert target.encode(text) == theirs(text_target=text)["input_ids"][:-1], text
            compared += 1
    assert compared > len(PROBES)
    ids = target.encode(TEXTS[1])
    assert target.decode(ids) == theirs.decode(ids)
    assert source.specials.end == target.specials.end == 0
    assert source.specials.begin is None
    assert target.specials.padding == theirs.pad_token_id or separate
    if not separate:
        assert source.encode(">>fr<< chicken") == theirs(">>fr<< chicken")["input_ids"][:-1]


def test_a_piece_of_the_other_language_is_decoded_and_never_encoded() -> None:
    model = SentencePieceModel([Piece("<unk>", 0, 2), Piece("▁a", -1), Piece("b", -2)])
    library = build_library(renumbered(model, {"</s>": 0, "<unk>": 1, "▁ab": 2, "▁a": 3, "b": 4, ">>x<<": 5}))
    assert library.encode("ab b").ids == [3, 4, 1, 4]
    assert library.decode([2, 4, 2]) == "abb ab"
    assert library.encode(">>x<< a").ids == [5, 3]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it has no pieces"),
        (b"\x0a\xff", "a number that has no end"),
        (b"\x0a\x7f123", "a field that ends at byte 129 of 5"),
        (b"\x0b", "a field of kind 3"),
        (b"\xff" * 30, "a number that is too long"),
        (b"\x0a\x02\x12\x00", "is not a SentencePiece model"),
    ],
)
def test_a_broken_model_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(TokenizerError) as error:
        parse_sentencepiece(content, "x.model")
    assert str(error.value).startswith("x.model is not a SentencePiece model")
    assert reason in str(error.value)


@given(st.binary(max_size=60))
def test_whatever_bytes_there_are_the_reader_ends(content: bytes) -> None:
    with contextlib.suppress(ValueError):
        list(fields(content))


def test_models_of_words_are_refused() -> None:
    with pytest.raises(TokenizerError, match="of words or characters, which is unsupported"):
        parse_sentencepiece(trained("word"), "x.model")


def test_added_tokens_have_their_ids(tmp_path: Path) -> None:
    vocabulary_of("qwen2", tmp_path)
    size = len(json.loads((tmp_path / "vocab.json").read_text()))
    added = {str(size): {"content": "<|im_end|>", "special": True}, str(size + 1): {"content": "<tool>"}}
    dump(tmp_path / "tokenizer_config.json", {"added_tokens_decoder": added, "eos_token": "<|im_end|>"})
    ours = tokenizer_in(tmp_path, "qwen2")
    assert (ours.specials.end, ours.spelling(size + 1), ours.size) == (size, "<tool>", size + 2)
    added = {str(size + 3): {"content": "<|im_end|>", "special": True}}
    dump(tmp_path / "tokenizer_config.json", {"added_tokens_decoder": added})
    with pytest.raises(
        TokenizerError, match=rf"'<\|im_end\|>' must have the id {size + 3}, but the vocabulary"
    ):
        tokenizer_in(tmp_path, "qwen2")


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("merges.txt", "a b c", r"merges.txt, line 1: 'a b c' is not two tokens"),
        ("vocab.json", "[1]", "is not a table of tokens and their ids"),
        ("vocab.json", '{"a": "b"}', "is not a table of tokens and their ids"),
        ("merges.txt", "zz yy", "cannot be read"),
    ],
)
def test_broken_vocabularies_are_refused(file: str, content: str, reason: str, tmp_path: Path) -> None:
    vocabulary_of("gpt2", tmp_path)
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(TokenizerError, match=reason):
        tokenizer_in(tmp_path, "gpt2")


def test_a_folder_without_a_tokenizer_has_none(tmp_path: Path) -> None:
    for family in ("gpt2", "bert", "llama", "t5", "marian"):
        assert read_tokenizers(HuggingFaceFolder(tmp_path), {"model_type": family}, DECODER) == (None, None)
