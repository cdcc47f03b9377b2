"""Beam search against exhaustive search on a tiny vocabulary, and against itself without its stop rule."""

import random
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import Draft, Engine
from clearhead.decoding.search import Beam, Beginning, Hypothesis, beam_search, continuations
from clearhead.errors import InputError, ModelFolderError
from clearhead.model_folder import Bundle
from clearhead.models.transformer.decoder import Decoder
from tests.decoding.hand_built import SURE, Scripted, copier, scripted
from tests.decoding.tiny import language_model, next_logits, translator

VOCABULARY, END = 4, 0
PENALTIES = [0.0, 0.6, 1.0, 3.0, -1.0, -0.3]


def table(seed: int, spread: float = 2.0) -> Scripted:
    """A model with random opinions about every text."""

    @cache
    def scores(text: tuple[int, ...], source: tuple[int, ...] = ()) -> list[float]:
        draws = random.Random(f"{seed}:{text}:{source}")
        return [draws.gauss(0, spread) for _ in range(VOCABULARY)]

    return Scripted(scores)


def log_P(model: Scripted, text: list[int]) -> list[float]:
    return torch.log_softmax(torch.tensor(model.scores(tuple(text), ())), -1).tolist()


def every_text(model: Scripted, prompt: list[int], longest: int) -> list[tuple[list[int], float]]:
    """All texts that a model can write, with their log P."""
    done: list[tuple[list[int], float]] = []
    running: list[tuple[list[int], float]] = [([], 0.0)]
    for length in range(1, longest + 1):
        grown = [
            ([*ids, token], total + more)
            for ids, total in running
            for token, more in enumerate(log_P(model, prompt + ids))
        ]
        done += [(ids, total) for ids, total in grown if ids[-1] == END or length == longest]
        running = [(ids, total) for ids, total in grown if ids[-1] != END]
    return done


def writer(bundle: Bundle) -> Decoder:
    assert isinstance(bundle.module, Decoder)
    return bundle.module


def search(model: Any, prompt: list[int], **changes: Any) -> list[Hypothesis]:
    return beam_search(model, [prompt], DecodingConfig(**changes), [END])[0]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_everything_finds_the_best_of_all(penalty: float, seed: int) -> None:
    model = table(seed)
    texts = [(total / len(ids) ** penalty, ids) for ids, total in every_text(model, [1], 4)]
    assert len(texts) == 1 + 3 + 9 + 27 + 81
    texts.sort(reverse=True)
    found = search(model, [1], beam=256, n_best=7, length_penalty=penalty, max_tokens=4)
    assert [hypothesis.ids for hypothesis in found] == [ids for _, ids in texts[:7]]
    for hypothesis, (score, ids) in zip(found, texts, strict=False):
        assert hypothesis.score == pytest.approx(score, abs=1e-5)
        assert hypothesis.reason == ("end" if ids[-1] == END else "length")


@pytest.mark.parametrize("beam", [1, 2, 3, 6])
@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    penalty=st.sampled_from(PENALTIES),
    n_best=st.integers(1, 3),
    longest=st.integers(1, 9),
)
def test_the_stop_rule_misses_no_better_hypothesis(
    beam: int, seed: int, penalty: float, n_best: int, longest: int
) -> None:
    """The same beam, gone on with until nothing runs any more, finds nothing better."""
    settings = {"beam": beam, "n_best": min(n_best, beam), "length_penalty": penalty, "max_tokens": longest}
    model = table(seed)
    found, steps = search(model, [1], **settings), len(model.fed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Beam, "is_done", lambda beam: not beam.running)
        assert search(model, [1], **settings) == found
    assert steps <= len(model.fed) - steps


def test_the_stop_rule_stops() -> None:
    model = scripted(VOCABULARY, 2, 3, END)
    (best,) = search(model, [1], beam=2, max_tokens=50)
    assert (best.ids, best.reason) == ([2, 3, END], "end")
    assert len(model.fed) == 3  # and not fifty: what runs can no longer win


@given(seed=st.integers(0, 10**6), longest=st.integers(1, 8))
def test_a_beam_of_one_without_length_penalty_is_greedy(seed: int, longest: int) -> None:
    model = table(seed)
    ids: list[int] = []
    while len(ids) < longest and END not in ids:
        scores = log_P(model, [1, *ids])
        ids.append(scores.index(max(scores)))
    (found,) = search(model, [1], beam=1, length_penalty=0.0, max_tokens=longest)
    assert found.ids == ids


