"""Texts without labels: what vectors they give, who starts from them, and where they have no effect."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.prepare import prepare
from clearhead.errors import ConfigError
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.training.recipes.data_sample import sample_data
from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.recipes.trials import choosing
from clearhead.training.recipes.trials.candidates import Candidate, with_vectors
from clearhead.training.recipes.trials.choosing import Trials, choose_recipe
from clearhead.training.recipes.trials.folds import Fold, prepare_fold, training_examples
from clearhead.training.recipes.trials.halving import Entry, ranked
from clearhead.training.recipes.trials.trial import Judgement, new_model
from clearhead.training.recipes.trials.unlabelled import (
    factor,
    texts_without_labels,
    vectors_for,
    word_vectors,
)

DRINKS, TOWNS = ("tea", "coffee", "cocoa"), ("rome", "oslo", "lima")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A few labelled texts, and more without labels in which words of one kind have the same neighbours."""
    labelled = [
        {"text": f"note {k}: {(DRINKS, TOWNS)[k % 2][k // 2 % 2]}", "label": ("drink", "town")[k % 2]}
        for k in range(80)
    ]
    others = [f"we drink hot {DRINKS[k % 3]} slowly\nwe fly far to {TOWNS[k % 3]} today" for k in range(60)]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, labelled)), encoding="utf-8")
    (tmp_path / "others.txt").write_text("\n".join(others), encoding="utf-8")
    return str(tmp_path / "few.jsonl"), str(tmp_path / "others.txt")


def recipe(files: tuple[str, str]) -> RunConfig:
    """The recipe of the rules, with the texts without labels."""
    stated = {"data.unlabelled": files[1], "training.threads": "1", "data.validation": "0"}
    return recipe_for("classify", [files[0]], 1.0, stated)[0]


def test_words_with_the_same_neighbours_get_the_same_directions(files: tuple[str, str]) -> None:
    """Drinks are nearer to drinks than to towns, though a label was seen with two of three only."""
    texts = texts_without_labels(recipe(files))
    tokenizer = Tokenizer.train(texts, TokenizerConfig.model_validate({"kind": "word", "vocabulary": 500}))
    table = word_vectors(texts, tokenizer, 4)
    E = dict(zip(table.words, F.normalize(table.E, dim=1), strict=True))
    assert E["tea"] @ E["cocoa"] > 0.9
    assert E["tea"] @ E["lima"] < 0.5
    assert table.counts == sorted(table.counts or [], reverse=True)


def test_the_factors_multiply_to_the_matrix() -> None:
    """E Eᵀ is the matrix if it has so many dimensions; missing ones are zero."""
    A = torch.randn(9, 3, generator=torch.Generator().manual_seed(2))
    E = factor(lambda Q: A @ (A.T @ Q), 9, 5)
    assert E.shape == (9, 5)
    assert torch.allclose(E @ E.T, A @ A.T, atol=1e-4)


def test_candidates_start_from_the_vectors_and_know_the_words(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word that no labelled text has is a token with a vector, in the trial and in the run."""
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    run = recipe(files)
    texts = texts_without_labels(run)
    made = with_vectors(run, sample_data(run.data, "labelled"), {}, lambda one, d: vectors_for(one, texts, d))
    assert [candidate.name.partition(",")[0] for candidate in made] == [
        "filters over words",
        "mean over words",
    ]
    chosen = made[1].run
    fold = Fold.of(training_examples(chosen), 0, texts)
    data = prepare_fold(chosen, fold)
    E = F.normalize(next(new_model(chosen, data).parameters()), dim=1)
    assert len(E) == data.tokenizers.target.size
    (ids,) = data.tokenizers.target.encode_batch(["tea cocoa lima"])
    tea, cocoa, lima = E[torch.from_numpy(ids)]
    assert tea @ cocoa > tea @ lima + 0.3
    tokenizer = prepare(chosen).tokenizers.target
    assert not tokenizer.counts_unknown(tokenizer.encode_batch(["cocoa"])[0])
    plain = chosen.replace(data=chosen.data.replace(unlabelled=None))
    assert prepare(plain).tokenizers.target.counts_unknown(
        prepare(plain).tokenizers.target.encode_batch(["cocoa"])[0]
    )


@pytest.mark.parametrize(
    ("task", "stated"),
    [
        ("language-model", {}),
        ("classify", {"data.labels": "several"}),
        ("classify", {"tokenizer.kind": "byte"}),
    ],
)
def test_where_they_have_no_effect_they_are_refused(
    files: tuple[str, str], task: str, stated: dict[str, str]
) -> None:
    """Other tasks, other kinds of labels, and fixed tokens cannot use them."""
    with pytest.raises(ConfigError, match=r"--data.unlabelled has no effect"):
        recipe_for(task, [files[0]], 1.0, stated | {"data.unlabelled": files[1]})  # type: ignore[arg-type]


@pytest.mark.parametrize("has_won", [True, False])
def test_what_loses_the_trials_is_not_in_the_recipe(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_won: bool
) -> None:
    """The recipe names the texts without labels exactly if a candidate with their vectors won."""
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))

    def try_all(candidates: list[Candidate], *_: object) -> Trials:
        judged = [
            Judgement(np.full(20, ("unlabelled" in candidate.name) == has_won), 0.5, 10, 0.1, True)
            for candidate in candidates
        ]
        entries = [Entry(candidate, [one]) for candidate, one in zip(candidates, judged, strict=True)]
        return Trials(ranked(entries), [], 1.0)

    monkeypatch.setattr(choosing, "run_trials", try_all)
    config, _, found = choose_recipe("classify", [files[0]], 1.0, {"data.unlabelled": files[1]}, 1)
    assert found is not None
    assert (config.data.unlabelled is not None) == has_won
    assert (config.training.embeddings_from is not None) == has_won


@pytest.mark.parametrize(
    ("stated", "trials", "text", "why"),
    [
        ({}, 0, "tea and tea", "--trials 0"),
        ({"training.steps": "3"}, None, "tea and tea", "training.steps"),
        ({}, 1, "... !!! ???", "texts have too few words"),
        ({"tokenizer.kind": "bpe"}, 1, "", "no candidate whose tokens are words"),
    ],
)
def test_without_a_candidate_that_uses_them_they_are_refused(
    files: tuple[str, str], stated: dict[str, str], trials: int | None, text: str, why: str
) -> None:
    """Where nothing is tried, or no vectors can be learned, the texts would change nothing."""
    if text:
        Path(files[1]).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=why):
        choose_recipe("classify", [files[0]], 1.0, stated | {"data.unlabelled": files[1]}, trials)


def test_the_vectors_are_as_wide_as_the_tokens(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stated width of the tokens is that of the vectors."""
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    run = recipe(files)
    widths: list[int] = []

    def keep_width(one: RunConfig, width: int) -> Path:
        widths.append(width)
        return tmp_path

    with_vectors(run, sample_data(run.data, "labelled"), {"model.token_d": "32"}, keep_width)
    assert set(widths) == {32}
