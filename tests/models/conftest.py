"""The laws of models hold for the kernel that long texts take, though the texts of tests are short."""

import pytest

from clearhead.layers import attention


@pytest.fixture(autouse=True)
def texts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "SHORT", 0)