def test_n_best_are_sorted_and_all_different() -> None:
    found = search(table(3), [1], beam=6, n_best=6, max_tokens=6)
    scores = [hypothesis.score for hypothesis in found]
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(hypothesis.ids) for hypothesis in found}) == 6


def test_fewer_hypotheses_than_asked_for_where_there_are_no_more() -> None:
    assert len(search(table(3), [1], beam=9, n_best=9, max_tokens=1)) == VOCABULARY


@pytest.mark.parametrize("beam", [1, 3])
def test_texts_are_searched_side_by_side_as_alone(beam: int) -> None:
    """With sources and prompts of different length; some are done long before others."""
    model = table(8)
    prompts = [[1], [2, 1, 3], [1, 1], [3]]
    sources = [[2], [1, 2, 3], [3, 3], [1, 2]]
    settings = DecodingConfig(beam=beam, n_best=beam, max_tokens=7)
    together = beam_search(model, prompts, settings, [END], None, sources)
    for prompt, source, found in zip(prompts, sources, together, strict=True):
        assert beam_search(model, [prompt], settings, [END], None, [source]) == [found]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_copier_copies(beam: int) -> None:
    """Every source in its own length, through padding and cross-attention."""
    sources = [[1, 5, 4, 3, 2], [1, 8, 2], [1, 2], [1, 7, 7, 7, 3, 3, 5, 2]]
    settings = DecodingConfig(beam=beam, max_tokens=12)
    for found, source in zip(
        beam_search(copier(9), [[1]] * 4, settings, [2], 32, sources), sources, strict=True
    ):
        assert (found[0].ids, found[0].reason) == (source[1:], "end")


@pytest.mark.parametrize("beam", [2, 5])
def test_scores_are_those_of_the_whole_text_in_one_pass(beam: int) -> None:
    bundle = translator()
    sources = [[1, 40, 41, 50, 2], [1, 70, 2], [1, 99, 98, 97, 96, 95, 94, 2]]
    settings = DecodingConfig(beam=beam, n_best=beam, max_tokens=9)
    for source, found in zip(
        sources, beam_search(writer(bundle), [[1]] * 3, settings, [2], 48, sources), strict=True
    ):
        for hypothesis in found:
            logprobs = [
                float(torch.log_softmax(next_logits(bundle, [1, *hypothesis.ids[:i]], source), -1)[token])
                for i, token in enumerate(hypothesis.ids)
            ]
            assert hypothesis.logprobs == pytest.approx(logprobs, abs=1e-3)
            assert hypothesis.score == pytest.approx(sum(logprobs) / len(logprobs), abs=1e-3)


# Rules.


def test_bans_biases_and_forced_tokens_hold_in_a_search() -> None:
    model = table(5)
    for hypothesis in search(model, [1], beam=4, n_best=4, max_tokens=6, banned=(2,)):
        assert 2 not in hypothesis.ids
    for hypothesis in search(model, [1], beam=4, n_best=4, max_tokens=6, forced=(3, 2)):
        assert hypothesis.ids[:2] == [3, 2]
    for hypothesis in search(model, [1], beam=4, n_best=4, max_tokens=6, min_tokens=4):
        assert len(hypothesis.ids) > 4 or hypothesis.ids[-1] != END
    assert all(h.ids.count(3) >= 5 for h in search(model, [1], beam=2, max_tokens=6, logit_bias={3: 60.0}))


@given(
    seed=st.integers(0, 10**6),
    bias=st.floats(-9, 9),
    penalty=st.sampled_from(PENALTIES),
    repetition=st.sampled_from([0.5, 1.0, 1.5]),
)
@settings(max_examples=30)
def test_no_rule_breaks_the_stop_rule(seed: int, bias: float, penalty: float, repetition: float) -> None:
    """What rules leave is made into shares again, so that log P can still only fall."""
    settings = {"beam": 3, "length_penalty": penalty, "max_tokens": 7, "logit_bias": {1: bias, END: -1.0}}
    settings |= {"repetition_penalty": repetition, "presence_penalty": -2.0}
    model = table(seed)
    found = search(model, [1], **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Beam, "is_done", lambda beam: not beam.running)
        assert search(model, [1], **settings) == found


