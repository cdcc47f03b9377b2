"""A cache of its own for every test, and tokenizers that need no training."""

from pathlib import Path

import pytest

from clearhead.config.tokenizer import TokenizerConfig
from clearhead.text.tokenizers.tokenizer import Tokenizer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLEARHEAD_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def by_byte() -> Tokenizer:
    """One token a byte, so that every id can be told from the text."""
    return Tokenizer.train([], TokenizerConfig(kind="byte"))
