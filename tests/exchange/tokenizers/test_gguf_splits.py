"""The splits that llama.cpp has names for: each can be built, is found again, and does what its name says."""

import json

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers

from clearhead.errors import TokenizerError
from clearhead.exchange.tokenizers.gguf_splits import (
    LIKE_LLAMA_3,
    SPLITS,
    find_splits,
    pre_tokenizer_of,
    splits_of,
)
from tests.exchange.torture import lines


def words(name: str, text: str) -> list[str]:
    return [text[start:end] for _, (start, end) in pre_tokenizer_of(SPLITS[name]).pre_tokenize_str(text)]


def document(pre_tokenizer: pre_tokenizers.PreTokenizer) -> dict[str, object] | None:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizer
    found: dict[str, object] | None = json.loads(library.to_str())["pre_tokenizer"]
    return found


@pytest.mark.parametrize("name", SPLITS)
def test_a_split_is_found_again_and_loses_nothing(name: str) -> None:
    assert splits_of(document(pre_tokenizer_of(SPLITS[name]))) == SPLITS[name]
    for line in lines():
        assert "".join(words(name, line)) == line


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-2", ["It", "'s", " 1234567", " x", "..", " ", " y", "\n"]),
        ("llama-bpe", ["It", "'s", " ", "123", "456", "7", " x", "..", " ", " y", "\n"]),
        ("qwen2", ["It", "'s", " ", *"1234567", " x", "..", " ", " y", "\n"]),
        ("smollm", ["It", "'s", " ", *"1234567", " x", "..", " ", " y", "\n"]),
        ("default", ["It", "'", "s", " ", "123", "456", "7", " x", "..", " ", " y", "\n"]),
        ("deepseek-llm", ["It", "'", "s", " ", "1234567", " x", "..", " ", " y", "\n"]),
        ("deepseek-coder", ["It", "'", "s", " ", *"1234567", " x", "..", " ", " y", "\n"]),
        ("tekken", ["It", "'s", " ", *"1234567", " x", "..", " ", " y", "\n"]),
    ],
)
def test_words_are_those_of_the_name(name: str, expected: list[str]) -> None:
    assert words(name, "It's 1234567 x..  y\n") == expected


def test_only_tekken_splits_where_capitals_start() -> None:
    assert words("tekken", "camelCase HTMLPage") == ["camel", "Case", " HTMLPage"]
    assert words("llama-bpe", "camelCase HTMLPage") == ["camelCase", " HTMLPage"]


def test_the_digits_of_smollm_are_a_split_with_a_name() -> None:
    digits = pre_tokenizers.Digits(individual_digits=True)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert splits_of(document(pre_tokenizers.Sequence([digits, level]))) == SPLITS["smollm"]
    assert splits_of(document(pre_tokenizers.Sequence([level, digits]))) is None
    assert splits_of(document(pre_tokenizers.Whitespace())) is None


def test_an_unknown_name_is_refused_with_what_to_do() -> None:
    with pytest.raises(TokenizerError, match=r"splits text as 'smolm'.*Did you mean smollm") as error:
        find_splits("smolm")
    assert "--no-tokenizer" in str(error.value)
    assert set(LIKE_LLAMA_3) < set(SPLITS)
