"""Laws of every kind of tokenizer, taken from the table, and what the notes say of tokens (N1, N8)."""

import copy
import random
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clearhead.config.tokenizer import Kind, TokenizerConfig
from clearhead.errors import DataError, InputError, TokenizerError
from clearhead.text.tokenizers.kinds import KINDS, in_short_words
from clearhead.text.tokenizers.roles import SPELLINGS
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.texts import ANY_TEXT, CORPUS, FRAGMENTS, trained

WITHOUT_UNKNOWNS = [kind for kind in KINDS if not TokenizerConfig.model_validate({"kind": kind}).has_unknowns]
SPELLED = st.lists(st.sampled_from([*SPELLINGS.values(), "a", " ", "eat", "<"])).map("".join)
DNA = st.text("ACGTNacgtn")


def test_the_table_and_the_settings_name_the_same_kinds() -> None:
    assert list(KINDS) == list(get_args(Kind))
    assert WITHOUT_UNKNOWNS == ["bpe", "unigram", "character", "byte"]


@pytest.mark.notes("N1")
@pytest.mark.parametrize(
    ("kind", "text", "pieces"),
    [
        ("word", "She is to eat.", ["She", "is", "to", "eat", "."]),
        ("character", "eating", ["e", "a", "t", "i", "n", "g"]),
        ("wordpiece", "eat eating", ["eat", "eat", "##ing"]),
        ("bpe", "eat eating", ["eat", " eat", "ing"]),
        ("dna", "ACGTAACG", ["A", "C", "G", "T", "A", "A", "C", "G"]),
        ("byte", "é!", ["\\xc3", "\\xa9", "!"]),
    ],
)
def test_a_raw_sequence_becomes_tokens(kind: str, text: str, pieces: list[str]) -> None:
    """Words, characters, sub-words, letters of DNA."""
    rare = ["reading singing walking talking cooking playing", "She is eating."]
    texts = rare * 3 + ["eat to eat, eat and eat: is She . to."] * 4
    config = TokenizerConfig.model_validate({"kind": kind, "vocabulary": 400, "minimum_frequency": 6})
    tokenizer = Tokenizer.train(texts, config)
    assert tokenizer.offsets(text).pieces == pieces


@pytest.mark.notes("N1")
def test_dna_is_also_read_in_groups_of_letters() -> None:
    tokenizer = trained("dna", k=3)
    assert tokenizer.offsets("ACGTAACG").pieces == ["ACG", "TAA", "C", "G"]
    assert tokenizer.offsets("ACNGTAacg").pieces == ["A", "C", "N", "GTA", "ACG"]
    assert tokenizer.size == len(SPELLINGS) + 5 + 4**3


@given(DNA, st.integers(1, 4))
def test_dna_comes_back_in_capitals(text: str, k: int) -> None:
    tokenizer = trained("dna", k=k)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalize(text) == text.upper()
    assert tokenizer.counts_unknown(ids) == 0


@pytest.mark.notes("N8")
@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_has_a_begin_and_an_end(kind: str) -> None:
    tokenizer = trained(kind)
    begin, end = tokenizer.specials.begin, tokenizer.specials.end
    inner = tokenizer.encode("ACGT")
    assert begin is not None
    assert end is not None
    assert begin != end
    assert tokenizer.encode("ACGT", begin=True, end=True) == [begin, *inner, end]
    assert tokenizer.encode("", begin=True) == [begin]
    rows = tokenizer.encode_batch(["ACGT", ""], begin=True, end=True)
    assert [row.tolist() for row in rows] == [[begin, *inner, end], [begin, end]]
    assert tokenizer.decode([begin, *inner, end]) == tokenizer.decode(inner)
    assert tokenizer.decode([begin, end], keep_special=True).split() in ([["<s></s>"], ["<s>", "</s>"]])
    encoded = tokenizer.offsets("ACGT", begin=True, end=True)
    assert (encoded.offsets[0], encoded.offsets[-1]) == ((0, 0), (4, 4))
    assert (encoded.pieces[0], encoded.pieces[-1]) == ("<s>", "</s>")


@settings(max_examples=100)
@given(ANY_TEXT)
@pytest.mark.parametrize("form", ["none", "nfc", "nfkc", "lowercase"])
@pytest.mark.parametrize("kind", WITHOUT_UNKNOWNS)
def test_decoding_returns_the_normalised_text(kind: str, form: str, text: str) -> None:
    chosen = {"lowercase": True} if form == "lowercase" else {"normalization": form}
    tokenizer = trained(kind, **chosen)
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text)
    if form == "none":
        assert tokenizer.normalize(text) == text
    if form == "nfc" and all(map(_is_old, text)):
        assert tokenizer.normalize(text) == unicodedata.normalize("NFC", text)


def _is_old(letter: str) -> bool:
    """Whether Unicode had this character in 2002, before the library's tables were made."""
    return unicodedata.ucd_3_2_0.category(letter) != "Cn"


