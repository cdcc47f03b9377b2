"""A line in, a line out: in order, in constant memory, with errors that name the line, resumed where it stopped."""

import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.decoding import lines
from clearhead.decoding.lines import as_they_come, escape, in_groups, results, truncate, whole_lines
from clearhead.errors import InputError


def loud(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


def refuse_bad(line: str) -> str:
    if line == "bad":
        raise InputError("This line is bad.\nMend it.")
    return line


@given(texts=st.lists(st.text("abc", max_size=3), max_size=300), comes=st.booleans())
def test_every_line_has_its_result_in_order(texts: list[str], comes: bool) -> None:
    groups = as_they_come(texts) if comes else in_groups(texts)
    assert list(results(groups, refuse_bad, loud)) == loud(texts)


def test_groups_grow_so_that_first_results_come_soon() -> None:
    sizes = [len(group) for group in in_groups(str(i) for i in range(5000))]
    assert sizes == [32, 64, 128, 256, 512, 1024, 1024, 1024, 936]
    assert list(in_groups([])) == []


@pytest.mark.parametrize("comes", [True, False])
def test_groups_grow_only_while_they_are_done_soon(comes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops a slow model has the results of all but the last seconds."""
    clock, sizes = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    texts = [str(i) for i in range(9000)]
    groups = as_they_come(texts) if comes else in_groups(texts)
    for seconds, group in zip([0.1, 0.1, 0.1, 5, 9, 60, 9, 9, 1], groups, strict=False):
        time.sleep(0.05 * comes)  # the reader fills the queue meanwhile
        sizes.append(len(group))
        clock[0] += seconds
    first = sizes[0] if comes else 32  # of a pipe: what is there
    assert sizes[1:] == (
        [64, 128, 256, 256, 128, 64, 32, 32] if first == 32 else [32, 64, 128, 128, 64, 32, 32, 32]
    )


@pytest.mark.prove
def test_a_million_lines_in_constant_memory() -> None:
    """Lines and results are made and forgotten; nothing of them is kept."""
    line = "x" * 100

    def run(count: int) -> int:
        tracemalloc.start()
        total = sum(1 for _ in results(in_groups(line + str(i) for i in range(count)), str, loud))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == count
        return peak

    few, many = run(5_000), run(1_000_000)
    assert many < 1.2 * few
    assert many < 2_000_000  # bytes; the lines themselves are 100 MB


@pytest.mark.parametrize("place", [0, 1, 31, 32, 100])
def test_an_error_names_the_line_and_what_comes_before_is_done(place: int) -> None:
    texts = [str(i) for i in range(150)]
    texts[place] = "bad"
    done: list[str] = []
    with pytest.raises(InputError) as caught:
        done.extend(results(in_groups(texts), refuse_bad, loud))
    assert str(caught.value) == f"line {place + 1}: This line is bad.\nMend it."
    assert done == texts[:place]


def test_lines_are_counted_from_where_the_work_goes_on() -> None:
    with pytest.raises(InputError, match="line 103: This line is bad"):
        list(results([["a", "b"], ["bad"]], refuse_bad, loud, first=101))


def test_what_comes_before_a_line_that_cannot_be_read_is_done() -> None:
    def broken() -> Iterator[str]:
        yield "a"
        yield "b"
        raise InputError("line 3 is not UTF-8.")

    for groups in (in_groups(broken()), as_they_come(broken())):
        done: list[str] = []
        with pytest.raises(InputError, match="line 3 is not UTF-8"):
            done.extend(results(groups, refuse_bad, loud))
        assert done == ["A", "B"]


def test_who_waits_for_an_answer_before_the_next_line_gets_it() -> None:
    """As a program does that writes a line into a pipe and reads the result."""
    asked, may_ask = threading.Semaphore(0), threading.Semaphore(1)

    def talk() -> Iterator[str]:
        for word in ("one", "two", "three"):
            assert may_ask.acquire(timeout=30)
            asked.release()
            yield word

    heard = []
    for answer in results(as_they_come(talk()), refuse_bad, loud):
        heard.append(answer)
        may_ask.release()
    assert heard == ["ONE", "TWO", "THREE"]


def test_lines_that_are_there_are_worked_on_together() -> None:
    def ready() -> Iterator[str]:
        for i in range(3000):
            yield str(i)

    sizes = []
    for group in as_they_come(ready()):
        sizes.append(len(group))
        time.sleep(0.05)
    assert sum(sizes) == 3000
    assert max(sizes) == lines.LARGEST  # while the first few were worked on, the others came
    assert len(sizes) < 20


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("", ""),
        ("two\nlines", r"two\nlines"),
        ("a\r\nb\rc", r"a\r\nb\rc"),
        ("C:\\new", "C:\\new"),  # a text without line breaks is written as it is
        ("a\tb\u2028c", "a\tb\u2028c"),
    ],
)
def test_a_result_is_one_line(text: str, line: str) -> None:
    assert escape(text) == line
    assert "\n" not in escape(text)


@pytest.mark.parametrize(
    ("content", "count", "kept"),
    [
        ("", 0, ""),
        ("a\nb\n", 2, "a\nb\n"),
        ("a\nb", 1, "a\n"),
        ("a", 0, ""),
        ("\n\n\n", 3, "\n\n\n"),
        ("a\u2028b\r\né\nhal", 2, "a\u2028b\r\né\n"),
    ],
)
def test_whole_lines_are_kept_and_half_a_line_is_not(
    tmp_path: Path, content: str, count: int, kept: str
) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(content.encode())
    found, size = whole_lines(path)
    assert (found, size) == (count, len(kept.encode()))
    assert path.read_bytes() == content.encode()  # looking changes nothing
    truncate(path, size)
    assert path.read_bytes() == kept.encode()


def test_lines_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    path, line = tmp_path / "out.txt", b"x" * 1_500_000
    path.write_bytes(line + b"\n" + line + b"\n" + line)
    assert whole_lines(path) == (2, 2 * len(line) + 2)


def test_half_a_character_at_the_end_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"a\n\xe2\x82")
    assert whole_lines(path) == (1, 2)
