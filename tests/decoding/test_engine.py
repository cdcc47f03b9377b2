"""Texts side by side are the texts alone, whoever joins and leaves; and known models say what they must."""

import random
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor, nn

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import Draft, Engine, Stepper, pad
from clearhead.errors import ConfigError, InputError, ModelFolderError
from clearhead.layers.attention import Attention
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from tests.decoding.hand_built import Scripted, copier, counter, repeater, scripted
from tests.decoding.tiny import assert_same_or_tied, language_model, next_logits, translator

END = 2  # of the tokenizers that we train
GREEDY: dict[str, Any] = {"temperature": 0.0, "beam": 1}


def run(
    model: Any, texts: list[Draft], end: list[int] | None = None, context: int | None = None, slots: int = 32
) -> list[list[int]]:
    """The ids that an engine writes for texts added at once."""
    engine = Engine(model, [END] if end is None else end, context, slots)
    for text in texts:
        engine.add(text)
    while engine.is_busy:
        engine.step()
    return [text.ids for text in texts]


def engine_of(bundle: Bundle, *settings: Any) -> Engine[Any]:
    module: Any = bundle.module
    return Engine(module, *settings)


def greedy(*prompt: int, **changes: Any) -> Draft:
    return Draft(list(prompt), DecodingConfig(**{**GREEDY, "max_tokens": 12, **changes}))


def opinions(vocabulary: int = 6) -> Scripted:
    """A model with random opinions about every text."""

    @cache
    def scores(text: tuple[int, ...], source: tuple[int, ...]) -> list[float]:
        draws = random.Random(f"{text}:{source}")
        return [draws.gauss(0, 2) for _ in range(vocabulary)]

    return Scripted(scores)


# Known models.


@pytest.mark.notes("N38")
def test_a_counter_counts_until_the_end_token() -> None:
    texts = [greedy(3), greedy(1, 5), greedy(8)]
    assert run(counter(12), texts, end=[9]) == [[4, 5, 6, 7, 8, 9], [6, 7, 8, 9], [9]]
    assert [text.reason for text in texts] == ["end"] * 3


@pytest.mark.notes("N38")
def test_what_was_written_is_fed_back_with_its_errors() -> None:
    """A slip (7 instead of 4) is not mended: the counter goes on from it, as if it had been right."""
    right, wrong = greedy(3), greedy(3, forced=(7,))
    assert run(counter(12), [right, wrong], end=[11]) == [[4, 5, 6, 7, 8, 9, 10, 11], [7, 8, 9, 10, 11]]
    # Shown the true text, the same model makes no mistake at any place.
    truth = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10]])
    assert counter(12)(Inputs(truth))[0].argmax(-1).tolist() == [4, 5, 6, 7, 8, 9, 10, 11]


@pytest.mark.notes("N38", "N40")
def test_a_repeater_finds_what_it_repeats_in_its_cache() -> None:
    prompts = [[1, 2, 3], [5, 4, 3, 2, 6], [3, 3, 1, 5, 5, 5, 4]]
    texts = [greedy(*prompt, max_tokens=9) for prompt in prompts]
    written = run(repeater(7, period=3), texts, end=[0], context=32)
    assert written == [prompt[-3:] * 3 for prompt in prompts]


def test_a_copier_reads_its_own_source() -> None:
    sources = [[1, 5, 4, 3, 2], [1, 8, 2], [1, 7, 7, 7, 3, 3, 5, 2]]
    texts = [Draft([1], DecodingConfig(**GREEDY), source) for source in sources]
    assert run(copier(9), texts, context=32, slots=2) == [source[1:] for source in sources]


# Choosing.


@pytest.mark.notes("N39")
def test_greedy_takes_the_likeliest_at_every_step() -> None:
    bundle = language_model()
    text = greedy(1, 104, 101)
    (ids,) = run(bundle.module, [text])
    for i, token in enumerate(ids):
        Z = next_logits(bundle, [1, 104, 101, *ids[:i]])
        assert Z[token] >= Z.max() - 1e-3