@settings(max_examples=100)
@given(ANY_TEXT)
@pytest.mark.parametrize("kind", KINDS)
def test_offsets_slice_the_text(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    encoded = tokenizer.offsets(text)
    assert encoded.ids == tokenizer.encode(text)
    covered: set[int] = set()
    for token, (start, end), piece in zip(encoded.ids, encoded.offsets, encoded.pieces, strict=True):
        assert 0 <= start < end <= len(text)
        covered.update(range(start, end))
        if token != tokenizer.specials.unknown and "\\x" not in piece:
            assert tokenizer.normalize(text[start:end]) == piece.removeprefix("##")
    starts = [start for start, _ in encoded.offsets]
    assert starts == sorted(starts)
    may_be_left = str.isspace if kind in ("word", "wordpiece") else lambda letter: False
    assert all(may_be_left(text[place]) for place in set(range(len(text))) - covered)


@pytest.mark.parametrize("kind", WITHOUT_UNKNOWNS)
def test_offsets_hold_what_normalising_joined(kind: str) -> None:
    text = "xe\u0301\u1100\u1161\u11a8y"
    offsets = trained(kind).offsets(text).offsets
    assert [text[start:end] for start, end in dict.fromkeys(offsets)] == ["x", "e\u0301", text[3:6], "y"]


@given(st.lists(ANY_TEXT, max_size=5))
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_equals_its_texts(kind: str, texts: list[str]) -> None:
    tokenizer = trained(kind)
    rows = tokenizer.encode_batch(texts)
    assert [row.tolist() for row in rows] == [tokenizer.encode(text) for text in texts]
    assert all(row.dtype.name == "int32" and row.flags.writeable for row in rows)


@given(SPELLED)
@example("".join(FRAGMENTS))
@pytest.mark.parametrize("kind", KINDS)
def test_text_never_spells_a_special_token(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    forbidden = tokenizer.specials.ids - {tokenizer.specials.unknown}
    assert forbidden.isdisjoint(tokenizer.encode(text))
    assert all(forbidden.isdisjoint(row.tolist()) for row in tokenizer.encode_batch([text, text]))
    assert forbidden.isdisjoint(tokenizer.offsets(text).ids)


@pytest.mark.parametrize("kind", KINDS)
def test_text_spells_special_tokens_where_that_is_allowed(kind: str) -> None:
    tokenizer = trained(kind)
    end, mask = tokenizer.specials.end, tokenizer.specials.mask
    assert tokenizer.encode("</s><mask>", allow_special=True) == [end, mask]
    assert tokenizer.encode_batch(["</s><mask>"], allow_special=True)[0].tolist() == [end, mask]
    assert tokenizer.offsets("</s><mask>", allow_special=True).offsets == [(0, 4), (4, 10)]


def test_special_tokens_have_the_first_ids_and_unknown_only_where_needed() -> None:
    for kind in KINDS:
        specials = trained(kind).specials
        assert sorted(specials.ids) == list(range(len(specials.ids)))
        assert (specials.unknown is None) == (kind in WITHOUT_UNKNOWNS)
    assert trained("character", byte_fallback=False).specials.unknown is not None


def test_unknown_tokens_are_counted() -> None:
    word = trained("word")
    ids = word.encode("The chicken met Emma, twice")
    assert word.counts_unknown(ids) == 3
    assert word.counts_unknown(word.encode_batch(["Emma", "The"])[0]) == 1
    assert trained("bpe").counts_unknown(ids) == 0
    assert trained("dna").counts_unknown(trained("dna").encode("ACRT-")) == 2
    assert trained("character", byte_fallback=False).counts_unknown([5, 9, 5]) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_tokenizer(kind: str) -> None:
    ties = [
        " ".join(
            a + b + c for a in ("ba", "ce", "di") for b in ("fo", "gu", "ha") for c in ("ja", "ke", "li")
        )
    ]
    config = TokenizerConfig.model_validate({"kind": kind, "vocabulary": 300})
    digests = {Tokenizer.train(CORPUS + ties * 3, config).digest for _ in range(4)}
    assert len(digests) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_is_not_larger_than_asked_for(kind: str) -> None:
    for most in (270, 300):
        tokenizer = trained(kind, vocabulary=most, minimum_frequency=1)
        assert tokenizer.size <= most
        assert [tokenizer.spelling(token) for token in range(tokenizer.size)].count(None) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_read_once_in_a_stream(kind: str) -> None:
    waiting = iter(CORPUS)
    tokenizer = Tokenizer.train((text for text in waiting), TokenizerConfig.model_validate({"kind": kind}))
    assert tokenizer.size > 5
    assert list(waiting) == ([] if kind not in ("byte", "dna") else CORPUS)


def test_words_come_back_with_their_marks() -> None:
    for kind in ("word", "wordpiece"):
        tokenizer = Tokenizer.train(
            ["¿Tienes hambre (hoy)? I'm not hungry, yet. “No”; 5 %! My friends' T-shirt - yes."] * 9,
            TokenizerConfig.model_validate({"kind": kind}),
        )
        text = "I'm not hungry (yet). ¿Tienes hambre, hoy?"
        assert tokenizer.decode(tokenizer.encode("  " + text.replace(" ", "  \n"))) == text
        assert tokenizer.decode(tokenizer.encode("“No”; 5 %!")) == "“No”; 5%!"
        text = "My friends' T-shirt - yes."
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_lowercase_and_forms() -> None:
    assert trained("word", lowercase=True).offsets("THE chicken").pieces == ["the", "chicken"]
    assert trained("bpe", normalization="nfkc").normalize("ﬁ ①") == "fi 1"
    assert trained("bpe", normalization="none").normalize("e\u0301") == "e\u0301"


def test_rare_words_and_characters_are_not_learned() -> None:
    config = TokenizerConfig(kind="word", minimum_frequency=3)
    tokenizer = Tokenizer.train(["three three three two two"], config)
    assert tokenizer.offsets("two three").pieces == ["<unk>", "three"]
    config = TokenizerConfig(kind="character", minimum_frequency=3)
    assert Tokenizer.train(["aaabb"], config).size == 5 + 256 + 1


def test_a_piece_shows_half_a_character_as_hex() -> None:
    tokenizer = trained("byte")
    assert [tokenizer.piece(token) for token in tokenizer.encode("€")] == ["\\xe2", "\\x82", "\\xac"]
    assert [tokenizer.piece(token) for token in tokenizer.encode("a b")] == ["a", " ", "b"]
    fallback = trained("character")
    assert [fallback.piece(token) for token in fallback.encode("€a")] == ["\\xe2", "\\x82", "\\xac", "a"]
    assert tokenizer.piece(100_000) == "<100000>"
    assert tokenizer.decode([100_000]) == ""


def test_a_copy_is_the_same_tokenizer() -> None:
    tokenizer = trained("bpe")
    again = copy.deepcopy(tokenizer)
    assert again is not tokenizer
    assert again.digest == tokenizer.digest
    assert again.encode("eating </s>") == tokenizer.encode("eating </s>")
    assert repr(again).startswith("Tokenizer(")


def test_no_text_is_an_error() -> None:
    for kind in KINDS:
        config = TokenizerConfig.model_validate({"kind": kind})
        if kind in ("byte", "dna"):
            assert Tokenizer.train([], config).size > 5
            continue
        with pytest.raises(TokenizerError, match="no text to train a tokenizer on: 2 texts, all empty"):
            Tokenizer.train(["", ""], config)


@given(st.lists(st.text("ab \n", max_size=40).map(lambda text: text * 60)))
@example(["", "a" * 255, "a" * 256, "a" * 1000, " " * 1000, "to be"])
def test_pairs_are_learned_from_short_words_and_from_all_of_the_text(texts: list[str]) -> None:
    short = list(in_short_words(texts))
    assert "".join(short) == "".join(texts)
    assert all(len(run) <= 256 for text in short for run in re.findall(r"\S+|\s+", text))
    assert short == list(in_short_words(short))


def test_one_endless_word_is_learned_in_seconds_and_comes_back_whole() -> None:
    """It took minutes, and a megabyte would have taken an hour."""
    word = "".join(random.Random(1).choices("abcdefgh", k=200_000))
    tokenizer = Tokenizer.train([word], TokenizerConfig(kind="bpe", vocabulary=400))
    ids = tokenizer.encode(word)
    assert len(ids) < 0.8 * len(word)
    assert tokenizer.decode(ids) == word


def test_what_goes_wrong_while_reading_is_not_blamed_on_the_trainer() -> None:
    def texts() -> Iterator[str]:
        yield from CORPUS
        raise DataError("train.txt:7 is not UTF-8.")

    for kind in ("bpe", "character", "wordpiece", "unigram"):
        with pytest.raises(DataError, match=r"train\.txt:7"):
            Tokenizer.train(texts(), TokenizerConfig.model_validate({"kind": kind}))


@pytest.mark.parametrize("kind", ["bpe", "character", "word"])
def test_what_is_no_text_is_refused(kind: str) -> None:
    tokenizer = trained(kind)
    with pytest.raises(InputError, match=r"Character 2 of the text is '\\ud800', half of a surrogate pair"):
        tokenizer.encode("ab\ud800")
    with pytest.raises(InputError, match="Character 0"):
        tokenizer.encode_batch(["ab", "\udfff"])
    with pytest.raises(InputError, match="Expected a text, not int: 7"):
        tokenizer.encode(7)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="half of a surrogate pair"):
        Tokenizer.train(["a\ud800"], TokenizerConfig.model_validate({"kind": kind}))
    with pytest.raises(InputError, match="is never negative"):
        tokenizer.decode([3, -1])


def test_no_torch_is_imported() -> None:
    code = "import sys, clearhead.text.tokenizers.stream; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
