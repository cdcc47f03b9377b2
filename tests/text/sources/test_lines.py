"""Lines read in blocks of any size are those of the file: good ones are given, bad ones are numbered."""

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.text.sources import lines as lines_module
from clearhead.text.sources.lines import File, Lines
from clearhead.text.sources.tally import Tally

CONTENTS = st.lists(
    st.sampled_from([b"\n", b"\n", b"a", b"bcd", b"\r\n", b"\0", b"\xff", "ñ".encode(), b"x" * 9])
).map(b"".join)


def expected(content: bytes, limit: int) -> tuple[list[tuple[int, str]], list[int]]:
    """What a plain reading of the whole file gives: good lines, and the numbers of bad ones."""
    good, bad = [], []
    *ended, last = content.split(b"\n")
    lines = [line + b"\n" for line in ended] + [last] * bool(last)
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = "\0"
        if len(line) > limit or "\0" in text:
            bad.append(number)
        else:
            good.append((number, text))
    return good, bad


@settings(max_examples=300)
@given(CONTENTS, st.integers(1, 12), st.integers(1, 30))
def test_blocks_leave_no_trace(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, block: int, limit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    path.write_bytes(content)
    tally = Tally("skip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        lines = Lines(File("f", path), limit, tally, "utf-8")
        got = list(lines)
    good, bad = expected(content, limit)
    assert got == good
    assert [problem.place.line for problem in tally.problems] == bad[:20]
    assert tally.problems.count == len(bad)
    assert lines.count == tally.lines == len(good) + len(bad)


def test_a_damaged_archive_gives_what_comes_before_the_damage(tmp_path: Path) -> None:
    digits = random.Random(1).choices(
        "0123456789", k=600_000
    )  # which do not pack well, so that damage comes late
    content = "".join(digit + "\n" * (at % 9 == 0) for at, digit in enumerate(digits)).encode()
    packed = gzip.compress(content, mtime=0)
    path = tmp_path / "a.txt.gz"
    for damaged in (packed[: len(packed) // 2], packed[:-8] + bytes(8)):
        path.write_bytes(damaged)
        tally = Tally("skip")
        got = [line for _, line in Lines(File("f", path), 100, tally)]
        assert len(got) > 20_000
        assert "".join(got) == content.decode()[: sum(map(len, got))]
        assert tally.problems.count == 1
        assert tally.problems.first[0].place.line == len(got) + 1
