"""The training written out by hand: it learns a small text, predicts what comes next, and fits in one view."""

from pathlib import Path

import pytest
import torch

from clearhead.config.model import ModelConfig
from examples import train_by_hand
from tests.pages import ROOT

TEXT = "the dog sees the cat. the cat sees the dog. " * 40


def test_the_example_fits_in_one_view() -> None:
    assert len((ROOT / "examples" / "train_by_hand.py").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_loss_falls_and_the_sample_is_from_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(1)
    characters = sorted(set(TEXT))
    ids = torch.tensor([characters.index(character) for character in TEXT])
    config = ModelConfig(vocabulary=len(characters), context=24, d=32, h=4, decoder_blocks=2)
    model = train_by_hand.LanguageModel(config)
    losses = train_by_hand.train(model, ids, steps=200, batch=16)
    assert losses[0] == pytest.approx(torch.tensor(len(characters)).log().item(), abs=0.2)
    assert sum(losses[-10:]) / 10 < 0.3 * losses[0]
    assert "step   199" in capsys.readouterr().out
    written = train_by_hand.sample(model, ids[:4], 30, temperature=0.01)
    sample = "".join(characters[i] for i in written)
    assert sample.startswith("the ")
    assert set(sample.split()[:-1]) <= set(TEXT.split())


def test_it_runs_from_a_file_to_a_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    train_by_hand.main([str(tmp_path / "text.txt"), "--steps", "2"])
    printed = capsys.readouterr().out
    assert "on held-out text" in printed
    assert len(printed.splitlines()[-1]) == 301
