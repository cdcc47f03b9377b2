"""Embeddings that start from word vectors: which rows are set, how large, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import vector_folder
from clearhead.config.run import RunConfig
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.training.run.folder import RunFolder
from clearhead.training.run.run import Run, keep_length, make_run
from clearhead.vector_folder import VectorTable

LINES = ["the cat sees a dog", "the dog sees a cat", "a bird sings"] * 20


def config(folder: Path, kind: str = "word", width: int = 8, **training: Any) -> RunConfig:
    """A language model of a few words, with vectors for some of them."""
    (folder / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    if not (folder / "words").exists():
        E = torch.randn(4, width, generator=torch.Generator().manual_seed(1))
        vector_folder.save(folder / "words", VectorTable(["cat", "dog", "the", "unused"], E))
    return RunConfig.model_validate(
        {
            "task": "language-model",
            "data": {"train": str(folder / "text.txt"), "documents": "line", "validation": 0},
            "tokenizer": {"kind": kind, "vocabulary": 300},
            "model": {"d": 8, "h": 2, "decoder_blocks": 1, "context": 16},
            "training": {
                "embeddings_from": str(folder / "words"),
                "steps": 4,
                "batch_tokens": 128,
                "samples": 0,
            }
            | training,
        }
    )


def row(run: Run, word: str) -> torch.Tensor:
    """The embedding of a word."""
    (id,) = run.data.tokenizers.target.encode(word)
    return dict(run.model.named_parameters())["decoder.tokens.weight"][id].detach()


def test_known_words_start_from_their_vectors_and_the_others_at_random(tmp_path: Path) -> None:
    run = make_run(config(tmp_path), tmp_path / "run")
    plain = make_run(config(tmp_path, embeddings_from=None), tmp_path / "plain")
    table = vector_folder.load(tmp_path / "words")
    for place, word in enumerate(["cat", "dog", "the"]):
        assert torch.cosine_similarity(row(run, word), table.E[place], dim=-1) == pytest.approx(1, abs=1e-5)
    assert torch.equal(row(run, "bird"), row(plain, "bird"))
    (note,) = [note for note in run.notes if "tokens.weight" in note]
    assert "3 of 7 tokens start from their word's vector" in note
    assert "without one, and random at first: " in note
    assert "'bird'" in note


def test_the_table_stays_as_large_as_a_random_one(tmp_path: Path) -> None:
    big = VectorTable(
        ["cat", "dog", "the"], 1000 * torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    )
    vector_folder.save(tmp_path / "words", big)
    run = make_run(config(tmp_path), tmp_path / "run")
    size = torch.stack([row(run, word) for word in ("cat", "dog", "the")]).std()
    assert 0.5 < float(size) / 8**-0.5 < 2


def test_pieces_of_words_match_too(tmp_path: Path) -> None:
    """BPE spells a word with the space before it."""
    run = make_run(config(tmp_path, kind="bpe"), tmp_path / "run")
    assert any("start from their word's vector" in note for note in run.notes)


def test_another_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"vectors have 6 numbers, but .* have 8\.\nSet model.d = 6"):
        make_run(config(tmp_path, width=6), tmp_path / "run")


def test_vectors_of_other_words_are_refused(tmp_path: Path) -> None:
    vector_folder.save(tmp_path / "words", VectorTable(["perro", "gato"], torch.ones(2, 8)))
    with pytest.raises(ConfigError, match=r"none of the .* tokens is a word with a vector"):
        make_run(config(tmp_path), tmp_path / "run")


def test_a_missing_folder_is_refused_before_the_data_is_read(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="nowhere does not exist"):
        make_run(config(tmp_path, embeddings_from=str(tmp_path / "nowhere")), tmp_path / "run")


def test_embeddings_start_from_one_thing_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="both say what the embeddings start from"):
        config(tmp_path, init_from="model")


@pytest.mark.parametrize("frozen", [(), ("embeddings",)])
def test_a_run_resumes_and_needs_the_vectors_only_for_frozen_embeddings(
    tmp_path: Path, frozen: tuple[str, ...]
) -> None:
    out = tmp_path / "run"
    list(make_run(config(tmp_path, frozen=frozen, checkpoint_every=2), out).train())
    shutil.move(tmp_path / "words", tmp_path / "moved")
    again = keep_length(RunConfig.read(RunFolder(out).recipe), RunConfig.read(RunFolder(out).recipe))
    if frozen:
        with pytest.raises(ModelFolderError, match="words does not exist"):
            make_run(again, out)
    else:
        list(make_run(again, out).train(resume=True))
