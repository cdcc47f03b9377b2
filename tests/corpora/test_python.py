"""The standard library's source as a corpus."""

import sys
from pathlib import Path

import pytest

from clearhead.corpora import python
from clearhead.errors import DataError
from clearhead.examples import Split, Text

ALL: tuple[Split, ...] = ("train", "validation", "test")


def tree(root: Path, files: dict[str, bytes]) -> Path:
    """A folder with these files."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


LIBRARY = {
    "json/decoder.py": b"x = 1\n",
    "abc.py": b"y = 2\r\n",
    "copy_of_abc.py": b"y = 2\n",
    "blank.py": b" \n\n",
    "latin.py": "# é\n".encode("latin-1"),
    "json/tests/test_it.py": b"z = 3\n",
    "test/support.py": b"w = 4\n",
    "site-packages/other.py": b"v = 5\n",
    "__pycache__/abc.py": b"u = 6\n",
    "readme.txt": b"words\n",
}


def test_only_readable_source_of_the_library_itself_is_taken(tmp_path: Path) -> None:
    root = tree(tmp_path, LIBRARY)
    assert python.documents(root, with_tests=False) == {"abc.py": "y = 2\n", "json/decoder.py": "x = 1\n"}


def test_the_tests_are_an_option(tmp_path: Path) -> None:
    root = tree(tmp_path, LIBRARY)
    assert set(python.documents(root, with_tests=True)) == {
        "abc.py",
        "json/decoder.py",
        "json/tests/test_it.py",
        "test/support.py",
    }


def test_the_three_splits_are_the_whole_library() -> None:
    texts = [
        example.text
        for split in ALL
        for example in python.CORPUS.examples(split)
        if isinstance(example, Text)
    ]
    assert sorted(texts) == sorted(python.documents(python.library(), with_tests=False).values())
    assert len(texts) > 300
    source = Path(python.__file__).parents[0] / "corpus.py"
    assert source.read_text(encoding="utf-8") not in texts


def test_the_seed_changes_the_order_and_nothing_else() -> None:
    one, two = (list(python.CORPUS.examples("validation", seed)) for seed in (1, 2))
    assert one != two
    assert set(one) == set(two)


def test_a_file_stays_in_its_split_from_version_to_version() -> None:
    assert python.CORPUS.split_of("json/decoder.py") == "train"
    assert python.CORPUS.split_of("abc.py") == "train"


def test_an_interpreter_without_source_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "library", lambda: tmp_path)
    with pytest.raises(DataError, match=r"found no source files in .*\nThis interpreter comes without"):
        next(python.CORPUS.examples("train"))


def test_the_library_is_that_of_the_running_interpreter() -> None:
    import json

    assert Path(json.__file__).parent.parent == python.library()
    assert sys.prefix not in map(str, python.files(python.library(), with_tests=False))
