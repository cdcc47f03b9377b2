"""Requests side by side are the requests alone, whoever comes and goes, and whatever goes wrong with one of them."""

import random
from collections import deque
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import Draft, Engine
from clearhead.decoding.live.engine import LiveEngine
from clearhead.decoding.live.prefixes import Prefixes
from clearhead.decoding.live.request import Part, Request
from clearhead.decoding.steppers.switching import stepper_of
from clearhead.model_folder import Bundle
from tests.decoding.hand_built import repeater
from tests.decoding.tiny import assert_same_or_tied, language_model, next_logits, tokenizer, translator

END = 2
CHUNK = 8
MODELS = {
    "plain": lambda: language_model(),
    "window": lambda: language_model(window=5),
    "convolution": lambda: language_model(convolution=3),
    "translator": lambda: translator(),
}


def engine_of(bundle: Bundle, slots: int = 4, **more: Any) -> LiveEngine[Any]:
    more = {"prefixes": Prefixes(CHUNK), **more}
    return LiveEngine(stepper_of(bundle.module, "fixed"), [END], 48, slots, **more)


def request(prompt: list[int], source: list[int] | None = None, **changes: Any) -> Request:
    values = {"temperature": 0.0, "beam": 1, "max_tokens": 10, **changes}
    return Request(prompt, DecodingConfig(**values), source)


def some_requests(bundle: Bundle, count: int, **changes: Any) -> list[Request]:
    draws = random.Random(3)

    def ids(longest: int) -> list[int]:
        return [draws.randrange(6, 200) for _ in range(draws.randint(1, longest))]

    translates = bundle.module.translates
    return [
        request([1, *([] if translates else ids(30))], [1, *ids(20), END] if translates else None, **changes)
        for _ in range(count)
    ]


def again(text: Request) -> Request:
    return Request(text.prompt, text.settings, text.source)


def run(engine: LiveEngine[Any], texts: list[Request]) -> list[list[int]]:
    for text in texts:
        engine.add(text)
    while engine.is_busy:
        engine.step()
    return [text.ids for text in texts]


def offline(bundle: Bundle, text: Request) -> list[int]:
    """By the engine that reads whole prompts and does nothing else."""
    module: Any = bundle.module
    engine, draft = Engine(module, [END], 48), Draft(text.prompt, text.settings, text.source)
    engine.add(draft)
    while engine.is_busy:
        engine.step()
    return draft.ids


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4)
@given(
    joins=st.lists(st.integers(0, 9), min_size=7, max_size=7),
    leaves=st.lists(st.integers(1, 12), min_size=7, max_size=7),
    slots=st.integers(1, 5),
)
def test_requests_come_and_go_in_any_order(
    name: str, joins: list[int], leaves: list[int], slots: int
) -> None:
    """Long prompts and short ones; text i is added before step joins[i] and cancelled after leaves[i] tokens."""
    bundle = MODELS[name]()
    engine, texts = engine_of(bundle, slots), some_requests(bundle, 7)
    step = 0
    while step <= max(joins) or engine.is_busy:
        for text, join in zip(texts, joins, strict=True):
            if join == step:
                engine.add(text)
        engine.step()
        for text, leave in zip(texts, leaves, strict=True):
            if len(text.ids) >= leave:
                text.cancel()
        assert len(engine.running) <= slots
        step += 1
    for text, leave, whole in zip(texts, leaves, offline_texts(name), strict=True):
        assert text.reason == "cancelled" or len(text.ids) < leave + 7
        count = min(len(text.ids), len(whole))
        assert_same_or_tied(bundle, text.prompt, text.ids[:count], whole[:count], text.source)


@cache
def offline_texts(name: str) -> list[list[int]]:
    bundle = MODELS[name]()
    return [offline(bundle, text) for text in some_requests(bundle, 7)]


