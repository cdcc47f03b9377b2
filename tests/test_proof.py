"""The page about proofs names tests, and every one of them exists."""

import re

from tests.pages import ROOT

PAGE = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| this")]
    assert len(named) == len(rows)
    for file, test in named:
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (
            f"{file}::{test}"
        )
