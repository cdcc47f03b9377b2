"""Beam search finds the sequences and scores of `generate` of `transformers`, on the same tiny weights.

Theirs runs with `early_stopping="never"`, which keeps to the same stop rule. Scores are sums of log P in another
order of addition; sequences must be equal, and hypotheses that tie within rounding may change places.
"""

from functools import cache
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.search import Hypothesis, beam_search
from clearhead.models.transformer.decoder import Decoder
from tests.exchange.tiny import TOKENS, Pair, pair

START = 0  # of the target, in both families
COUNTS = [5, 9, 2, 7]  # tokens of each source; the rest is padding
TOLERANCE = 2e-4


@cache
def sources() -> list[list[int]]:
    tokens = torch.randint(
        2, TOKENS - 4, (len(COUNTS), max(COUNTS)), generator=torch.Generator().manual_seed(5)
    )
    return [row[:count] for row, count in zip(tokens.tolist(), COUNTS, strict=True)]


def padded() -> tuple[Tensor, Tensor]:
    tokens = torch.zeros(len(COUNTS), max(COUNTS), dtype=torch.long)
    for row, source in zip(tokens, sources(), strict=True):
        row[: len(source)] = torch.tensor(source)
    mask = torch.arange(max(COUNTS)) < torch.tensor(COUNTS)[:, None]
    return tokens, mask.long()


def theirs(both: Pair, end: int, **settings: Any) -> tuple[Tensor, Tensor]:
    """Sequences (b · n_best, n) and their scores."""
    tokens, mask = padded()
    config = hf.GenerationConfig(
        do_sample=False,
        early_stopping="never",
        eos_token_id=end,
        pad_token_id=0,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        output_scores=True,
        return_dict_in_generate=True,
        use_cache=False,  # their cache of a T5 has as many blocks as its encoder
        **settings,
    )
    both.theirs.generation_config = config
    found = both.theirs.generate(tokens, attention_mask=mask, generation_config=config)
    return found.sequences, found.sequences_scores


def ours(both: Pair, end: int, settings: DecodingConfig) -> list[list[Hypothesis]]:
    assert isinstance(both.ours, Decoder)
    prompts = [[START]] * len(COUNTS)
    return beam_search(both.ours, prompts, settings, [end], both.ours.config.context, sources())


@cache
def frequent(name: str) -> int:
    """A token that the model likes to write somewhere in the middle: it will do for an end token."""
    both = pair(name)
    found = ours(both, -1, DecodingConfig(beam=4, n_best=4, max_tokens=12))
    middle = [token for beam in found for hypothesis in beam for token in hypothesis.ids[1:8] if token > 1]
    return max(sorted(set(middle)), key=middle.count)


def compare(both: Pair, end: int, beam: int, penalty: float, longest: int, n_best: int) -> list[int]:
    """Holds the two against each other; returns the lengths that were found."""
    sequences, scores = theirs(
        both,
        end,
        num_beams=beam,
        num_return_sequences=n_best,
        length_penalty=penalty,
        max_new_tokens=longest,
    )
    settings = DecodingConfig(beam=beam, n_best=n_best, length_penalty=penalty, max_tokens=longest)
    flat = [hypothesis for found in ours(both, end, settings) for hypothesis in found]
    assert len(flat) == len(sequences)
    ids = sequences[:, 1:].tolist()  # without the start
    for place, (hypothesis, score) in enumerate(zip(flat, scores.tolist(), strict=True)):
        assert hypothesis.score == pytest.approx(score, abs=TOLERANCE * max(1.0, abs(score)))
        own = hypothesis.ids + [end] * (len(ids[place]) - len(hypothesis.ids))  # as theirs are filled up
        if own != ids[place]:  # allowed only for a hypothesis with the same score
            first = place - place % n_best
            tied = [other for other in range(first, first + n_best) if ids[other] == own]
            assert tied
            assert scores[tied[0]] == pytest.approx(score, abs=TOLERANCE)
    return [len(hypothesis.ids) for hypothesis in flat]


@pytest.mark.parametrize("name", ["marian", "t5"])
@pytest.mark.parametrize(
    ("beam", "penalty", "longest", "n_best"),
    [(1 + 1, 1.0, 10, 1), (4, 1.0, 10, 4), (5, 0.0, 12, 3), (3, 2.0, 8, 3), (4, -1.0, 10, 2), (7, 0.6, 1, 7)],
)
@torch.no_grad()
def test_sequences_and_scores_are_theirs(
    name: str, beam: int, penalty: float, longest: int, n_best: int
) -> None:
    both = pair(name)
    lengths = compare(both, frequent(name), beam, penalty, longest, n_best)
    if longest > 1 and n_best > 1 and 0 <= penalty <= 1:
        assert len(set(lengths)) > 1  # some end, some reach the limit: both are compared


@pytest.mark.parametrize("name", ["marian-own-head", "t5-1.1"])
@torch.no_grad()
def test_other_members_of_the_families_too(name: str) -> None:
    compare(pair(name), frequent(name), beam=4, penalty=1.0, longest=9, n_best=4)