def test_a_cancelled_text_frees_its_slot_within_two_steps() -> None:
    engine = engine_of(language_model(), slots=1)
    first, second = request([1, 9], max_tokens=40, banned=(END,)), request([1, 8])
    engine.add(first)
    engine.add(second)
    for _ in range(3):
        engine.step()
    assert engine.running == [first]
    first.cancel()
    engine.step()
    engine.step()
    assert second.ids
    waiting = request([1, 7])
    waiting.cancel()
    engine.add(waiting)
    run(engine, [])
    assert waiting.ids == []


@pytest.mark.parametrize("name", ["plain", "window", "convolution"])
def test_texts_that_come_after_a_pause_take_the_room_of_those_before(name: str) -> None:
    """Or a server would grow with some pauses: new room is not always where the old was."""
    bundle = MODELS[name]()
    engine, texts = engine_of(bundle), some_requests(bundle, 7)

    def places() -> list[int]:
        assert engine.state is not None
        return [X.data_ptr() for X in engine.state.cache.stored_K + engine.state.cache.stored_V]

    run(engine, texts)
    first_places = places()
    for _ in range(3):
        later = [again(text) for text in texts]
        run(engine, later)
        assert places() == first_places
        for text, first in zip(later, texts, strict=True):
            assert_same_or_tied(bundle, text.prompt, text.ids, first.ids)


def test_a_pause_leaves_nothing_where_that_could_be_seen_or_has_no_bound() -> None:
    """Bits that depend on earlier texts, the width of an earlier source, and texts without a longest one."""
    endless = language_model(positions="rotary")
    stepper = stepper_of(endless.module, "fixed")
    engines: list[tuple[Bundle, LiveEngine[Any]]] = [
        (language_model(), engine_of(language_model(), slots=1)),
        (translator(), engine_of(translator())),
        (endless, LiveEngine(stepper, [END], None, 4)),
    ]
    for bundle, engine in engines:
        run(engine, some_requests(bundle, 3))
        engine.step()
        assert engine.state is None


def test_a_long_prompt_does_not_stall_the_others() -> None:
    engine = engine_of(language_model())
    short, long = request([1, 9], max_tokens=20, banned=(END,)), request([1, *range(10, 45)])
    engine.add(short)
    engine.step()
    engine.add(long)
    steps = 0
    while not long.ids:
        before = len(short.ids)
        engine.step()
        steps += 1
        assert len(short.ids) > before
    assert steps == 5  # 36 tokens, 8 at a time


class Faulty:
    """A stepper that raises where a certain token is among those to be read."""

    def __init__(self, bundle: Bundle, token: int) -> None:
        self.inner: Any = stepper_of(bundle.module, "fixed")
        self.token = token

    def start(self, *given: Any) -> Any:
        return self.inner.start(*given)

    def step(self, tokens: Tensor, state: Any, counts: Tensor | None = None, last: bool = False) -> Tensor:
        if bool((tokens == self.token).any()):
            raise RuntimeError("unlucky")
        result: Tensor = self.inner.step(tokens, state, counts, last)
        return result


@pytest.mark.parametrize("where", ["prompt", "written"])
def test_an_exception_ends_one_text_only(where: str) -> None:
    bundle, unlucky = language_model(), 211
    engine: LiveEngine[Any] = LiveEngine(Faulty(bundle, unlucky), [END], 48, 4, prefixes=Prefixes(CHUNK))
    bad = request([1, 60, unlucky]) if where == "prompt" else request([1, 60], forced=(61, 62, unlucky, 63))
    others = [request([1, 70 + place], banned=(unlucky, END)) for place in range(3)]
    parts: list[Part] = []
    bad.pass_on = parts.append
    run(engine, [others[0], bad, *others[1:]])
    assert bad.reason == "error"
    assert str(bad.error) == "unlucky"
    assert parts[-1].reason == "error"
    for text in others:
        assert text.reason == "length"
        assert_same_or_tied(bundle, text.prompt, text.ids, offline(bundle, text))