def test_a_greedy_beam_follows_the_rules_as_greedy_does() -> None:
    settings: dict[str, Any] = {
        "repetition_penalty": 1.7,
        "presence_penalty": 0.5,
        "logit_bias": {2: 1.5},
        "min_tokens": 3,
    }
    for seed in range(20):
        engine = Engine(table(seed), [END], None)
        text = Draft([1], DecodingConfig(temperature=0.0, max_tokens=7, **settings))
        engine.add(text)
        while engine.is_busy:
            engine.step()
        assert search(table(seed), [1], beam=1, max_tokens=7, **settings)[0].ids == text.ids


# Limits.


def test_the_context_limits_a_search_and_is_the_reason() -> None:
    model = scripted(VOCABULARY, 2)
    settings = DecodingConfig(beam=2, max_tokens=9)
    found = beam_search(model, [[1], [1, 3, 3]], settings, [END], context=5)
    assert [(hypotheses[0].ids, hypotheses[0].reason) for hypotheses in found] == [
        ([2, 2, 2, 2], "context"),
        ([2, 2], "context"),
    ]


def test_a_prompt_that_fills_the_context_is_refused() -> None:
    with pytest.raises(
        InputError, match="The prompt has 5 tokens, but the model's context of 5 must also fit"
    ):
        beam_search(table(1), [[1] * 5], DecodingConfig(beam=2), [END], context=5)


def test_a_search_stops_when_its_time_is_up() -> None:
    (found,) = search(scripted(VOCABULARY, 2), [1], beam=2, max_tokens=1000, seconds=1e-9)
    assert (found.ids, found.reason) == ([2], "time")


def test_a_hypothesis_ends_at_a_stop_string() -> None:
    def stops(ids: list[int]) -> bool:
        return 3 in ids

    settings = DecodingConfig(beam=2, max_tokens=9)
    (found,) = beam_search(scripted(VOCABULARY, 2, 3, 2), [[1]], settings, [END], stops=stops)
    assert (found[0].ids, found[0].reason) == ([2, 3], "stop")


def test_a_beam_stays_as_wide_as_asked_beside_stop_strings() -> None:
    """All but the two worst tokens end a text; those two must run on."""
    beam = Beam(
        [1], 9, "length", DecodingConfig(beam=2), [Beginning([], [], 0.0, 0)], lambda ids: ids[-1] < 98
    )
    P = torch.log_softmax(-torch.arange(100.0), 0)[None]
    beam.grow(continuations(beam.running, P, P, 4), [END])
    assert [text.ids for text in beam.running] == [[98], [99]]
    assert [found.ids for found in beam.finished] == [[0], [1]]


def test_of_equal_texts_the_smaller_ids_come_first() -> None:
    flat = Scripted(lambda text, source: [-9.0] + [0.0] * 99)
    found = search(flat, [1], beam=6, n_best=6, max_tokens=1)
    assert [hypothesis.ids for hypothesis in found] == [[1], [2], [3], [4], [5], [6]]


def test_a_model_of_no_numbers_is_an_error() -> None:
    with pytest.raises(ModelFolderError, match="logits contain NaN"):
        search(Scripted(lambda text, source: [float("nan")] * VOCABULARY), [1], beam=2)


def test_a_search_reads_each_token_once() -> None:
    model = scripted(VOCABULARY, 2, 2, 3, END)
    search(model, [1], beam=2, max_tokens=9)
    assert [columns for _, columns in model.fed] == [1, 1, 1, 1]
    assert SURE > 5


def test_a_window_model_is_searched_past_its_window() -> None:
    bundle = language_model(window=4)
    settings = DecodingConfig(beam=3, n_best=3, max_tokens=14)
    prompts = [[1, 60, 61], [1, 70, 71, 72, 73, 74, 75, 76]]
    for prompt, found in zip(prompts, beam_search(writer(bundle), prompts, settings, [2], 48), strict=True):
        for hypothesis in found:
            total = sum(
                float(torch.log_softmax(next_logits(bundle, prompt + hypothesis.ids[:i]), -1)[token])
                for i, token in enumerate(hypothesis.ids)
            )
            assert hypothesis.score == pytest.approx(total / len(hypothesis.ids), abs=1e-3)