@pytest.mark.notes("N39")
def test_sampling_follows_the_distribution() -> None:
    model, n = opinions(5), 4000
    texts = [Draft([1], DecodingConfig(temperature=1.0, max_tokens=1, seed=seed)) for seed in range(n)]
    first = torch.tensor(run(model, texts, slots=512))[:, 0]
    P = torch.softmax(torch.tensor(model.scores((1,), ()), dtype=torch.double), -1)
    assert chisquare(torch.bincount(first, minlength=5).numpy(), (P * n).numpy()).pvalue > 0.01


def test_a_seed_draws_the_same_whatever_else_is_in_the_batch() -> None:
    """Alone, among many, and joined late: exactly, for a model with exact logits."""

    def text(seed: int) -> Draft:
        return Draft([1], DecodingConfig(temperature=1.0, max_tokens=9, seed=seed, top_p=0.95))

    alone = [run(opinions(), [text(seed)], end=[5])[0] for seed in range(8)]
    assert len({tuple(ids) for ids in alone}) > 4
    assert run(opinions(), [text(seed) for seed in range(8)], end=[5]) == alone
    assert run(opinions(), [text(seed) for seed in range(8)], end=[5], slots=3) == alone
    engine, late = Engine(opinions(), [5], None), text(3)
    engine.add(Draft([2], DecodingConfig(temperature=1.0, max_tokens=20, banned=(5,))))
    for _ in range(4):
        engine.step()
    engine.add(late)
    while engine.is_busy:
        engine.step()
    assert late.ids == alone[3]


def test_without_a_seed_texts_differ() -> None:
    texts = [Draft([1], DecodingConfig(temperature=1.0, max_tokens=12)) for _ in range(6)]
    assert len({tuple(ids) for ids in run(opinions(), texts, end=[])}) > 1


def test_every_text_keeps_its_own_rules() -> None:
    """Texts with other settings share the batch; those with the same rules are treated together."""
    changes: list[dict[str, Any]] = [
        {}, {"banned": (3,)}, {"min_tokens": 6}, {"forced": (4, 4)}, {"temperature": 1.3, "seed": 5},
        {"temperature": 1.3, "seed": 6}, {"logit_bias": {2: 9.0}}, {"repetition_penalty": 5.0}, {"max_tokens": 2},
    ]  # fmt: skip
    together = [greedy(1, **change) for change in changes]
    expected = [run(opinions(), [greedy(1, **change)], end=[5])[0] for change in changes]
    assert run(opinions(), together, end=[5]) == expected
    assert len({tuple(ids) for ids in expected}) == 5
    rules = [text.rules for text in together]
    assert rules[4] == rules[5]
    assert rules[0] == rules[8]
    assert len(set(rules)) == 7


def test_log_probabilities_are_of_the_raw_logits_over_the_whole_vocabulary() -> None:
    bundle = language_model()
    text = greedy(1, 110, temperature=0.9, top_k=3, banned=(7,), seed=4, logprobs=5)
    (ids,) = run(bundle.module, [text])
    for i, token in enumerate(text.tokens):
        log_P = torch.log_softmax(next_logits(bundle, [1, 110, *ids[:i]]), -1)
        assert token.logprob == pytest.approx(float(log_P[token.id]), abs=1e-4)
        assert [value for _, value in token.top] == pytest.approx(log_P.topk(5).values.tolist(), abs=1e-4)
        assert [float(log_P[id]) for id, _ in token.top] == pytest.approx(
            log_P.topk(5).values.tolist(), abs=1e-4
        )


def test_more_alternatives_than_tokens_are_all_of_them() -> None:
    text = greedy(1, logprobs=50)
    run(opinions(6), [text], end=[5])
    assert [len(token.top) for token in text.tokens] == [6] * len(text.tokens)