def test_a_rule_that_leaves_nothing_ends_one_text_only() -> None:
    bundle = language_model()
    bad = request([1, 9], banned=tuple(range(bundle.config.vocabulary)))
    good = request([1, 8])
    run(engine_of(bundle), [bad, good])
    assert "Every token is banned" in str(bad.error)
    assert good.error is None
    assert good.ids == offline(bundle, good)


def test_a_token_that_cannot_be_passed_on_ends_one_text_only() -> None:
    bundle = language_model()
    bad, good = request([1, 9]), request([1, 8])

    def fail(part: Part) -> None:
        if part.reason != "error":
            raise ValueError("cannot be decoded")

    bad.pass_on = fail
    run(engine_of(bundle), [good, bad])
    assert (bad.reason, str(bad.error), len(bad.ids)) == ("error", "cannot be decoded", 1)
    assert good.ids == offline(bundle, good)


def test_damaged_logits_end_one_text_only() -> None:
    bundle = language_model()

    class Damaged(Faulty):
        def step(
            self, tokens: Tensor, state: Any, counts: Tensor | None = None, last: bool = False
        ) -> Tensor:
            Z: Tensor = self.inner.step(tokens, state, counts, last)
            Z[(tokens == self.token).any(1)] = torch.nan
            return Z

    engine: LiveEngine[Any] = LiveEngine(Damaged(bundle, 211), [END], 48, 4)
    bad, good = request([1, 211]), request([1, 8])
    run(engine, [bad, good])
    assert "NaN" in str(bad.error)
    assert good.ids == offline(bundle, good)


# Prefixes.


def test_a_known_beginning_is_not_read_again() -> None:
    bundle, prefixes = language_model(), Prefixes(CHUNK)
    engine = engine_of(bundle, prefixes=prefixes)
    beginning = [1, *range(10, 30)]
    first, second, same = request([*beginning, 40]), request([*beginning, 50, 51]), request([*beginning, 40])
    run(engine, [first])
    run(engine, [second, same])
    assert (first.reused, second.reused, same.reused) == (0, 16, 16)
    for text in (first, second, same):
        assert_same_or_tied(bundle, text.prompt, text.ids, offline(bundle, text))


@pytest.mark.parametrize("name", MODELS)
def test_numbers_alone_in_company_and_after_a_known_beginning_agree(name: str) -> None:
    """Within 1e-4: the log-probability of every token that all of them have written."""
    bundle = MODELS[name]()
    texts = some_requests(bundle, 6)
    engine = engine_of(bundle, prefixes=Prefixes(CHUNK))
    known = [again(text) for text in texts]
    run(engine, texts)
    run(engine, known)
    for text, later in zip(texts, known, strict=True):
        alone = again(text)
        run(engine_of(bundle, slots=1, prefixes=None), [alone])
        for other in (text, later):
            for one, two in zip(alone.tokens, other.tokens, strict=True):
                if one.id != two.id:  # a tie
                    break
                assert one.logprob == pytest.approx(two.logprob, abs=1e-4)


def test_prompts_under_another_salt_share_nothing() -> None:
    engine = engine_of(language_model())
    texts = [request([1, *range(10, 30)]) for _ in range(3)]
    texts[0].salt, texts[1].salt, texts[2].salt = b"a", b"b", b"a"
    for text in texts:
        run(engine, [text])
    assert [text.reused for text in texts] == [0, 0, 16]


def test_known_beginnings_are_forgotten_over_the_limit() -> None:
    bundle = language_model()
    kept = Prefixes(CHUNK)
    run(engine_of(bundle, prefixes=kept), [request([1, *range(10, 30)])])
    small = Prefixes(CHUNK, most_bytes=2 * kept.used_bytes)
    for start in range(10, 100, 10):
        run(engine_of(bundle, prefixes=small), [request([1, *range(start, start + 20)])])
        assert small.used_bytes <= small.most_bytes
    assert len(small) == 2 * len(kept)


