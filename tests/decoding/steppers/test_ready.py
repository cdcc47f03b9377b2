"""Kernels are made aside: nobody waits for a compiler, and a failing one is reported."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clearhead.decoding.steppers.kernels import ready


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEARHEAD_KERNELS")


class Compiler:
    """A compiler that is busy until it is told to end."""

    def __init__(self) -> None:
        self.started = 0
        self.code: int | None = None

    def __call__(self, *given: Any, **named: Any) -> "Compiler":
        self.started += 1
        return self

    def poll(self) -> int | None:
        return self.code


def test_nobody_waits_for_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiler, own = Compiler(), ready.Preparation()
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", compiler)
    monkeypatch.setattr(own, "load", lambda: setattr(own, "kernels", ready))
    assert not own.advance(may_compile=False)
    assert compiler.started == 0
    assert not own.advance(may_compile=True)
    assert not own.advance(may_compile=True)
    assert (compiler.started, own.kernels) == (1, None)
    assert caplog.text.count("Preparing the compiled decode step") == 1
    compiler.code = 0
    own.advance(may_compile=True)
    assert own.loader is not None
    own.loader.join()
    assert own.advance(may_compile=True)


def test_a_compiler_that_fails_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = ready.Preparation()
    monkeypatch.setitem(sys.modules, "clearhead.decoding.steppers.kernels.compile", None)
    monkeypatch.setattr(ready, "preparation", own)
    assert not ready.prepare()
    assert ready.why_not() == "they could not be compiled"
    assert "could not be compiled" in caplog.text


@pytest.mark.prove
def test_the_program_leaves_machine_code_that_others_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path))
    own = ready.Preparation()
    assert not own.advance(may_compile=True)
    assert own.compiler is not None
    assert own.compiler.wait(600) == 0
    assert ready.is_cached()
    assert list((tmp_path / "kernels").rglob("step.step-*.nbc"))
