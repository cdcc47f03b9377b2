"""`clearhead explore` as a user starts it: arguments enter; the address of a page leaves that others can open."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

START = "from clearhead.cli.main import main; main()"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRAWN = "html[data-drawn] main[aria-busy='false']"


@contextmanager
def explorer(*words: str) -> Iterator[tuple[str, float]]:
    """The address of an explorer in a process of its own, and the time at which it was started."""
    began = time.perf_counter()
    command = [sys.executable, "-c", START, "explore", *words, "--no-open", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        found = re.match(r"http://\S+", process.stdout.readline())
        assert found is not None, "clearhead explore has printed no address"
        yield found[0], began
    finally:
        process.terminate()
        process.wait()
