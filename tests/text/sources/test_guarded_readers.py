"""Workbooks, pages, lists and folders that are too large, damaged, deep or mixed; and what was guessed is shown."""

import io
import json
import sys
import tracemalloc
import zipfile
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.data import Reading
from clearhead.errors import DataError
from clearhead.examples import Example, Kind, Labelled, Text
from clearhead.text.sources.read import read
from clearhead.text.sources.readers import json as json_reader
from clearhead.text.sources.readers import xlsx
from clearhead.text.sources.readers.html import PageText
from clearhead.text.sources.table_shape import find_delimiter, has_header
from clearhead.training.recipes.columns import guess_columns


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    book = openpyxl.Workbook()
    for row in (("text", "label"), ("fine", 1), (None, None), ("bad", 2.5)):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    return tmp_path / "a.xlsx"


def test_a_workbook_gives_its_rows(workbook: Path) -> None:
    reader = read(workbook, "labelled")
    assert list(reader) == [Labelled("fine", "1"), Labelled("bad", "2.5")]
    assert reader.tally.ignored == {"blank line": 1}


def test_a_workbook_without_its_package(workbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        DataError, match=r"needs the package openpyxl.*\nInstall it \(pip install 'clearhead\[xlsx\]'\)"
    ):
        list(read(workbook, "labelled"))


def test_a_workbook_that_unpacks_to_too_much_is_not_opened(
    workbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(workbook, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/bomb.xml", bytes(xlsx.MOST_BYTES + 1))
    assert workbook.stat().st_size < 1_000_000
    monkeypatch.setattr(openpyxl, "load_workbook", None)
    with pytest.raises(DataError, match=r"a.xlsx: takes [\d,]+ bytes when it is unpacked, more than"):
        list(read(workbook, "labelled"))


def test_a_damaged_workbook_is_reported(workbook: Path, tmp_path: Path) -> None:
    whole = workbook.read_bytes()
    other = io.BytesIO()
    with zipfile.ZipFile(workbook) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content[: len(content) // 2] if "sheet1" in name else content)
    for content in (whole[: len(whole) // 2], b"not a workbook", other.getvalue()):
        (tmp_path / "b.xlsx").write_bytes(content)
        with pytest.raises(DataError, match=r"b.xlsx.*\nSave the sheet as .csv"):
            list(read(tmp_path / "b.xlsx", "labelled"))


VALUES = st.lists(
    st.dictionaries(st.just("text"), st.text(min_size=1).filter(str.strip), min_size=1), min_size=1
)


@given(VALUES, st.booleans(), st.booleans(), st.integers(1, 40))
def test_a_list_is_decoded_from_pieces_of_any_length(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[dict[str, str]],
    is_list: bool,
    spaced: bool,
    size: int,
) -> None:
    records = [{"text": row["text"].replace("\0", "").strip() or "x"} for row in records]
    path = tmp_path_factory.getbasetemp() / "values.json"
    whole = json.dumps(records, indent=1 if spaced else None)
    path.write_text(whole if is_list else "\n".join(map(json.dumps, records)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "LEAST_CHARACTERS", size)
        assert list(read(path, "text")) == [Text(row["text"]) for row in records]


def test_a_long_list_costs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text("[" + ",".join('{"text": "%s"}' % ("x" * 1000) for _ in range(20_000)) + "]")
    tracemalloc.start()
    assert sum(1 for _ in read(path, "text")) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000 < path.stat().st_size / 5


@pytest.mark.parametrize(
    ("content", "line", "count"),
    [('[{"text": "a"}\n{"text": "b"},\n', 2, 2), ('[{"text": "a"},\n{"text": }]', 2, 1), ("[" * 100_000, 1, 0)],
)  # fmt: skip
def test_a_list_that_is_not_json_names_the_line(tmp_path: Path, content: str, line: int, count: int) -> None:
    (tmp_path / "a.json").write_text(content)
    reader = read(tmp_path / "a.json", "text", on_error="skip")
    try:
        examples = list(reader)
    except DataError:
        examples = []
    assert len(examples) == count
    assert reader.problems.first[0].place.line >= line


@pytest.mark.parametrize("kind", ["text", "pair", "labelled"])
@pytest.mark.parametrize("name", ["deep.jsonl", "deep.json"])
def test_columns_of_deep_records_are_not_guessed(tmp_path: Path, kind: Kind, name: str) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / name).write_text(f'{{"a": {deep}, "b": "x"}}\n' * 3)
    assert guess_columns(str(tmp_path / name), kind) is None


def test_a_page_is_its_text_and_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<p>one<script>var a = '<p>'</script> two<style>p</style></p><td>a</td><td>b</td>"
    )
    assert list(read(tmp_path / "a.html", "text")) == [Text("one two\na b\n")]
    assert list(read({"x": str(tmp_path / "a.html")}, "labelled")) == [Labelled("one two\na b\n", "x")]
    with pytest.raises(DataError, match=r"is longer than 20 characters"):
        list(read(tmp_path / "a.html", "text", reading=Reading(max_line_bytes=20)))


@given(st.text("<>/!-ab &;p\"' \n=", max_size=300))
def test_no_page_is_an_error(page: str) -> None:
    parser = PageText()
    parser.feed(page)
    parser.close()
    parser.text()


def test_a_folder_of_tables_ignores_the_prose_beside_them(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("About.")
    (tmp_path / "a.csv").write_text("text,label\nfine,1\n")
    reader = read(tmp_path, "labelled")
    assert list(reader) == [Labelled("fine", "1")]
    assert reader.ignored == (str(tmp_path / "README.md"),)
    (tmp_path / "a.csv").unlink()
    assert list(read(tmp_path, "text")) == [Text("About.")]


def test_what_was_guessed_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("Text;Label\nschön;gut\nübel;schlecht\n".encode("cp1252"))
    reader = read(tmp_path / "a.csv", "labelled")
    expected: list[Example] = [Labelled("schön", "gut"), Labelled("übel", "schlecht")]
    assert list(reader) == expected
    assert reader.tally.guesses == [
        f"{tmp_path / 'a.csv'}: columns are separated by ';' (data.delimiter)",
        f"{tmp_path / 'a.csv'} is read as Windows-1252 (data.encoding)",
    ]


def test_a_stated_delimiter_counts_where_columns_are_guessed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b:c\n" + "x,y:1\nz,w:2\n" * 3)
    guess = guess_columns(str(tmp_path / "a.csv"), "labelled", Reading(delimiter=":"))
    assert guess is not None
    assert guess[0] == ["a,b", "c"]


@given(st.lists(st.text(max_size=40), max_size=20))
def test_any_lines_have_a_delimiter_or_none(lines: list[str]) -> None:
    assert find_delimiter(lines, ("text",)) in (None, "\t", ";", "|", ",")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["text", "label"], ["a b", "x"], ["c", "x"], ["d", "y"], ["e", "y"]], True),
        ([["I like it.", "x"], ["Not me.", "y"], ["Good.", "x"]], False),
        ([["4", "good"], ["5", "better"]], False),
        ([["id", "name"], ["4", "ann"], ["5", "bob"]], True),
        ([["dog", "perro"], ["cat", "gato"]], None),
        ([["How was it?", "Stars"], ["very good", "5"], ["bad", "1"]], True),
    ],
)
def test_a_first_line_is_names_or_an_example(rows: list[list[str]], expected: bool | None) -> None:
    assert has_header(rows) is expected
