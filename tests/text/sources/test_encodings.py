"""Encodings are found out from the bytes: what was written is what is read, or the line that cannot be is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.data import Reading
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Text
from clearhead.text.sources import lines as lines_module
from clearhead.text.sources.encodings import find_encoding
from clearhead.text.sources.read import read

SENTENCES = {
    "de": "Der Bär aß süße Äpfel – „so schön!“\n",
    "fr": "L’été dernier, à Nîmes, ça coûtait 5 € : c’était « très » cher.\n",
    "es": "¿Dónde está el niño? ¡Mañana será otro día!\n",
    "sv": "Räksmörgås på Åland\n",
    "ca": "El col·legi és a l'illa.\n",
}
OTHERS = {"cp1251": "Все счастливые семьи похожи.\n", "cp1250": "Zażółć gęślą jaźń, pchnąć w tę łódź.\n",
          "cp1253": "Καλημέρα κόσμε\n", "shift_jis": "吾輩は猫である。\n", "gb18030": "你好，世界。\n"}  # fmt: skip


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_western_text_is_read_as_it_was_written(tmp_path: Path, encoding: str, text: str) -> None:
    (tmp_path / "a.txt").write_bytes((text * 3).encode(encoding))
    reader = read(tmp_path / "a.txt", "text")
    assert list(reader) == [Text(text * 3)]
    is_told = not encoding.startswith("utf-8")
    assert bool(reader.tally.guesses) == is_told
    if encoding == "cp1252":
        assert reader.tally.guesses == [f"{tmp_path / 'a.txt'} is read as Windows-1252 (data.encoding)"]


@pytest.mark.parametrize("encoding", OTHERS)
def test_other_encodings_are_stated_and_never_guessed(tmp_path: Path, encoding: str) -> None:
    text = OTHERS[encoding] * 3
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    with pytest.raises(DataError, match=r"is not valid UTF-8.\nIf this is text, .* --data.encoding cp1252"):
        list(read(tmp_path / "a.txt", "text"))
    assert list(read(tmp_path / "a.txt", "text", reading=Reading(encoding=encoding))) == [Text(text)]


@given(
    st.text(st.characters(codec="utf-8")), st.integers(1, 9), st.sampled_from(["utf-16", "utf-32", "utf-8"])
)
def test_blocks_of_any_size_give_the_same_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, encoding: str
) -> None:
    text = "x\n" + text.replace("\0", "").replace("\r", "")
    path = tmp_path_factory.getbasetemp() / "blocks.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", size)
        patch.setattr(lines_module, "SAMPLE_BYTES", 5 * size)
        examples = list(read(path, "text"))
    assert "".join(example.text for example in examples if isinstance(example, Text)) == text


@given(st.binary(max_size=200))
def test_any_bytes_have_an_encoding(sample: bytes) -> None:
    find_encoding(sample)


@given(st.text(min_size=1))
def test_utf8_is_never_taken_for_anything_else(text: str) -> None:
    assert find_encoding(("x" + text.replace("\0", "")).encode("utf-8", "ignore")).name == "utf-8"


def test_utf16_without_a_mark(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        (tmp_path / "a.txt").write_bytes("Räksmörgås\n".encode(encoding))
        assert list(read(tmp_path / "a.txt", "text")) == [Text("Räksmörgås\n")]


def test_returns_alone_end_the_lines_of_a_file_without_newlines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\r")
    assert list(read(tmp_path / "a.txt", "text")) == [Text("one\ntwo\n")]


def test_an_unknown_encoding_is_refused() -> None:
    for name in ("utf-9", "zlib", "hex"):
        with pytest.raises(ConfigError, match=r"encoding .*it is not an encoding of text"):
            Reading(encoding=name)
