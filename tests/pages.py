"""Pages that run: a Markdown page enters, its blocks are executed in order, and what they print is compared.

A `python` block runs in the page's one namespace; a `text` block right after it is what it prints. In a
`console` block `$ ` opens a command, and the lines after it are its output: `clearhead …` is run, `make …`
has to name a target, other commands are only shown. `...` in an output that is shown stands for anything, and
white space does not count.
"""

import contextlib
import io
import os
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.commands import exit_code

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})\s*(?P<kind>\S*)(?P<rest>.*)$")
REFUSED = {
    "py": "python",
    "python3": "python",
    "pycon": "python",
    "bash": "console",
    "sh": "console",
    "shell": "console",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: language, text, first line, and whether it stands right under the one before."""

    kind: str
    source: str
    line: int
    follows: bool


class PageError(AssertionError):
    """A page that does not do what it says."""


def read_blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.splitlines()
    at, free = 0, True  # free: something other than blank lines stands since the last block
    while at < len(lines):
        if fence := FENCE.match(lines[at]):
            closing = re.compile(rf"^ *{fence['ticks']}`*\s*$")
            end = next((i for i in range(at + 1, len(lines)) if closing.match(lines[i])), None)
            if end is None:
                raise PageError(f"line {at + 1}: a block is opened and never closed.")
            yield Block(fence["kind"], textwrap.dedent("\n".join(lines[at + 1 : end])), at + 2, not free)
            at, free = end, False
        elif lines[at].strip():
            free = True
        at += 1


def run_page(page: str, name: str, targets: set[str]) -> None:
    """Execute a page's blocks in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__page__"}
    printed: str | None = None
    for block in read_blocks(page):
        where = f"{name}:{block.line}"
        if block.kind in REFUSED:
            raise PageError(
                f"{where}: write {REFUSED[block.kind]} for {block.kind}, so that the block is executed."
            )
        if block.kind == "python":
            printed = run_python(block, name, namespace)
            continue
        if block.kind == "text" and block.follows and printed is not None:
            compare(block.source, printed, where)
        if block.kind == "console":
            run_console(block, where, targets)
        printed = None


def run_python(block: Block, name: str, namespace: dict[str, Any]) -> str:
    """Run one block, with the page's own line numbers in a traceback, and return what it prints."""
    code = compile("\n" * (block.line - 1) + block.source, name, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, namespace)
    return out.getvalue()


def run_console(block: Block, where: str, targets: set[str]) -> None:
    """Run the commands of one block, and compare the outputs that it shows."""
    if not block.source.startswith("$ "):
        raise PageError(f"{where}: a console block opens with a command, `$ clearhead …`.")
    for entry in re.split(r"^\$ ", block.source, flags=re.MULTILINE)[1:]:
        command, _, shown = entry.partition("\n")
        program, *words = command.split()
        if program == "clearhead":
            run_command(command, shown, where)
        elif program == "make" and (unknown := {word for word in words if "=" not in word} - targets):
            raise PageError(f"{where}: `{command}`: the Makefile has no target {', '.join(sorted(unknown))}.")


def run_command(command: str, shown: str, where: str) -> None:
    """Run one command; it may fail only where the page shows its error."""
    code, out, err = run_clearhead(shlex.split(command)[1:])
    if code != 0 and "error" not in shown.lower():
        raise PageError(f"{where}: `{command}` ended with {code}.\n{out}{err}")
    if shown.strip():
        compare(shown, out + (err if code else ""), where)


def run_clearhead(words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `clearhead WORDS`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    environment = {"COLUMNS": "100", "NO_COLOR": "1"}
    with (
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = exit_code(*words)
    return code, out.getvalue(), err.getvalue()


def compare(shown: str, printed: str, where: str) -> None:
    """Hold what a page shows against what was printed."""
    pieces = [r"\s+".join(map(re.escape, piece.split())) for piece in shown.split("...")]
    if not re.fullmatch(r"\s*" + r"\s*.*\s*".join(pieces) + r"\s*", printed, flags=re.DOTALL):
        raise PageError(f"{where}: the page shows\n{shown}\nbut this was printed:\n{printed}")


def make_targets() -> set[str]:
    """The targets that the Makefile offers."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z]+):.*## ", makefile, flags=re.MULTILINE))
