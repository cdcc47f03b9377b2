"""What every test shares: the table of the notes, laws without a stopwatch, a cache of their own, and no network."""

import gc
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["tools.notes_plugin"]

# The machine may be busy, so a slow example is not a failure; the same examples come every time.
settings.register_profile("clearhead", deadline=None, derandomize=True, max_examples=50, database=None)
settings.load_profile("clearhead")

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported
# Before OpenMP is loaded: tiny models are fastest on one thread. The threads of compiled kernels would wait by spinning
# and slow down all tests on a machine of few cores, by a factor of ten those of the kernels.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell that starts the tests in the background has Ctrl-C ignored, also by the programs that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of tests are collected, and none goes away again: looking for garbage among them is a third of that time.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, in what the tests leave."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with what takes longest, so that no worker is left with it at the end: experiments too that are slow."""
    items.sort(key=lambda item: not any(item.iter_markers("slow")))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Leave the user's cache alone, and see nothing of it; compile kernels only for the tests of kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEARHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("CLEARHEAD_KERNELS", "off")
        yield


@pytest.fixture(scope="session", autouse=True)
def _load_unknown() -> Iterator[None]:
    """Let no plan warn of other programs: what is logged does not depend on who else uses the machine."""
    from clearhead.machine import load

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "STAT", Path("/proc/missing"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _few_trial_steps() -> Iterator[None]:
    """Let plans take the fewest trial steps: how steady they were matters to few tests, which ask for more.

    Nor do they give memory back, which takes longer than a step of a small model.
    """
    from clearhead.training.run import plan, trial_steps

    with pytest.MonkeyPatch.context() as patch:
        for module in (plan, trial_steps):
            patch.setattr(module, "release_memory", lambda: None)
        patch.setattr(trial_steps, "TRIAL_STEPS", 2)
        patch.setattr(trial_steps, "STEADY", float("inf"))
        patch.setattr(trial_steps, "LEAST_MEASURED", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _float32() -> Iterator[None]:
    """Let no plan choose bfloat16: what is trained does not depend on the processor."""
    from clearhead.training.run import trial_steps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial_steps, "product_gain", lambda width: 1.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """Refuse every connection that leaves this machine."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else address
        if self.family != socket.AF_UNIX and host not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"A test tried to reach {host!r}; tests never touch the network.")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_here)
        yield