# The cache.


def record_projections(module: nn.Module, seen: list[tuple[str, int]]) -> list[Any]:
    """Notes how many tokens every W_k and W_v of self-attention is given."""

    def note(name: str) -> Any:
        return lambda module, given: seen.append((name, given[0].shape[1]))

    return [
        matrix.register_forward_pre_hook(note(f"{name}.{letter}"))
        for name, attention in module.named_modules()
        if isinstance(attention, Attention) and name.endswith(".self")
        for letter, matrix in (("k", attention.W_k), ("v", attention.W_v))
    ]


@pytest.mark.notes("N40")
def test_a_step_projects_one_token_to_keys_and_values() -> None:
    bundle = language_model()
    seen: list[tuple[str, int]] = []
    hooks = record_projections(bundle.module, seen)
    try:
        run(bundle.module, [greedy(1, 5, 6, 7, 8, banned=(END,), max_tokens=6)])
    finally:
        for hook in hooks:
            hook.remove()
    matrices = {name for name, _ in seen}
    assert len(matrices) == 2 * bundle.config.decoder_blocks
    for matrix in matrices:
        assert [tokens for name, tokens in seen if name == matrix] == [5, 1, 1, 1, 1, 1]


@pytest.mark.notes("N40")
@pytest.mark.parametrize(
    "changes", [{}, {"window": 5}, {"positions": "alibi", "h_kv": 1}, {"positions": "learned"}]
)
def test_cached_equals_uncached(changes: dict[str, Any]) -> None:
    bundle = language_model(**changes)
    prompts = [[1], [1, 60, 61, 62], [1, *range(80, 90)]]
    texts = [greedy(*prompt, banned=(END,), max_tokens=20) for prompt in prompts]
    for prompt, ids in zip(prompts, run(bundle.module, texts, context=48), strict=True):
        uncached: list[int] = []
        while len(uncached) < 20:
            Z = next_logits(bundle, prompt + uncached)
            Z[END] = -torch.inf
            uncached.append(int(Z.argmax()))
        assert_same_or_tied(bundle, prompt, ids, uncached)


def test_a_long_text_takes_memory_as_it_grows() -> None:
    bundle = language_model(context=None)
    engine, text = engine_of(bundle, [], None), greedy(1, 9, max_tokens=1 << 20)
    engine.add(text)
    engine.step()
    state: Any = engine.state
    first = state.cache.bytes
    assert first < 1 << 20
    while len(text.ids) < 300:
        engine.step()
    assert first < state.cache.bytes <= 4 * first
    assert_same_or_tied(
        bundle, [1, 9], text.ids[-1:], [int(next_logits(bundle, [1, 9, *text.ids[:-1]]).argmax())]
    )


def test_equal_alternatives_stay_in_the_order_of_their_ids() -> None:
    text = greedy(1, logprobs=4, max_tokens=1)
    run(Scripted(lambda text, source: [-3.0] + [0.0] * 99), [text])
    assert [id for id, _ in text.tokens[0].top] == [1, 2, 3, 4]


# Side by side.

WRITERS = {
    "plain": lambda: language_model(),
    "window": lambda: language_model(window=4),
    "window learned": lambda: language_model(window=3, positions="learned", h_kv=1),
    "relative": lambda: language_model(positions="relative"),
    "translator": lambda: translator(),
    "translator window": lambda: translator(window=4, positions="sinusoidal"),
}


def some_texts(bundle: Bundle, count: int, **changes: Any) -> list[Draft]:
    """Texts of many lengths, with sources where the model needs them."""
    draws = random.Random(7)

    def ids(longest: int) -> list[int]:
        return [draws.randrange(6, 200) for _ in range(draws.randint(0, longest))]

    texts = []
    for seed in range(count):
        values = {**GREEDY, "max_tokens": draws.randint(1, 20), "seed": seed, **changes}
        translates = bundle.config.shape == "encoder-decoder"
        prompt, source = [1, *ids(0 if translates else 20)], [1, *ids(20), END] if translates else None
        texts.append(Draft(prompt, DecodingConfig(**values), source))
    return texts


