"""Scores that are added up group by group equal those of all examples at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from clearhead.errors import InputError
from clearhead.training.evaluation.scores import TOKENIZATIONS, TextScores

WORDS = ["a", "cat", "sat", "on", "the", "mat", "today", "and", "slept"]
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=12), st.integers(1, 5))
def test_groups_score_as_the_whole(pairs: list[tuple[str, str]], size: int) -> None:
    mine, right = [list(side) for side in zip(*pairs, strict=True)]
    scores = TextScores()
    for first in range(0, len(pairs), size):
        scores.add(mine[first : first + size], right[first : first + size])
    result = scores.result()
    assert result["bleu"] == pytest.approx(BLEU().corpus_score(mine, [right]).score)
    assert result["chrf"] == pytest.approx(CHRF().corpus_score(mine, [right]).score)
    assert result["exact_match"] == sum(a == b for a, b in pairs) / len(pairs)
    assert "tok:13a" in result["bleu_signature"]
    assert "nc:6" in result["chrf_signature"]


def test_tokenised_text_is_cut_at_spaces_only() -> None:
    scores = TextScores(tokenize="none", lowercase=True)
    scores.add(["a man is n't here , now"], ["A man is n't here , now"])
    assert scores.result()["bleu"] == pytest.approx(100)
    assert "tok:none" in scores.result()["bleu_signature"]
    assert "case:lc" in scores.result()["bleu_signature"]


def test_every_way_to_cut_words_works_and_others_are_refused() -> None:
    for tokenize in TOKENIZATIONS:
        scores = TextScores(tokenize)
        scores.add(["the cat sat on a mat"], ["the cat sat on a mat"])
        assert scores.result()["bleu"] == pytest.approx(100)
        assert f"tok:{tokenize}" in scores.result()["bleu_signature"]
    with pytest.raises(
        InputError,
        match=r"'intel' is not a tokenization of sacreBLEU that works here. Did you mean intl\? Known: 13a",
    ):
        TextScores("intel")
