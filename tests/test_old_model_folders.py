"""Model folders of earlier formats are still read, and give what they gave when they were made."""

import json
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.model_folder import FORMAT
from tests.fixtures.make_model_folders import answers

FIXTURES = Path(__file__).parent / "fixtures"
FOLDERS = sorted(FIXTURES.glob("model-folder-*"))


def test_every_format_has_a_folder() -> None:
    assert [folder.name for folder in FOLDERS] == [f"model-folder-{i + 1}" for i in range(FORMAT)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_old_folder_gives_what_it_gave(folder: Path) -> None:
    recorded = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    given = answers(*(clearhead.load(folder / shape) for shape in ("decoder", "encoder", "encoder-decoder")))
    for shape, logits in recorded.pop("logits").items():
        given_logits = torch.tensor(given["logits"][shape])
        assert torch.allclose(given_logits, torch.tensor(logits), atol=1e-4), shape
    del given["logits"]
    assert given == recorded


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_fixtures_are_small(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 60_000
