"""Each rule by its law and by small numbers, and draws that follow the distribution they are made from."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding import sampling
from clearhead.decoding.sampling import constrain, draw, likeliest, log_probabilities, narrow, number
from clearhead.errors import InputError, ModelFolderError

INF = math.inf


def logits_of(*shares: float) -> Tensor:
    """Logits with these probabilities: (1, vocabulary)."""
    return torch.tensor([shares]).log()


def kept(Z: Tensor) -> list[list[int]]:
    """The ids of each row that may still be drawn."""
    return [row.isfinite().nonzero()[:, 0].tolist() for row in Z]


def rule(**settings: Any) -> DecodingConfig:
    return DecodingConfig(**settings)


def free(Z: Tensor, prompt: list[int], written: list[int], **settings: Any) -> Tensor:
    """One row after the rules of what may be written."""
    return constrain(Z, rule(**settings), [prompt], [written], end=[0])


# Small numbers worked by hand.


def test_bias_is_added() -> None:
    Z = sampling.add_bias(torch.tensor([[1.0, 2.0, 3.0]]), {2: -4.0, 0: 0.5})
    assert Z.tolist() == [[1.5, 2.0, -1.0]]


def test_banned_tokens_have_no_chance() -> None:
    assert sampling.ban(torch.tensor([[1.0, 2.0, 3.0]]), [2, 0]).tolist() == [[-INF, 2.0, -INF]]


def test_a_forced_token_is_sure_in_the_rows_that_have_one() -> None:
    Z = sampling.force(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [[1], []])
    assert Z.tolist() == [[-INF, 0.0, -INF], [4.0, 5.0, 6.0]]


def test_repetition_divides_positive_and_multiplies_negative_logits() -> None:
    seen = torch.tensor([[True, True, False, True]])
    Z = sampling.penalise_repetition(torch.tensor([[3.0, -1.0, 5.0, 0.0]]), seen, 2.0)
    assert Z.tolist() == [[1.5, -2.0, 5.0, 0.0]]


def test_repetition_sees_the_prompt_and_presence_does_not() -> None:
    Z = torch.tensor([[1.0, 2.0, 4.0, 8.0]])
    assert free(Z, [1], [2, 2], repetition_penalty=2.0).tolist() == [[1.0, 1.0, 2.0, 8.0]]
    assert free(Z, [1], [2, 2], presence_penalty=0.5).tolist() == [[1.0, 2.0, 3.5, 8.0]]
    assert free(Z, [1], [2, 2], frequency_penalty=0.5).tolist() == [[1.0, 2.0, 3.0, 8.0]]
    both = free(Z, [1], [2, 2, 3], presence_penalty=1.0, frequency_penalty=0.25)
    assert both.tolist() == [[1.0, 2.0, 2.5, 6.75]]


def test_the_end_may_not_come_before_the_fewest_tokens() -> None:
    Z = torch.tensor([[9.0, 1.0]]).expand(2, 2)
    Z = constrain(Z, rule(min_tokens=2), [[1], [1]], [[1], [1, 1]], end=[0])
    assert Z.tolist() == [[-INF, 1.0], [9.0, 1.0]]  # each row by its own length


def test_forced_tokens_come_one_after_the_other_and_beat_every_ban() -> None:
    Z = torch.zeros(3, 4)
    settings = rule(forced=(2, 0), banned=(2,), min_tokens=5)
    Z = constrain(Z, settings, [[1]] * 3, [[], [2], [2, 0]], end=[0])
    assert kept(Z) == [[2], [0], [1, 3]]


def test_a_forced_token_is_written_where_all_are_banned() -> None:
    settings: dict[str, Any] = {"forced": (2,), "banned": (0, 1, 2, 3)}
    assert kept(free(torch.zeros(1, 4), [1], [], **settings)) == [[2]]
    with pytest.raises(InputError, match="Every token is banned"):
        free(torch.zeros(1, 4), [1], [2], **settings)


def test_temperature_sharpens_and_flattens() -> None:
    Z = logits_of(0.5, 0.3, 0.2)
    for temperature in (0.5, 2.0):
        P = torch.softmax(sampling.heat(Z, temperature), -1)
        powers = torch.tensor([0.5, 0.3, 0.2]) ** (1 / temperature)
        torch.testing.assert_close(P[0], powers / powers.sum())


def test_a_temperature_near_zero_takes_the_likeliest_without_overflow() -> None:
    P = torch.softmax(sampling.heat(torch.tensor([[300.0, 301.0, -5.0]]), 1e-30), -1)
    assert P.tolist() == [[0.0, 1.0, 0.0]]


def test_top_k_keeps_the_k_largest() -> None:
    assert kept(sampling.top_k(torch.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)) == [[1, 3]]


@pytest.mark.parametrize(
    ("p", "ids"),
    [(0.01, [1]), (0.49, [1]), (0.51, [1, 3]), (0.8, [1, 3]), (0.82, [0, 1, 3]), (1.0, [0, 1, 2, 3])],
)
def test_top_p_keeps_the_fewest_likeliest_that_hold_the_share(p: float, ids: list[int]) -> None:
    Z = logits_of(0.125, 0.5, 0.0625, 0.3125)
    assert kept(sampling.top_p(Z, p)) == [ids]


@pytest.mark.parametrize(
    ("p", "ids"), [(0.0, [0, 1, 2]), (0.3, [0, 1, 2]), (0.4, [0, 1]), (0.7, [0]), (1.0, [0])]
)
def test_min_p_is_relative_to_the_likeliest(p: float, ids: list[int]) -> None:
    assert kept(sampling.min_p(logits_of(0.5, 0.3, 0.17), p)) == [ids]


def test_typical_keeps_what_is_as_surprising_as_usual() -> None:
    # Entropy 1.213 nats; surprises 0.693, 1.386, 2.079, 2.079: distances 0.520, 0.173, 0.866, 0.866.
    Z = logits_of(0.5, 0.25, 0.125, 0.125)
    assert kept(sampling.typical(Z, 0.2)) == [[1]]
    assert kept(sampling.typical(Z, 0.3)) == [[0, 1]]
    assert kept(sampling.typical(Z, 0.8)) == [[0, 1, 2]]


def test_rules_are_applied_in_their_order() -> None:
    """Top-k first, then the share of what is left: 0.5 / 0.8 holds 0.6, which 0.5 of all would not."""
    Z = logits_of(0.5, 0.3, 0.2)
    assert kept(narrow(Z, rule(top_k=2, top_p=0.6))) == [[0]]
    assert kept(narrow(Z, rule(top_p=0.6))) == [[0, 1]]
    # Temperature before top-p: at 0.5 the likeliest holds 0.66.
    assert kept(narrow(Z, rule(top_p=0.6, temperature=0.5))) == [[0]]


# Laws.

some_logits = st.lists(
    st.lists(st.floats(-20, 20, width=32), min_size=7, max_size=7), min_size=1, max_size=3
).map(torch.tensor)
shares = st.floats(0.01, 1.0)
RULES = {
    "top_k": lambda Z, x: sampling.top_k(Z, 1 + int(6 * x)),
    "top_p": sampling.top_p,
    "min_p": sampling.min_p,
    "typical": sampling.typical,
}


@pytest.mark.parametrize("name", RULES)
@given(Z=some_logits, x=shares)
def test_what_is_kept_keeps_its_logit_and_something_is_kept(name: str, Z: Tensor, x: float) -> None:
    cut = RULES[name](Z, x)
    is_kept = cut.isfinite()
    assert bool(is_kept.any(-1).all())
    assert torch.equal(cut[is_kept], Z[is_kept])
    assert bool((cut[~is_kept] == -INF).all())


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p"])
@given(Z=some_logits, x=shares)
def test_nothing_kept_is_less_likely_than_what_is_left_out(name: str, Z: Tensor, x: float) -> None:
    cut = RULES[name](Z, x)
    for before, after in zip(Z, cut, strict=True):
        left_out = before[after == -INF]
        assert not len(left_out) or left_out.max() <= before[after.isfinite()].min()


@pytest.mark.parametrize("name", RULES)
@given(Z=some_logits, x=shares)
def test_a_row_is_treated_alike_alone_and_beside_others(name: str, Z: Tensor, x: float) -> None:
    together = RULES[name](Z, x)
    for row in range(len(Z)):
        assert torch.equal(RULES[name](Z[row : row + 1], x)[0], together[row])


@given(Z=some_logits, p=st.floats(0.01, 0.999))
def test_top_p_and_typical_agree_with_a_sort(Z: Tensor, p: float) -> None:
    log_P = torch.log_softmax(Z, -1)
    entropy = -(log_P.exp() * log_P).sum(-1, keepdim=True)
    for rank, cut in ((Z, sampling.top_p(Z, p)), (-(log_P + entropy).abs(), sampling.typical(Z, p))):
        order = rank.sort(dim=-1, descending=True, stable=True).indices
        share = torch.softmax(Z, -1).gather(1, order).cumsum(-1)
        for row in range(len(Z)):
            if (share[row] - p).abs().min() > 1e-5:  # the border is not a matter of rounding
                first = int((share[row] < p).sum()) + 1
                values = rank[row][cut[row].isfinite()]
                assert sorted(values.tolist()) == sorted(rank[row][order[row][:first]].tolist())


@pytest.mark.parametrize("vocabulary", [5, 64, 65, 1000, 5000])
def test_a_share_is_found_in_vocabularies_of_any_size(vocabulary: int) -> None:
    """Also where it lies beyond the tokens that are looked at first."""
    Z = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(1)) * 0.1
    for p in (0.1, 0.5, 0.99):
        cut = sampling.top_p(Z, p)
        P = torch.softmax(Z, -1, dtype=torch.double)
        held = P.masked_fill(cut == -INF, 0.0)
        least = P.masked_fill(cut == -INF, 1.0).amin(-1)
        assert bool((held.sum(-1) >= p - 1e-5).all())
        assert bool((held.sum(-1) - least < p + 1e-5).all())  # without the least of them it would not do


def test_equal_logits_stay_in_the_order_of_their_ids() -> None:
    Z = torch.zeros(1, 8)
    assert kept(sampling.top_k(Z, 3)) == [[0, 1, 2]]
    assert kept(sampling.top_p(Z, 0.5)) == [[0, 1, 2, 3]]
    assert kept(sampling.min_p(Z, 1.0)) == [list(range(8))]
    assert kept(sampling.typical(Z, 0.25)) == [[0, 1]]
    Z[0, 5] = 1.0
    assert kept(sampling.top_k(Z, 3)) == [[0, 1, 5]]
    assert likeliest(torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0]])).tolist() == [1, 0]


@given(
    numbers=st.lists(st.sampled_from([-INF, -1.5, 0.0, 0.25, 7.0]), min_size=1, max_size=70),
    count=st.integers(1, 90),
)
def test_best_first_is_a_stable_sort(numbers: list[float], count: int) -> None:
    places = sorted(range(len(numbers)), key=lambda place: -numbers[place])  # Python's is stable
    found = list(sampling.best_first(torch.tensor(numbers), count))
    assert found == [(numbers[place], place) for place in places]


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1e-30},
        {"temperature": 1e-30, "logit_bias": {0: 1e9, 1: -1e9}, "top_k": 2, "typical": 0.5, "top_p": 0.5},
        {"temperature": 100.0, "logit_bias": {0: 1e9, 1: 1e9}, "repetition_penalty": 100.0, "min_p": 0.5},
    ],
)
def test_the_largest_settings_leave_numbers(settings: dict[str, Any]) -> None:
    Z = narrow(free(torch.tensor([[3.0, -200.0, 1.0, 0.5]]), [0, 1], [], **settings), rule(**settings))
    assert not bool(torch.softmax(Z, -1).isnan().any())
    assert draw(Z, torch.tensor([0.999])).tolist() in ([0], [1])


def test_a_rule_that_keeps_all_keeps_all() -> None:
    Z = torch.randn(2, 5000, generator=torch.Generator().manual_seed(1)) * 9
    settings = rule(top_k=5001, top_p=1.0, min_p=0.0, typical=1.0, temperature=1.0)
    torch.testing.assert_close(torch.softmax(narrow(Z, settings), -1), torch.softmax(Z, -1))
    assert bool(narrow(Z, settings).isfinite().all())


def test_rules_leave_the_logits_of_the_model_alone() -> None:
    Z = torch.randn(2, 9)
    before = Z.clone()
    settings = rule(
        logit_bias={1: 2.0}, banned=(2,), forced=(3,), repetition_penalty=2.0, presence_penalty=1.0,
        min_tokens=3, temperature=0.5, top_k=4, top_p=0.9, min_p=0.1, typical=0.9,
    )  # fmt: skip
    narrow(constrain(Z, settings, [[1], [1]], [[], [5]], end=[0]), settings)
    assert torch.equal(Z, before)


def test_log_probabilities_are_those_of_the_raw_logits() -> None:
    Z = torch.randn(3, 50) * 10
    assert torch.equal(log_probabilities(Z), torch.log_softmax(Z, -1))


@pytest.mark.parametrize("value", [math.nan, INF])
def test_logits_that_are_no_numbers_are_an_error(value: float) -> None:
    Z = torch.zeros(2, 50)
    Z[1, 33] = value
    with pytest.raises(ModelFolderError, match="logits contain NaN"):
        log_probabilities(Z)


# Draws.


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"top_k": 4},
        {"top_p": 0.8},
        {"min_p": 0.2},
        {"typical": 0.7},
        {"temperature": 2.0},
        {"banned": (1, 5)},
    ],
    ids=str,
)
def test_draws_have_the_frequencies_of_the_distribution(settings: dict[str, Any]) -> None:
    Z = torch.randn(1, 9, generator=torch.Generator().manual_seed(4)) * 1.5
    rules = rule(**{"temperature": 1.0, **settings})
    Z = narrow(constrain(Z, rules, [[1]], [[]], end=[0]), rules)
    expected = torch.softmax(Z.double(), -1)[0]
    n = 20_000
    numbers = torch.tensor([number(11, step) for step in range(n)], dtype=torch.double)
    counts = torch.bincount(draw(Z.expand(n, -1), numbers), minlength=9)
    possible = expected > 0
    assert not counts[~possible].any()
    assert chisquare(counts[possible].numpy(), (expected[possible] * n).numpy()).pvalue > 0.01
    assert chisquare(counts[possible].numpy(), (expected[possible].flip(0) * n).numpy()).pvalue < 1e-6


@given(
    Z=some_logits,
    seeds=st.lists(st.floats(0, 1, exclude_max=True), min_size=3, max_size=3),
    banned=st.sets(st.integers(0, 6), max_size=6),
)
def test_a_token_without_a_chance_is_never_drawn(Z: Tensor, seeds: list[float], banned: set[int]) -> None:
    Z = sampling.ban(Z, sorted(banned))
    for value in (*seeds, 0.0, math.nextafter(1.0, 0.0)):
        drawn = draw(Z, torch.full((len(Z),), value, dtype=torch.double))
        assert not banned & set(drawn.tolist())


@pytest.mark.parametrize("only", [0, 3, 6])
def test_the_only_token_left_is_drawn(only: int) -> None:
    Z = free(torch.randn(1, 7), [1], [], banned=tuple(id for id in range(7) if id != only))
    for value in (0.0, 0.3, math.nextafter(1.0, 0.0)):
        assert draw(Z, torch.tensor([value])).tolist() == [only]
    assert likeliest(Z).tolist() == [only]


@pytest.mark.parametrize(
    "settings", [{"banned": tuple(range(7))}, {"banned": tuple(range(1, 7)), "min_tokens": 1}]
)
def test_nothing_left_is_an_error(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"Every token is banned.*\nBan fewer ids"):
        free(torch.randn(1, 7), [1], [], **settings)


def test_a_seed_gives_the_same_numbers_for_ever() -> None:
    assert [number(1, step) for step in range(2)] == [0.3214364412611488, 0.5623181634912586]
    assert number(1, 0) != number(2, 0)
    many = [number(7, step) for step in range(5000)]
    assert all(0 <= value < 1 for value in many)
    assert chisquare(torch.histc(torch.tensor(many), 20, 0, 1).numpy()).pvalue > 0.01
