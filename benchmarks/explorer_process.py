"""`clearhead explore` as a user starts it: arguments enter; the address of a page leaves that others can open."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

START = "from clearhead.cli.main import main; main()"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRAWN = "html[data-drawn]:has(main[aria-busy='false'])"


@contextmanager
def explorer(*words: str) -> Iterator[tuple[str, Callable[[], tuple[float, float]]]]:
    """The address of an explorer in a process of its own, and how many seconds, also of the processor, it has run."""
    began = time.perf_counter()

    def taken() -> tuple[float, float]:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return time.perf_counter() - began, sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    command = [sys.executable, "-c", START, "explore", *words, "--no-open", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        found = re.match(r"http://\S+", process.stdout.readline())
        assert found is not None, "clearhead explore has printed no address"
        yield found[0], taken
    finally:
        process.terminate()
        process.wait()