@pytest.mark.parametrize("changes", [{"window": 5}, {"convolution": 3}])
def test_what_cannot_be_truncated_is_not_kept(changes: dict[str, Any]) -> None:
    prefixes = Prefixes(CHUNK)
    run(engine_of(language_model(**changes), prefixes=prefixes), [request([1, *range(10, 30)])])
    assert len(prefixes) == 0


# Guesses.


def test_guesses_save_steps_and_change_nothing() -> None:
    def text() -> Request:
        return request([5, 4, 3, 5, 4, 3], max_tokens=18)

    guessing = LiveEngine(repeater(7, period=3), [0], 32, 4)
    plain = LiveEngine(repeater(7, period=3), [0], 32, 4, guesses=False)
    one, two = text(), text()
    assert run(guessing, [one]) == run(plain, [two]) == [[5, 4, 3] * 6]
    assert guessing.steps < plain.steps / 2
    assert one.reason == two.reason == "length"


def test_wrong_guesses_change_nothing() -> None:
    bundle = language_model()
    texts = [request([1, 60, 61, 62, 60, 61], max_tokens=20), request([1, 9, 9, 9, 9, 9], max_tokens=20)]
    run(engine_of(bundle), texts)
    for text in texts:
        assert_same_or_tied(bundle, text.prompt, text.ids, offline(bundle, text))


# Scores of a prompt, parts of a text.


def test_the_tokens_of_a_prompt_get_log_probabilities() -> None:
    bundle = language_model()
    ids = [1, *range(60, 79)]
    text = Request(ids, DecodingConfig(temperature=0.0, logprobs=2), is_scored=True, only_reads=True)
    run(engine_of(bundle), [text])
    assert (text.reason, text.ids) == ("length", [])
    assert [token.id for token in text.scores] == ids[1:]
    for place, token in enumerate(text.scores):
        log_P = torch.log_softmax(next_logits(bundle, ids[: place + 1]), -1)
        assert token.logprob == pytest.approx(float(log_P[token.id]), abs=1e-4)
        assert [value for _, value in token.top] == pytest.approx(log_P.topk(2).values.tolist(), abs=1e-4)


def test_parts_are_passed_on_up_to_a_stop_string() -> None:
    words = tokenizer("byte")
    ids = words.encode("the cat sat")
    text = Request([1], DecodingConfig(temperature=0.0, forced=tuple(ids), stop=(" s",)), tokenizer=words)
    parts: list[Part] = []
    text.pass_on = parts.append
    run(engine_of(language_model()), [text])
    assert "".join(part.text for part in parts) == "the cat"
    assert text.reason == parts[-1].reason == "stop"
    assert [part.reason for part in parts[:-1]] == [None] * (len(parts) - 1)


# Determinism: each text has an engine of its own.


@pytest.mark.parametrize("drawn", [{}, {"temperature": 1.1, "seed": 4}])
@pytest.mark.parametrize("name", ["plain", "translator"])
def test_an_engine_for_each_text_gives_the_same_bits_alone_and_in_company(
    name: str, drawn: dict[str, Any]
) -> None:
    bundle = MODELS[name]()
    stepper, prefixes, waiting = stepper_of(bundle.module, "as they are"), Prefixes(CHUNK), deque[Draft]()
    engines: list[LiveEngine[Any]] = [
        LiveEngine(stepper, [END], 48, 1, waiting, prefixes, guesses=False) for _ in range(4)
    ]
    texts = some_requests(bundle, 6, **drawn)
    waiting.extend([*texts, *map(again, texts)])  # the second ones know the beginnings of the first
    everyone = [text for text in waiting if isinstance(text, Request)]
    while any(engine.is_busy for engine in engines):
        for engine in engines:
            engine.step()
    for place, text in enumerate(everyone):
        alone = again(text)
        run(LiveEngine(stepper, [END], 48, 1, prefixes=Prefixes(CHUNK), guesses=False), [alone])
        assert text.ids == alone.ids
        assert [token.logprob for token in text.tokens] == [token.logprob for token in alone.tokens]
        assert place < 6 or name == "translator" or len(text.prompt) <= CHUNK or text.reused > 0
