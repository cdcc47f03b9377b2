"""A command of `clearhead`, run by a test: words enter; exit code, standard output and standard error leave.

In this process, since a new one would import PyTorch each time; `COMMAND` is for what only a process of its own shows,
such as a kill or a pipe.
"""

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from unittest import mock

import pytest
import torch

from clearhead.cli.main import main

COMMAND = [sys.executable, "-c", "from clearhead.cli.main import main; main()"]

Run = Callable[..., tuple[int, str, str]]


def exit_code(*words: object) -> int:
    """Runs `clearhead WORDS`; the exit code of the process that it would have been."""
    threads = torch.get_num_threads()
    try:
        with mock.patch.object(sys, "argv", ["clearhead", *map(str, words)]):
            main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        torch.set_num_threads(threads)
    return 0


def runner(captured: pytest.CaptureFixture[str], *verbs: str) -> Run:
    """A function that runs commands with these first words, which read `stdin`, a text or a file.

    No error of theirs is a traceback.
    """

    def run(*words: object, stdin: str | Path = "") -> tuple[int, str, str]:
        captured.readouterr()
        file: IO[str]
        with ExitStack() as opened:
            if isinstance(stdin, Path):
                file = opened.enter_context(stdin.open(encoding="utf-8"))
            else:
                file = opened.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
                file.write(stdin)
                file.seek(0)
            opened.enter_context(mock.patch.object(sys, "stdin", file))
            code = exit_code(*verbs, *words)
        out, err = captured.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run
