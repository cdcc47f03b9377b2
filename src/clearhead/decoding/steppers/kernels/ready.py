"""Whether the kernels can run here, and their machine code: compiled once, kept in the user's cache folder.

Nobody waits for it: a process of its own compiles, a thread of its own loads, and meanwhile PyTorch steps. Numba keeps
machine code as pickle, which runs code when it is read: `kernels/` in clearhead's cache folder must be writable by you
alone. `CLEARHEAD_KERNELS=off` does without kernels, `CLEARHEAD_KERNELS=uncached` without files.
"""

import logging
import os
import platform
import subprocess
import sys
import threading
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from clearhead.data.cache import cache_folder, key_of

log = logging.getLogger(__name__)
CHOICE = "CLEARHEAD_KERNELS"
READY = "ready"  # the file that is written when everything is compiled
SOURCES = Path(__file__).parent


class Preparation:
    """What one process has done to have the kernels."""

    def __init__(self) -> None:
        self.process = os.getpid()  # the threads of the kernels are its own
        self.kernels: ModuleType | None = None  # compiled
        self.has_failed = False
        self.compiler: subprocess.Popen[bytes] | None = None
        self.loader: threading.Thread | None = None
        self.turn = threading.Lock()

    def advance(self, may_compile: bool) -> bool:
        """Whether the kernels are ready; if not, starts what is next, and waits for nothing."""
        if self.kernels is not None or self.has_failed:
            return self.kernels is not None
        with self.turn:
            if self.compiler is not None and self.compiler.poll() is None:
                return False
            if self.loader is None and (is_cached() or self.compiler is not None):
                # No daemon: a program that ends while machine code is loaded waits for that second.
                self.loader = threading.Thread(target=self.load, name="clearhead kernels")
                self.loader.start()
            elif self.loader is None and may_compile:
                self.compile()
        return self.kernels is not None

    def compile(self) -> None:
        """Starts a process that compiles; without files there is nothing that it could leave, so compiles here."""
        if not is_kept():
            self.load()
            return
        log.warning("%s Meanwhile PyTorch decodes.", PREPARING)
        environment = os.environ | {"NUMBA_CACHE_DIR": str(folder()), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", f"{__package__}.compile", str(marker())]
        try:
            # In its parent's group, so that Ctrl-C reaches it; it may outlive its parent, for the next program.
            self.compiler = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            self.load()

    def load(self) -> None:
        """Loads machine code, and compiles here what is missing."""
        try:
            import numba

            config: Any = numba.config
            # For the process: another layer ends it if two threads call at once.
            config.THREADING_LAYER = "threadsafe"
            if is_kept():
                config.CACHE_DIR = str(folder())
            if not is_cached():
                log.warning(PREPARING)
            from clearhead.decoding.steppers.kernels import step
            from clearhead.decoding.steppers.kernels.compile import compile_all

            compile_all(marker() if is_kept() else None)
            self.kernels = step
        except Exception:  # whatever is wrong with the compiler, PyTorch can still multiply
            self.has_failed = True
            log.warning("The kernels could not be compiled; decoding is slower.", exc_info=True)

    def finish(self) -> bool:
        """Waits until the kernels are ready; whether they are."""
        if self.compiler is not None:
            self.compiler.wait()
        with self.turn:
            if self.loader is not None:
                self.loader.join()
            elif self.kernels is None and not self.has_failed:
                self.load()
        return self.kernels is not None


PREPARING = "Preparing the compiled decode step, once on this machine; it takes some 30 seconds."
preparation: Preparation | None = None


def prepared() -> Preparation:
    """The preparation of this process, made when it is first needed."""
    global preparation
    preparation = preparation or Preparation()
    return preparation


def why_not() -> str | None:
    """The reason why no kernel runs in this process, or None."""
    if os.environ.get(CHOICE) == "off":
        return f"{CHOICE} = off"
    if preparation is None:
        return None
    if preparation.process != os.getpid():
        return "the process was forked, and the threads of the kernels ended there"
    return "they could not be compiled" if preparation.has_failed else None


def is_kept() -> bool:
    """Whether machine code is kept in files."""
    return os.environ.get(CHOICE) != "uncached"


def folder() -> Path:
    """Where machine code is kept; made for the user alone."""
    found = cache_folder() / "kernels" / key()
    found.mkdir(parents=True, exist_ok=True, mode=0o700)
    return found


def is_cached() -> bool:
    """Whether machine code of these sources for this processor is kept."""
    return is_kept() and (cache_folder() / "kernels" / key() / READY).exists()


def marker() -> Path:
    """The file that is written when everything is compiled."""
    return folder() / READY


@cache
def key() -> str:
    """The same as long as all that machine code depends on is the same."""
    sources = {path.name: str(path.stat().st_mtime_ns) for path in sorted(SOURCES.glob("*.py"))}
    settings = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_CPU")}
    known = {"numba": version("numba"), "python": sys.version, "processor": processor(), "at": str(SOURCES)}
    return key_of(sources | settings | known)


def processor() -> str:
    """What the processor can do, as the system describes it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def advance(may_compile: bool) -> bool:
    """Whether the kernels are ready; if not, starts what is next without waiting for it."""
    return why_not() is None and prepared().advance(may_compile)


def prepare() -> bool:
    """Loads the kernels, compiled first if necessary, and waits for that."""
    return why_not() is None and prepared().finish()


def is_loaded() -> bool:
    """Whether the kernels can run now."""
    return preparation is not None and why_not() is None and preparation.kernels is not None


def kernel() -> Any:
    """The kernels, which can run here."""
    prepare()
    found = prepared().kernels
    assert found is not None
    return found


def threads() -> int:
    """How many threads the kernels use from now on: as many as PyTorch does."""
    import numba

    config: Any = numba.config
    count = max(1, min(torch.get_num_threads(), config.NUMBA_NUM_THREADS))
    numba.set_num_threads(count)
    return count
