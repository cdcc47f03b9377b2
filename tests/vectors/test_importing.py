"""Files of word2vec and GloVe: read as gensim reads them, damaged ones refused with the place."""

import gzip
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import ClearheadError, DataError
from clearhead.vectors.importing import import_vectors
from tests.vectors.tables import small_table


@pytest.fixture
def written(tmp_path: Path) -> dict[str, Path]:
    """The same vectors in every format, by gensim where it writes one."""
    from gensim.models import KeyedVectors

    table = small_table()
    vectors = KeyedVectors(3)
    vectors.add_vectors(table.words, table.E.numpy())
    text, binary, glove = (tmp_path / name for name in ("w.txt", "w.bin", "glove.txt"))
    vectors.save_word2vec_format(str(text))
    vectors.save_word2vec_format(str(binary), binary=True)
    vectors.save_word2vec_format(str(glove), write_header=False)
    return {"word2vec text": text, "word2vec binary": binary, "GloVe": glove}


@pytest.mark.parametrize("format", ["word2vec text", "word2vec binary", "GloVe"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_what_gensim_writes_is_read(written: dict[str, Path], format: str, is_packed: bool) -> None:
    path = written[format]
    if is_packed:
        packed = path.with_name(f"{path.name}.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    imported = import_vectors(path)
    table = imported.table("w")
    assert imported.format == format
    assert table.words == small_table().words
    assert np.array_equal(table.E.numpy(), small_table().E.numpy())


@pytest.mark.parametrize("format", ["word2vec text", "word2vec binary", "GloVe"])
def test_only_the_first_words_are_read_where_asked(written: dict[str, Path], format: str) -> None:
    assert list(import_vectors(written[format], 2).rows) == ["man", "woman"]


def test_a_word_of_glove_may_contain_spaces(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("the 1 2\n. . . 3 4\n", encoding="utf-8")
    assert list(import_vectors(tmp_path / "g.txt").rows) == ["the", ". . ."]


def test_of_a_repeated_word_the_first_vector_counts(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a 1 2\nb 3 4\na 5 6\n", encoding="utf-8")
    imported = import_vectors(tmp_path / "g.txt")
    assert (imported.repeated, imported.rows["a"].tolist()) == (1, [1, 2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2 3\na 1 2 3\nb 1 2\n", "line 3: a word and 3 numbers are expected, but there are 3 parts"),
        ("a 1 2\nb 1 x\n", "line 2: .*'x'"),
        ("a 1 2\nb 1 nan\n", "line 2: the vector of 'b' is not finite"),
        ("3 2\na 1 2\nb 1 2\n", "has 2 vectors, but its first line announces 3"),
        ("1 2\na 1 2\nb 1 2\n", "has 2 vectors, but its first line announces 1"),
        ("99999999999 2\na 1 2\n", "line 1: 99,999,999,999 vectors"),
        ("2 99999\na 1 2\n", "line 1: 2 vectors of 99,999 numbers"),
        ("hello world\n", "line 1: neither"),
        ("", "line 1: neither"),
        ("a 1 2\n 3 4\n", "line 2: "),
        ("a 1 2\nb \0 2\n", "line 2 contains a NUL byte"),
    ],
)
def test_a_damaged_text_file_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "g.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        import_vectors(tmp_path / "g.txt")


def test_bytes_that_are_not_text_are_refused_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_bytes(b"a 1 2\nb\xff\xfe 1 2\n")
    with pytest.raises(DataError, match="line 2"):
        import_vectors(tmp_path / "g.txt")


@pytest.mark.parametrize("kept", [0, 5, 12, 40])
def test_a_truncated_binary_file_is_refused(written: dict[str, Path], kept: int) -> None:
    path = written["word2vec binary"]
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"vectors|word"):
        import_vectors(path)


def test_a_binary_file_of_another_width_is_refused(written: dict[str, Path]) -> None:
    path = written["word2vec binary"]
    path.write_bytes(path.read_bytes().replace(b"7 3\n", b"7 4\n", 1))
    with pytest.raises(DataError):
        import_vectors(path)


def test_more_than_was_announced_is_refused(written: dict[str, Path]) -> None:
    path = written["word2vec binary"]
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(DataError, match="more than the 7 vectors"):
        import_vectors(path)


def test_a_damaged_gzip_is_refused(written: dict[str, Path]) -> None:
    path = written["word2vec binary"].with_name("w.bin.gz")
    path.write_bytes(gzip.compress(written["word2vec binary"].read_bytes())[:-12])
    with pytest.raises(DataError, match="damaged"):
        import_vectors(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "no", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(DataError, match=message):
            import_vectors(path)


@given(st.binary(max_size=200), st.sampled_from([b"", b"3 2\n", b"1 1\n"]))
def test_no_file_brings_it_down(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, first: bytes
) -> None:
    path = tmp_path_factory.mktemp("files") / "w.bin"
    path.write_bytes(first + content)
    with suppress(ClearheadError):
        assert import_vectors(path).rows
