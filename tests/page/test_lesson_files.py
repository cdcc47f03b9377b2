"""Lesson files: complete in both languages, true about the sources, and mistakes named with file and line."""

import tomllib
from pathlib import Path

import pytest

from clearhead.errors import ConfigError
from clearhead.page.lessons.files import FOLDER, NEEDS, PANEL, languages, panel_words, read_lessons
from tools.notes import find_line, read_rows

LESSONS = read_lessons()
GOOD = """title = "Mine"
change = "src/clearhead/layers/attention.py:plain"

[[steps]]
title = "First"
text = "Look."
look = "main"
[steps.state]
view = "text"
"""


def test_there_are_twenty_lessons_in_two_languages() -> None:
    assert len(LESSONS) >= 20
    assert languages(LESSONS) == ["en", "es"]
    assert all(len(lesson.steps) >= 2 for lesson in LESSONS.values())


def test_no_string_is_missing_in_spanish() -> None:
    for lesson in LESSONS.values():
        other = lesson.within("es")
        assert other.title
        for own, theirs in zip(lesson.steps, other.steps, strict=True):
            assert own.text != theirs.text
            assert bool(own.notes) == bool(theirs.notes)
            assert (own.question is None) == (theirs.question is None)
    keys = {language: set(panel_words(language)) for language in ("en", "es")}
    assert keys["en"] == keys["es"]
    assert {f"needs {need}" for need in NEEDS} <= keys["en"]
    assert {path.name for path in FOLDER.glob("*.toml")} == {
        path.name for path in (FOLDER / "es").glob("*.toml")
    }
    assert PANEL in {path.name for path in FOLDER.glob("*.toml")}


@pytest.mark.parametrize("name", LESSONS)
def test_the_line_to_change_and_the_rows_exist(name: str) -> None:
    assert find_line(LESSONS[name].change) > 0
    assert set(LESSONS[name].rows) <= set(read_rows())


def test_texts_of_a_step_name_only_what_is_filled_in() -> None:
    known = {"q", "k", "at", "head", "stack", "main", "name", "query", "key"}
    for path in FOLDER.glob("*.toml"):
        if path.name == PANEL:
            continue
        for step in tomllib.loads(path.read_text(encoding="utf-8"))["steps"]:
            for word in step["look"].split("{")[1:]:
                assert word.split("}")[0] in known


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('title = "Mine"', 'titel = "Mine"', 1, "no key 'titel'"),
        ('look = "main"', "look = 3", 7, "look must be a text in quotes"),
        ('text = "Look."\n', "", 4, "has no text"),
        ('view = "text"', 'wiev = "text"', 9, "the page has no state 'wiev'"),
        ('change = "src/clearhead/layers/attention.py:plain"', 'change = "somewhere"', 2, "FILE:SYMBOL"),
        ("[[steps]]", 'needs = ["wings"]\n[[steps]]', 4, "needs names 'wings'"),
        ("[[steps]]", "[[steps", 4, "line 4"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, says: str
) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_lessons(tmp_path)
    assert "mine.toml" in str(caught.value)
    assert f"line {line}" in str(caught.value)
    assert says in str(caught.value)


def test_a_translation_that_misses_a_string_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD, encoding="utf-8")
    assert list(read_lessons(tmp_path)) == ["mine"]
    (tmp_path / "de").mkdir()
    (tmp_path / "de" / "mine.toml").write_text(
        'title = "Meine"\n[[steps]]\ntitle = "Erstens"\n', encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r"de/mine.toml, line 2: the translation misses text of step 1"):
        read_lessons(tmp_path)


def test_a_folder_without_lessons_is_an_error(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigError, match=r"Give a folder with \.toml files"):
            read_lessons(folder)