def alone(bundle: Bundle, texts: list[Draft]) -> list[list[int]]:
    """What every text is when nothing stands beside it."""
    same = [Draft(text.prompt, text.settings, text.source) for text in texts]
    return [run(bundle.module, [text], context=48)[0] for text in same]


@pytest.mark.parametrize("slots", [1, 3, 32])
@pytest.mark.parametrize("name", WRITERS)
def test_texts_together_are_the_texts_alone(name: str, slots: int) -> None:
    bundle = WRITERS[name]()
    texts = some_texts(bundle, 9)
    together = run(bundle.module, texts, context=48, slots=slots)
    for text, ours, theirs in zip(texts, together, alone(bundle, texts), strict=True):
        assert_same_or_tied(bundle, text.prompt, ours, theirs, text.source)


def test_drawn_texts_together_are_the_texts_alone() -> None:
    bundle = language_model()
    texts = some_texts(bundle, 9, temperature=0.9, top_p=0.9)
    assert run(bundle.module, texts, context=48, slots=4) == alone(bundle, texts)


@pytest.mark.parametrize("name", ["plain", "window learned", "translator"])
@settings(max_examples=12)
@given(
    joins=st.lists(st.integers(0, 8), min_size=8, max_size=8),
    stops=st.lists(st.integers(1, 20), min_size=8, max_size=8),
    slots=st.integers(1, 6),
)
def test_rows_join_and_leave_in_any_order(name: str, joins: list[int], stops: list[int], slots: int) -> None:
    """Draft i is added before step joins[i], and stopped from outside after stops[i] tokens."""
    bundle = WRITERS[name]()
    texts = some_texts(bundle, 8, max_tokens=12)
    engine = engine_of(bundle, [END], 48, slots)
    step = 0
    while step <= max(joins) or engine.is_busy:
        for text, join in zip(texts, joins, strict=True):
            if join == step:
                engine.add(text)
        for text, _ in engine.step():
            if len(text.ids) == stops[texts.index(text)]:
                text.stop()
        assert len(engine.running) <= slots
        step += 1
    for text, stop, whole in zip(texts, stops, expected_alone(name), strict=True):
        assert text.reason is not None
        assert_same_or_tied(bundle, text.prompt, text.ids, whole[:stop], text.source)


@cache
def expected_alone(name: str) -> list[list[int]]:
    bundle = WRITERS[name]()
    return alone(bundle, some_texts(bundle, 8, max_tokens=12))


def test_prompts_are_read_together_where_many_wait() -> None:
    """Of eight slots two must be free before the next texts join; the last ones need not wait."""
    model = scripted(5, 3)
    texts = [greedy(1, max_tokens=length, banned=(0,)) for length in (1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9)]
    run(model, texts, end=[0], slots=8)
    steps = [rows for rows, _ in model.fed]
    assert steps[0] == 8
    assert steps[2] == 2  # after two have left
    assert sum(steps) == sum(len(text.ids) for text in texts)  # nothing is computed twice


def test_no_more_rows_than_slots() -> None:
    model = scripted(5, 3)
    run(model, [greedy(1) for _ in range(10)], end=[0], slots=4)
    assert max(rows for rows, _ in model.fed) == 4


def test_an_idle_engine_keeps_nothing() -> None:
    engine = Engine(scripted(5, 0), [0], None)
    engine.add(greedy(1))
    assert engine.is_busy
    engine.step()
    assert not engine.is_busy
    assert engine.step() == []
    assert engine.state is None
    assert engine.running == []


