"""Text while it is generated equals the text of all ids at once, in whole characters and linear time."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models

from clearhead.errors import InputError
from clearhead.text.tokenizers.kinds import KINDS
from clearhead.text.tokenizers.stream import Stream
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.texts import ANY_TEXT, trained
from tests.text.tokenizers.foreign import STYLES, written

ALL = {kind: trained(kind) for kind in KINDS} | {style: Tokenizer(written(style)) for style in STYLES}
PIECES = [
    "a",
    " b ",
    "▁c▁",
    "▁▁",
    " ",
    "##d",
    "<0xE2>",
    "<0x82>",
    "<0xAC>",
    "<0x41>",
    "e</w>",
    "aba",
    ".",
    "ba",
]

CHAINS: dict[str, list[Any]] = {
    "replace": [decoders.Fuse(), decoders.Replace("ab", "b"), decoders.Replace("bb", "")],
    "replace longer": [decoders.Fuse(), decoders.Replace("aba", "-"), decoders.Replace(" b", "ab")],
    "strip": [decoders.Fuse(), decoders.Strip(" ", 2, 0)],
    "strip each": [decoders.Strip("a", 1, 0)],
    "bytes, then strip": [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip("�", 1, 0)],
    "marks": [decoders.Metaspace(prepend_scheme="first"), decoders.ByteFallback()],
    "marks kept": [decoders.Metaspace(prepend_scheme="never")],
    "words": [decoders.WordPiece(cleanup=True), decoders.Fuse(), decoders.Replace(" .", ".")],
    "suffix": [decoders.BPEDecoder(), decoders.Strip(" ", 1, 0)],
    "not known fused": [decoders.Fuse(), decoders.ByteFallback()],
}


def streamed(tokenizer: Tokenizer, ids: list[int], keep_special: bool = False) -> tuple[list[str], str]:
    stream = Stream(tokenizer, keep_special)
    return [stream.push(token) for token in ids], stream.finish()


@given(st.data(), st.booleans())
@pytest.mark.parametrize("name", ALL)
def test_the_pieces_joined_are_the_text(name: str, data: st.DataObject, keep_special: bool) -> None:
    """For any ids at all, sound or not."""
    tokenizer = ALL[name]
    ids = data.draw(st.lists(st.integers(0, tokenizer.size + 2), max_size=30))
    pieces, rest = streamed(tokenizer, ids, keep_special)
    assert "".join(pieces) + rest == tokenizer.decode(ids, keep_special)


@given(ANY_TEXT)
@pytest.mark.parametrize("name", ["bpe", "unigram", "character", "byte", "gpt2", "llama"])
def test_no_piece_holds_a_broken_character(name: str, text: str) -> None:
    tokenizer, text = ALL[name], text.replace("�", "")
    pieces, rest = streamed(tokenizer, tokenizer.encode(text))
    assert "�" not in "".join(pieces) + rest


def test_a_character_waits_for_its_last_byte() -> None:
    tokenizer = ALL["byte"]
    ids = tokenizer.encode("a€é")
    assert streamed(tokenizer, ids) == (["a", "", "", "€", "", "é"], "")
    assert streamed(tokenizer, ids[:3]) == (["a", "", ""], "�")
    assert streamed(tokenizer, [*ids[:3], ids[0]]) == (["a", "", "", "�a"], "")


def test_a_run_of_fallback_bytes_waits_for_its_end() -> None:
    tokenizer = ALL["character"]
    ids = tokenizer.encode("€ñ.")
    assert streamed(tokenizer, ids) == (["", "", "", "", "", "€ñ."], "")
    assert streamed(tokenizer, ids[:2]) == (["", ""], "��")


@settings(max_examples=100)
@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=12))
@pytest.mark.parametrize("chain", CHAINS)
def test_every_step_does_what_the_library_does(chain: str, ids: list[int]) -> None:
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    library = Library(models.BPE(vocab=vocabulary, merges=[]))
    library.decoder = decoders.Sequence(CHAINS[chain])
    tokenizer = Tokenizer(library.to_str())
    pieces, rest = streamed(tokenizer, ids)
    assert "".join(pieces) + rest == library.decode(ids)


def test_the_stream_of_the_library_still_breaks_these_laws() -> None:
    """Once it does not, ours can go: nothing else is said for it."""
    library = Library.from_str(ALL["character"].document)
    vocabulary = library.get_vocab()
    ids = [vocabulary[token] for token in ("<0x3A>", "<0xC3>", "a")]
    theirs = decoders.DecodeStream(skip_special_tokens=True)
    assert [theirs.step(library, token) for token in ids[:2]] == [":", None]
    assert streamed(ALL["character"], ids[:2]) == (["", ""], "��") == (["", ""], library.decode(ids[:2]))
    with pytest.raises(Exception, match="Invalid prefix encountered"):
        theirs.step(library, ids[2])


def test_a_decoder_that_must_see_all_gives_all_at_the_end() -> None:
    tokenizer = ALL["speech"]
    ids = tokenizer.encode("aa b")
    assert streamed(tokenizer, ids) == ([""] * 4, "a b")


def test_special_tokens_are_left_out_or_kept() -> None:
    tokenizer = ALL["bpe"]
    ids = tokenizer.encode("eat", begin=True, end=True)
    assert "".join(streamed(tokenizer, ids)[0]) == "eat"
    assert "".join(streamed(tokenizer, ids, keep_special=True)[0]) == "<s>eat</s>"


def test_a_finished_stream_takes_no_more() -> None:
    stream = Stream(ALL["bpe"])
    stream.finish()
    with pytest.raises(InputError, match=r"This stream is finished\. Create a new one"):
        stream.push(7)
    with pytest.raises(InputError, match="This stream is finished"):
        stream.finish()


@pytest.mark.parametrize("name", ["bpe", "wordpiece", "character", "t5", "llama", "bert"])
def test_a_long_text_costs_as_much_for_each_id_as_a_short_one(name: str) -> None:
    tokenizer = ALL[name]
    ids = tokenizer.encode("the chicken is eating. ¿hambre? ")

    def seconds(count: int) -> float:
        stream, start = Stream(tokenizer), time.process_time()
        for token in (ids * (count // len(ids) + 1))[:count]:
            stream.push(token)
        return time.process_time() - start

    short = min(seconds(500) for _ in range(5))
    assert min(seconds(8_000) for _ in range(2)) < 16 * 4 * short  # decoding all of it each time: 256 times
