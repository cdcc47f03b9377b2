"""Vectors of runs of tokens: which run a row is for, what is dropped, and what a config refuses."""

import math
from typing import Any

import pytest
import torch

from clearhead.config.families import read_model_config
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import ConfigError
from clearhead.layers.ngrams import Ngrams
from clearhead.text.tokenizers.token_bytes import word_breaks
from clearhead.text.tokenizers.tokenizer import Tokenizer

LENGTHS, ROWS, D = (2, 5), 997, 3


def runs(dropout: float = 0.0) -> Ngrams:
    """A table whose rows all differ."""
    part = Ngrams(LENGTHS, ROWS, D, dropout)
    with torch.no_grad():
        part.weight.copy_(torch.randn(ROWS, D, generator=torch.Generator().manual_seed(1)))
    return part


def test_a_vector_is_the_sum_of_the_rows_of_its_runs() -> None:
    """Beside each other, rows for every length are added."""
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
    part = runs()
    rows, exists = part.rows(tokens)
    assert exists.all()
    assert rows.shape == (2, 7, len(LENGTHS))
    assert 0 <= rows.min() <= rows.max() < ROWS
    assert torch.allclose(part(tokens), part.weight[rows].sum(2), atol=1e-6)


def test_a_row_depends_on_the_run_alone() -> None:
    """The same pair has the same row anywhere; another order, another length and another token have others."""
    rows = runs().rows(torch.tensor([[7, 8, 0, 7, 8, 8, 7]]))[0][0]
    assert rows[1, 0] == rows[4, 0]
    others = [rows[1, 0], rows[6, 0], rows[2, 0], rows[1, 1], rows[4, 1]]
    assert len({int(row) for row in others}) == len(others)


def test_a_run_ends_at_its_token() -> None:
    """What follows changes nothing, so that padding does not either."""
    first, second = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[1, 2, 3, 9, 9]])
    part = runs()
    assert torch.equal(part(first)[:, :3], part(second)[:, :3])
    assert not torch.equal(part(first)[:, 3], part(second)[:, 3])


def test_few_runs_share_a_row() -> None:
    """Ten thousand pairs are spread as if drawn: about 1 − 1/e of as many rows are used."""
    tokens = torch.cartesian_prod(torch.arange(100), torch.arange(100))
    used = len(Ngrams((2,), 10_000, 1, 0.0).rows(tokens)[0][:, 1].unique())
    assert 0.60 < used / 10_000 < 0.66


def test_whole_vectors_are_dropped_in_training() -> None:
    """What a run adds is there twice as large, or not at all."""
    part = Ngrams((3,), ROWS, D, 0.5).train()
    with torch.no_grad():
        part.weight.fill_(1.0)
    values = part(torch.arange(400)[None]).flatten(0, 1)
    assert {tuple(row) for row in values.tolist()} == {(0.0,) * D, (2.0,) * D}
    assert torch.equal(part.eval()(torch.arange(4)[None]), torch.ones(1, 4, D))


def test_words_and_pairs_are_found_wherever_they_are() -> None:
    """At the break after a word, whatever comes before it; several breaks are one, and the first word has no pair."""
    part = Ngrams((), ROWS, D, 0.0, words=2, breaks=(0, 1, 2))
    tokens = torch.tensor([[0, 5, 6, 7, 1, 8, 9, 1, 1, 5, 6, 7, 2], [1, 8, 9, 1, 5, 6, 7, 1, 8, 9, 1, 2, 2]])
    rows, exists = part.rows(tokens)
    assert [exists[b, :, 0].nonzero().flatten().tolist() for b in (0, 1)] == [[4, 7, 12], [3, 7, 10]]
    assert [exists[b, :, 1].nonzero().flatten().tolist() for b in (0, 1)] == [[7, 12], [7, 10]]
    first, second = rows
    assert first[4, 0] == first[12, 0] == second[7, 0]  # the word 5 6 7
    assert first[7, 0] == second[3, 0] == second[10, 0] != first[4, 0]  # 8 9
    assert first[7, 1] == second[10, 1] != first[12, 1]  # 5 6 7, then 8 9
    assert first[12, 1] == second[7, 1]  # 8 9, then 5 6 7
    assert torch.equal(part(tokens)[~exists.any(2)], torch.zeros(int((~exists.any(2)).sum()), D))


def test_breaks_are_what_is_no_letter() -> None:
    """Spaces, marks and special tokens part words; letters, digits and bytes of letters do not."""
    tokenizer = Tokenizer.train(["a-b c_1"] * 3, TokenizerConfig(kind="character", vocabulary=400))
    breaks = set(word_breaks(tokenizer))
    (ids,) = tokenizer.encode_batch(["a-b c_1"])
    assert [int(id) in breaks for id in ids] == [False, True, False, True, False, False, False]
    assert tokenizer.specials.begin in breaks
    (unseen,) = tokenizer.encode_batch(["é"])
    assert not breaks & set(unseen.tolist())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": "decoder", "ngrams": [2]}, "model.ngrams = .* is for a convolutional encoder"),
        ({"shape": "decoder", "positions": "learned"}, "model.positions = 'learned' is for a convolutional"),
        ({"shape": "encoder", "positions": "learned", "context": None}, "needs one vector per position"),
        ({"shape": "encoder", "encoder_blocks": 0, "token_d": 4}, "no block that makes d = 256 of it"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    """With the setting, its value, and what to do."""
    with pytest.raises(ConfigError, match=message):
        read_model_config({"family": "convolutional"} | settings)


def test_repeats_count_by_their_logarithm() -> None:
    """A run that a text has c times counts 1 + ln c times in all, whatever other texts have."""
    part = Ngrams((1,), 10_000, 1, 0.0, repeats="log").eval()
    part.weight.data.fill_(1.0)
    tokens = torch.tensor([[5, 7, 5, 5, 9, 7], [5, 6, 7, 8, 9, 10]])
    Y = part(tokens)[..., 0]
    wanted = {5: (1 + math.log(3)) / 3, 7: (1 + math.log(2)) / 2, 9: 1.0}
    assert Y[0].tolist() == pytest.approx([wanted[token] for token in tokens[0].tolist()])
    assert Y[1].tolist() == pytest.approx([1.0] * 6)


def test_repeats_of_words_do_not_depend_on_their_length_or_on_padding() -> None:
    """A word counts where it ends and nowhere else, however long the next one is, and padding adds none."""
    part = Ngrams((), 10_000, 1, 0.0, words=2, breaks=(0,), repeats="log").eval()
    part.weight.data.fill_(1.0)
    text = [5, 6, 0, 7, 7, 7, 7, 0, 5, 6, 0, 8, 0]  # the words 56, 7777, 56, 8: one of them twice
    Y = part(torch.tensor([text]))[0, :, 0]
    twice = (1 + math.log(2)) / 2
    assert Y[[2, 7, 10, 12]].tolist() == pytest.approx([twice, 2.0, 1 + twice, 2.0])
    padded = part(torch.tensor([[*text, 1, 1, 1, 1]]))[0, : len(text), 0]
    assert torch.equal(padded, Y)
