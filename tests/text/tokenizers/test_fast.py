"""The fast way gives the library's ids, on all of Unicode and on long texts, or is not taken."""

import json
import logging
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken import Encoding
from tokenizers import Regex, pre_tokenizers

from clearhead.text.tokenizers import fast
from clearhead.text.tokenizers.fast import (
    CUTS,
    GPT2,
    GPT4,
    QWEN,
    ByteEncoder,
    Encoder,
    Ids,
    LibraryEncoder,
    PairEncoder,
)
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.texts import ANY_TEXT, trained
from tests.text.tokenizers.foreign import written

NAMES = ["bpe", "bpe nfkc", "bpe lowercase", "byte", "gpt2", "qwen2", "gpt4"]


def _made(name: str) -> Tokenizer:
    match name.split():
        case ["bpe", "nfkc"]:
            return trained("bpe", normalization="nfkc")
        case ["bpe", "lowercase"]:
            return trained("bpe", lowercase=True)
        case ["gpt4"]:
            text = written("qwen2").replace(json.dumps(QWEN)[1:-1], json.dumps(GPT4)[1:-1])
            assert text != written("qwen2")
            return Tokenizer(text)
        case ["gpt2" | "qwen2"]:
            return Tokenizer(written(name))
    return trained(name)


ALL = {name: _made(name) for name in NAMES}


def encoder_of(tokenizer: Tokenizer) -> Encoder:
    return tokenizer._encoder


@pytest.mark.parametrize("name", NAMES)
def test_the_fast_way_is_taken(name: str) -> None:
    assert isinstance(encoder_of(ALL[name]), ByteEncoder if name == "byte" else PairEncoder)


@settings(max_examples=150)
@given(st.lists(ANY_TEXT, max_size=4))
@pytest.mark.parametrize("name", NAMES)
def test_the_ids_are_the_same(name: str, texts: list[str]) -> None:
    tokenizer = ALL[name]
    assert [row.tolist() for row in tokenizer.encode_batch(texts)] == [
        tokenizer.encode(text) for text in texts
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["eat", " ", "\n", "日", "!", "' ", "1"]))))
@pytest.mark.parametrize("name", NAMES)
def test_the_ids_are_the_same_in_long_texts(name: str, runs: list[tuple[int, str]]) -> None:
    """Cut into parts of a few characters, so that every place for a cut is tried."""
    text = "".join(piece * count for count, piece in runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "PART", 3)
        patch.setattr(fast, "LONGEST", 8)
        patch.setattr(fast, "BLOCK", 7)
        patch.setattr(fast, "LIBRARY_BLOCK", 5)
        assert [row.tolist() for row in ALL[name].encode_batch([text, "x", text])] == [
            ALL[name].encode(text),
            ALL[name].encode("x"),
            ALL[name].encode(text),
        ]


@pytest.mark.parametrize("pattern", CUTS)
@given(text=ANY_TEXT)
def test_a_cut_never_cuts_a_word(pattern: str, text: str) -> None:
    words = pre_tokenizers.Split(Regex(pattern), "isolated")
    for cut in CUTS[pattern].finditer(text):
        before, after = text[: cut.start()], text[cut.start() :]
        parts = [word for part in (before, after) for word, _ in words.pre_tokenize_str(part)]
        assert parts == [word for word, _ in words.pre_tokenize_str(text)]


