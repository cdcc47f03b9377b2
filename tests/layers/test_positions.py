"""How order enters a model: each kind is its formula, and knows distances or places as it should."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.config.model import ModelConfig, RotaryScaling
from clearhead.layers.positions import POSITIONS, Learned, Positions, Relative, rotate, stretch
from tests.layers.parts import D_K, B, D, H, M, N, randomise, some


def make(kind: str, causal: bool = True, **settings: Any) -> Positions:
    config = ModelConfig(**{"d": D, "h": H, "d_k": D_K, "context": 12, "positions": kind, **settings})
    positions = POSITIONS[kind](config, D, causal)
    randomise(positions)
    return positions


def at(*numbers: int) -> Tensor:
    return torch.tensor([numbers])


@pytest.mark.parametrize("kind", POSITIONS)
def test_each_kind_acts_in_one_place_at_most(kind: str) -> None:
    positions = make(kind)
    acts = [positions.embed(at(0, 1)), positions.angles(at(0, 1)), positions.bias(at(0, 1), at(0, 1, 2))]
    assert sum(act is not None for act in acts) == (kind != "none")


@pytest.mark.notes("N7")
@pytest.mark.parametrize("offset", [0, 2])
def test_learned_positions_are_rows_of_a_table(offset: int) -> None:
    positions = make("learned", position_offset=offset)
    assert isinstance(positions, Learned)
    assert positions.weight.shape == (12 + offset, D)
    P = positions.embed(at(0, 3, 3))
    assert torch.equal(P[0], positions.weight[[offset, 3 + offset, 3 + offset]])


def test_sinusoids_are_sines_and_cosines() -> None:
    for layout, places in (("interleaved", (0, 1, 2, 3)), ("halves", (0, D // 2, 1, D // 2 + 1))):
        P = make("sinusoidal", sinusoid_layout=layout).embed(at(0, 7))
        assert P is not None
        slow = 7 * 10_000 ** (-2 / D)
        wanted = [math.sin(7), math.cos(7), math.sin(slow), math.cos(slow)]
        assert P[0, 1, list(places)].tolist() == pytest.approx(wanted, abs=1e-5)
        assert P[0, 0].sum() == D // 2  # sin 0 = 0, cos 0 = 1


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 1000))
def test_rotary_scores_depend_on_the_distance_only(i: int, j: int, shift: int) -> None:
    positions, Q, K = make("rotary"), some(1, H, 1, D_K), some(1, H, 1, D_K, seed=2)

    def score(i: int, j: int) -> Tensor:
        return rotate(Q, positions.angles(at(i))) @ rotate(K, positions.angles(at(j))).mT

    assert torch.allclose(score(i, j), score(i + shift, j + shift), atol=2e-3)  # sines of angles up to 1500
    assert torch.allclose(rotate(Q, positions.angles(at(i))).norm(dim=-1), Q.norm(dim=-1), atol=1e-5)


def test_rotation_turns_pairs_by_position_times_frequency() -> None:
    positions, Q = make("rotary", rotary_base=100.0), some(1, 1, 1, D_K)
    turned = rotate(Q, positions.angles(at(3)))
    for pair in range(2):
        cos, sin = (wave(3 * 100.0 ** (-2 * pair / D_K)) for wave in (math.cos, math.sin))
        x, y = Q[0, 0, 0, [pair, pair + 2]].tolist()
        found = turned[0, 0, 0, [pair, pair + 2]].tolist()
        assert found == pytest.approx([x * cos - y * sin, y * cos + x * sin], abs=1e-6)
    assert torch.equal(rotate(Q, positions.angles(at(0))), Q)
    assert rotate(Q, None) is Q


def test_stretched_angles_reach_further() -> None:
    frequencies = 10_000.0 ** -(torch.arange(0, 8, 2) / 8)
    linear = stretch(frequencies, RotaryScaling(kind="linear", factor=4.0))
    assert torch.allclose(linear, frequencies / 4)
    some_only = stretch(frequencies, RotaryScaling(kind="llama3", factor=4.0, original_context=64))
    turns = 64 * frequencies / (2 * math.pi)  # 10.2, 1.02, 0.1, 0.01
    assert torch.equal(some_only[0], frequencies[0])  # more than 4 turns: left alone
    assert torch.allclose(some_only[2:], frequencies[2:] / 4)  # less than 1: stretched
    share = (float(turns[1]) - 1) / 3
    assert float(some_only[1]) == pytest.approx(float(frequencies[1]) * (share + (1 - share) / 4))


def test_alibi_falls_with_the_distance_at_each_heads_own_rate() -> None:
    bias = make("alibi").bias(torch.arange(N)[None], torch.arange(M)[None])
    assert bias is not None
    assert bias.shape == (1, H, N, M)
    for h, i, j in [(h, i, j) for h in range(H) for i in range(N) for j in range(M)]:
        assert float(bias[0, h, i, j]) == pytest.approx(-(2 ** (-8 * (h + 1) / H)) * abs(i - j))


@pytest.mark.parametrize("causal", [True, False])
def test_relative_positions_have_a_number_for_each_bucket(causal: bool) -> None:
    positions = make("relative", causal, relative_buckets=8, relative_distance=16)
    assert isinstance(positions, Relative)
    bias, buckets = positions.bias(at(20), torch.arange(41)[None]), positions.bucket(torch.arange(-20, 21))
    assert bias.shape == (1, H, 1, 41)
    assert torch.equal(bias[0, :, 0], positions.weight[buckets].T)
    gaps = {gap: int(bucket) for gap, bucket in zip(range(-20, 21), buckets, strict=True)}
    if causal:  # half of 8 buckets are exact, the others grow up to distance 16; all of the future is one
        assert [gaps[-gap] for gap in range(5)] == [0, 1, 2, 3, 4]
        assert gaps[-15] == gaps[-16] == gaps[-20] == 7
        assert {gaps[gap] for gap in range(21)} == {0}
    else:  # half of the table for each side
        assert [gaps[-gap] for gap in range(3)] == [0, 1, 2]
        assert [gaps[gap] for gap in range(1, 3)] == [5, 6]
        assert (gaps[-16], gaps[16]) == (3, 7)
        assert all(gaps[gap] == gaps[-gap] + 4 for gap in range(1, 21))
    far = [gaps[-gap] for gap in range(21)]
    assert far == sorted(far)
    assert set(buckets.tolist()) == set(range(8)) - (
        set() if causal else {4}
    )  # 4: to the right, at distance 0


@pytest.mark.parametrize("kind", ["alibi", "relative"])
def test_biases_depend_on_the_distance_only(kind: str) -> None:
    positions = make(kind, causal=False)
    near, far = positions.bias(at(1, 4), at(0, 2, 5)), positions.bias(at(8, 11), at(7, 9, 12))
    assert near is not None
    assert far is not None
    assert torch.equal(near, far)


@pytest.mark.parametrize("kind", POSITIONS)
def test_rows_of_a_batch_may_stand_at_different_places(kind: str) -> None:
    positions = make(kind)
    here, to = torch.tensor([[0, 1], [5, 6]]), torch.tensor([[0, 1, 2], [4, 5, 6]])
    for row in range(B):
        embed, alone = positions.embed(here), positions.embed(here[row : row + 1])
        assert (embed is None and alone is None) or torch.equal(embed[row], alone[0])  # type: ignore[index]
        bias, lone = positions.bias(here, to), positions.bias(here[row : row + 1], to[row : row + 1])
        assert (bias is None and lone is None) or torch.equal(bias[row], lone[0])  # type: ignore[index]
        turned = rotate(some(B, H, 2, D_K), positions.angles(here))
        assert torch.equal(
            turned[row], rotate(some(B, H, 2, D_K), positions.angles(here[row : row + 1]))[row]
        )


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary", "alibi"])
def test_fixed_numbers_keep_their_digits_in_few_bits(kind: str) -> None:
    """A model in bfloat16 still counts positions: 257 is not 256."""
    positions, here = make(kind).to(torch.bfloat16), at(256, 257)
    acts = [positions.embed(here), *(positions.angles(here) or ()), positions.bias(here, at(0))]
    found = [X for X in acts if X is not None]
    assert found
    for X in found:
        assert X.dtype == torch.float32
        assert not torch.equal(X[..., 0, :], X[..., 1, :])


@pytest.mark.parametrize("kind", ["learned", "relative"])
def test_gradients(kind: str) -> None:
    positions = make(kind).double()

    def act(_: Tensor) -> Tensor:
        embed, bias = positions.embed(at(0, 3)), positions.bias(at(0, 3), at(0, 1, 2))
        return embed if embed is not None else bias  # type: ignore[return-value]

    assert torch.autograd.gradcheck(act, tuple(positions.parameters()))
