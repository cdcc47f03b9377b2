"""What is decided about a JSON schema in a process of its own, and what is remembered of it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clearhead.decoding.live.grammar import TRIAL, fault_of

SCHEMA = '{"enum": ["here and nowhere else"]}'


def test_a_trial_that_took_too_long_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine says nothing about a schema."""
    answers: list[Any] = [subprocess.TimeoutExpired("trial", 1.0)]
    run = subprocess.run

    def slow_once(*words: Any, **settings: Any) -> Any:
        if answers:
            raise answers.pop()
        return run(*words, **settings)

    monkeypatch.setattr(subprocess, "run", slow_once)
    with pytest.raises(subprocess.TimeoutExpired):
        fault_of(SCHEMA)
    assert fault_of(SCHEMA) == ""


def test_an_error_without_a_message_is_a_fault(tmp_path: Path) -> None:
    """Such as that of a schema which needs more memory than it may have."""
    stub = "class LLTokenizer:\n    def __init__(self, name): raise MemoryError\nLLMatcher = LLParserLimits = None\n"
    (tmp_path / "llguidance.py").write_text(stub)
    tried = subprocess.run(
        [sys.executable, "-P", str(TRIAL)], input=SCHEMA, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (tried.returncode, tried.stdout) == (0, "MemoryError")