@pytest.mark.parametrize("run", ["a", " ", "\n", "=", "日", "ab", "a "])
def test_a_long_run_of_anything_takes_seconds(run: str) -> None:
    """What the fast way cannot cut goes to the library; its own expressions overflow on a million spaces."""
    text = run * ((1_000_000 if run.isspace() else 300_000) // len(run))
    rows = ALL["bpe"].encode_batch([text, "eat", f"x{text}y"])
    assert ALL["bpe"].decode(rows[0]) == text
    assert ALL["bpe"].decode(rows[2]) == f"x{text}y"


@pytest.mark.prove
def test_both_engines_put_every_character_into_the_same_class() -> None:
    """Letter, number, space or other: all that the patterns ask of a character, for all 1 112 064 of them."""
    letters = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
    ranks = {bytes([byte]): byte for byte in range(256)}
    for asked in (r"\p{L}", r"\p{N}", r"\s"):
        encoding = Encoding("one", pat_str=asked, mergeable_ranks=ranks, special_tokens={})
        ours = bytes(encoding.encode_ordinary("".join(letters))).decode()
        cut = pre_tokenizers.Split(Regex(asked), "removed", invert=True)
        assert ours == "".join(word for word, _ in cut.pre_tokenize_str("".join(letters)))


@pytest.mark.prove
def test_the_byte_level_words_of_the_library_ask_the_same() -> None:
    """From which characters join a letter, a number or a mark in one word."""
    letters = [chr(number) for number in [*range(0xD800), *range(0xE000, 0x32400), *range(0xE0000, 0xE0200)]]
    ranks = {bytes([byte]): byte for byte in range(256)}
    own = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for before, asked in {"a": r"\p{L}", "1": r"\p{N}", "!": r"[^\s\p{L}\p{N}]"}.items():
        encoding = Encoding("one", pat_str=asked, mergeable_ranks=ranks, special_tokens={})
        members = set(bytes(encoding.encode_ordinary("".join(letters))).decode())
        joined = set()
        for start in range(0, len(letters), 2_000):
            text = "\n".join(before + letter for letter in letters[start : start + 2_000])
            words = (text[start:end] for _, (start, end) in own.pre_tokenize_str(text))
            joined |= {word[1] for word in words if len(word) == 2 and word[0] == before}
        assert joined == members


def test_python_knows_at_least_what_the_library_knows_of_normal_forms() -> None:
    """So the library leaves a text alone that is normal for Python, and passing it over changes nothing."""
    forms: list[Literal["NFC", "NFKC"]] = ["NFC", "NFKC"]
    for form in forms:
        normalize = trained("bpe", normalization=form.lower()).normalize
        letters = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
        normal = "\n".join(letter for letter in letters if unicodedata.is_normalized(form, letter))
        assert normalize(normal) == normal


def _changed(style: str, **changes: Any) -> Tokenizer:
    document = json.loads(written(style))
    document["model"] |= changes.pop("model", {})
    return Tokenizer(json.dumps(document | changes))


def _without_merge(keep: int) -> dict[str, Any]:
    return {"merges": json.loads(written("gpt2"))["model"]["merges"][:keep]}


def _swapped() -> dict[str, Any]:
    """The ids of two tokens exchanged, so that ids are no longer in the order of merges."""
    vocabulary = json.loads(written("gpt2"))["model"]["vocab"]
    first, second = [piece for piece, number in vocabulary.items() if number in (300, 310)]
    return {"vocab": vocabulary | {first: vocabulary[second], second: vocabulary[first]}}


ORDINARY = {"id": 401, "content": "tire", "single_word": False, "lstrip": False, "rstrip": False} | {
    "normalized": False,
    "special": False,
}

UNPROVEN: dict[str, dict[str, Any]] = {
    "a token without its merge": {"model": _without_merge(100)},
    "ids in another order": {"model": _swapped()},
    "dropped merges": {"model": {"dropout": 0.5}},
    "a space before": {
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    },
    "no words": {
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        }
    },
    "another pattern": {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": r"\p{L}+|."}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        }
    },
    "ordinary added tokens": {"added_tokens": [*json.loads(written("gpt2"))["added_tokens"], ORDINARY]},
}


@pytest.mark.parametrize("what", UNPROVEN)
def test_what_is_not_proven_goes_to_the_library(what: str) -> None:
    tokenizer = _changed("gpt2", **UNPROVEN[what])
    assert isinstance(encoder_of(tokenizer), LibraryEncoder)
    if what != "dropped merges":
        text = "The tired chicken didn't cross the road"
        assert tokenizer.encode_batch([text])[0].tolist() == tokenizer.encode(text)


def test_other_spellings_of_a_merge_would_differ_and_are_refused() -> None:
    """The token abc, made of ab + c, and the pair a + bc, which is no merge but joins to the same bytes."""
    document = json.loads(written("gpt2"))
    base = {piece: number for piece, number in document["model"]["vocab"].items() if number < 256}
    vocabulary = base | {"bc": 256, "ab": 257, "abc": 258}
    document["model"] |= {"vocab": vocabulary, "merges": [["b", "c"], ["a", "b"], ["ab", "c"]]}
    document["added_tokens"] = []
    tokenizer = Tokenizer(json.dumps(document))
    assert tokenizer.offsets("abc").pieces == ["a", "bc"]
    assert isinstance(encoder_of(tokenizer), LibraryEncoder)
    document["model"] |= {"merges": [["b", "c"], ["a", "b"], ["a", "bc"]]}
    tokenizer = Tokenizer(json.dumps(document))
    assert tokenizer.offsets("abc").pieces == ["abc"]
    assert isinstance(encoder_of(tokenizer), PairEncoder)


def test_a_difference_on_the_sample_is_noticed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong:
        def encode(self, texts: Sequence[str]) -> list[Ids]:
            return [np.zeros(1, np.int32) for _ in texts]

    monkeypatch.setattr(fast, "_candidate", lambda *given: Wrong())
    with caplog.at_level(logging.WARNING):
        assert isinstance(encoder_of(Tokenizer(written("gpt2"))), LibraryEncoder)
    assert "tiktoken and tokenizers differ on a sample" in caplog.text


def test_the_pattern_of_the_library_is_known_by_heart() -> None:
    """`ByteLevel` does not show its pattern, so it is compared on the sample with ours."""
    own = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ours = pre_tokenizers.Split(Regex(GPT2), "isolated")
    words = [fast.PROBE[start:end] for _, (start, end) in own.pre_tokenize_str(fast.PROBE)]
    assert words == [word for word, _ in ours.pre_tokenize_str(fast.PROBE)]
