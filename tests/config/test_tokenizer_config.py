"""The settings of a tokenizer: what they refuse, and what they say of a kind."""

import pytest

from clearhead.config.tokenizer import BYTES, SPECIALS, TokenizerConfig
from clearhead.errors import ConfigError
from clearhead.text.tokenizers.kinds import KINDS
from clearhead.text.tokenizers.roles import SPELLINGS
from tests.text.texts import trained


def test_the_special_tokens_are_counted_right() -> None:
    assert len(SPELLINGS) == SPECIALS
    assert trained("byte").size == BYTES + SPECIALS - 1


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
def test_a_vocabulary_must_hold_the_bytes(kind: str) -> None:
    assert TokenizerConfig.model_validate({"kind": kind, "vocabulary": 261}).vocabulary == 261
    with pytest.raises(
        ConfigError, match=rf"tokenizer.vocabulary = 260 is too small for tokenizer.kind = '{kind}'"
    ):
        TokenizerConfig.model_validate({"kind": kind, "vocabulary": 260})


def test_small_vocabularies_are_for_kinds_without_bytes() -> None:
    for settings in ({"kind": "word"}, {"kind": "wordpiece"}, {"kind": "character", "byte_fallback": False}):
        assert TokenizerConfig.model_validate(settings | {"vocabulary": 40}).vocabulary == 40


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"kind": "bpee"}, "tokenizer.kind = 'bpee'.*'bpe'"),
        ({"size": 9}, "tokenizer.size is not a setting.*Known: .*vocabulary"),
        ({"vocabulary": 0}, "tokenizer.vocabulary = 0 .*maximum number of tokens"),
        ({"k": 9}, "tokenizer.k = 9 .*letters per token of dna"),
        ({"normalization": "nfd"}, "tokenizer.normalization = 'nfd' .*Unicode normalization form"),
    ],
)
def test_a_setting_that_cannot_work_says_so(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){complaint}"):
        TokenizerConfig.model_validate(settings)


def test_every_setting_says_what_it_means() -> None:
    assert all(field.description for field in TokenizerConfig.model_fields.values())


def test_a_kind_says_whether_it_has_unknowns() -> None:
    unknowns = {kind: TokenizerConfig.model_validate({"kind": kind}).has_unknowns for kind in KINDS}
    assert [kind for kind, has in unknowns.items() if has] == ["wordpiece", "word", "dna"]
    assert TokenizerConfig(kind="character", byte_fallback=False).has_unknowns