def test_another_stepper_can_take_the_models_place() -> None:
    """Anything that has `start` and `step` will do; here one that passes on and counts."""

    class Passing:
        def __init__(self, inner: Any) -> None:
            self.inner, self.steps = inner, 0

        def start(self, *given: Any) -> Any:
            return self.inner.start(*given)

        def step(
            self, tokens: Tensor, state: Any, counts: Tensor | None = None, last: bool = False
        ) -> Tensor:
            self.steps += 1
            return self.inner.step(tokens, state, counts, last)

    bundle = language_model()
    passing = Passing(bundle.module)
    stepper: Stepper[Any] = passing
    text = greedy(1, 9, banned=(END,), max_tokens=7)
    assert run(stepper, [text]) == run(bundle.module, [greedy(1, 9, banned=(END,), max_tokens=7)])
    assert passing.steps == 7


# Reasons, and what is refused.


def test_the_reason_is_reported() -> None:
    model = scripted(6, 3, 3, 3, 4)
    cases = {
        "end": (greedy(1), None),
        "length": (greedy(1, max_tokens=2), None),
        "context": (greedy(1, max_tokens=9), 4),
        "time": (greedy(1, seconds=1e-9), None),
    }
    for reason, (text, context) in cases.items():
        run(model, [text], end=[4], context=context)
        assert text.reason == reason, reason
    assert [len(text.ids) for text, _ in cases.values()] == [4, 2, 3, 1]


def test_the_end_token_counts_more_than_other_reasons() -> None:
    text = greedy(1, max_tokens=1, seconds=1e-9)
    run(scripted(6, 4), [text], end=[4], context=2)
    assert text.reason == "end"


def test_time_counts_from_the_first_token_not_from_the_queue() -> None:
    engine = Engine(scripted(6, 3), [4], None, slots=1)
    first, second = greedy(1, max_tokens=3), greedy(1, max_tokens=3, seconds=1000.0)
    engine.add(first)
    engine.add(second)
    engine.step()
    assert second.deadline == float("inf")
    while engine.is_busy:
        engine.step()
    assert second.deadline < float("inf")
    assert second.reason == "length"


def test_a_text_that_fills_the_context_is_whole() -> None:
    """Prompt and text together are as long as the context, never longer."""
    bundle = language_model()
    text = greedy(1, *range(50, 90), banned=(END,), max_tokens=100)
    run(bundle.module, [text], context=48)
    assert (len(text.prompt) + len(text.ids), text.reason) == (48, "context")


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "The prompt is empty"),
        ([1] * 5, "The prompt has 5 tokens, but the model's context of 5 must also fit"),
    ],
)
def test_a_prompt_that_cannot_be_gone_on_with_is_refused(prompt: list[int], message: str) -> None:
    engine = Engine(scripted(6, 3), [4], context=5)
    with pytest.raises(InputError, match=message):
        engine.add(greedy(*prompt))
    assert not engine.is_busy


def test_a_model_of_no_numbers_is_an_error() -> None:
    with pytest.raises(ModelFolderError, match="logits contain NaN"):
        run(Scripted(lambda text, source: [0.0, float("nan")]), [greedy(1)])


@pytest.mark.parametrize("key", ["banned", "forced", "logit_bias"])
@pytest.mark.parametrize("token", [-1, 6])
def test_ids_that_the_model_does_not_have_are_refused(key: str, token: int) -> None:
    given: Any = {token: 1.0} if key == "logit_bias" else (0, token)
    right: Any = {5: 1.0} if key == "logit_bias" else (0, 5)
    with pytest.raises(
        ConfigError, match=f"decoding.{key} names the id {token}, but the model has ids 0 to 5"
    ):
        DecodingConfig(**{key: given}).check_ids(6)
    DecodingConfig(**{key: right}).check_ids(6)


def test_rows_are_padded_on_the_right() -> None:
    tokens, counts = pad([[1, 2], [3], [4, 5, 6]])
    assert tokens.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    assert counts is not None
    assert counts.tolist() == [2, 1, 3]
    assert pad([[1, 2], [3, 4]])[1] is None
