"""The notes on attention, with their own sentences and small numbers: N9 to N18 and N20."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from clearhead.config.model import ModelConfig
from clearhead.inspection.capture import capture
from clearhead.layers.attention import Attention, Dimensions, plain
from clearhead.layers.similarity import SIMILARITIES
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from tests.layers.parts import attend, crossed, make_attention, some, square
from tests.models.cases import randomise
from tests.narrow import transformer


def bare(similarity: str, d: int) -> Attention:
    """Attention with no matrices at all: q = k = v = x."""
    kind = SIMILARITIES[similarity]
    size = Dimensions(d, d, 1, 1, d if kind.uses_content else 0, d)
    return Attention(size, kind(1, size.d_k, None), projections="none")


def given(attention: Attention, **matrices: Tensor) -> Attention:
    """The attention with these matrices, one row for each output as in q = W_q x."""
    with torch.no_grad():
        for name, matrix in matrices.items():
            attention.get_parameter(f"{name}.weight").copy_(matrix)
    return attention


def weigh(attention: Attention, X: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """The weights (n, n) of the first head and the outputs (n, d) for one sentence (n, d)."""
    view = replace(square(len(X)), causal=causal)
    with capture(attention, "weights") as trace:
        Y = attend(attention, X[None], X[None], view)
    return trace["weights"][0, 0], Y[0].detach()


def softmax(*scores: float) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


@pytest.mark.notes("N9")
def test_fixed_weights_are_a_bell_around_the_position() -> None:
    """001: W̃_ji = N(t_j; t_i, 1), normalised to sum to 1. For n = 3: e^0 = 1, e^−½ = 0.6065, e^−2 = 0.1353."""
    X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 4.0]])
    A, Y = weigh(bare("distance", 2), X)
    expected = [[0.5741, 0.3482, 0.0777], [0.2741, 0.4519, 0.2741], [0.0777, 0.3482, 0.5741]]
    assert torch.allclose(A, torch.tensor(expected), atol=1e-4)
    bell = [[math.exp(-((i - j) ** 2) / 2) / math.sqrt(2 * math.pi) for j in range(3)] for i in range(3)]
    normalised = torch.tensor([[value / sum(row) for value in row] for row in bell])
    assert torch.allclose(A, normalised, atol=1e-6)
    assert Y[1].tolist() == pytest.approx([0.2741 + 2 * 0.2741, 0.4519 + 4 * 0.2741], abs=1e-3)
    assert torch.equal(weigh(bare("distance", 2), 10 * X)[0], A)  # what the words are does not matter


X_OF_N10 = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # x·x: 1 0 1 / 0 1 1 / 1 1 2


@pytest.mark.notes("N10")
def test_simplified_attention_over_the_whole_sentence() -> None:
    """001: z_j = x_jᵀ x_i, weights = softmax(z), y_i = Σ w_j x_j, and nothing is learned."""
    attention = bare("dot", 2)
    assert not list(attention.parameters())
    A, Y = weigh(attention, X_OF_N10)
    assert A.tolist() == [
        pytest.approx(softmax(1, 0, 1)), pytest.approx(softmax(0, 1, 1)), pytest.approx(softmax(1, 1, 2)),
    ]  # fmt: skip
    w = softmax(1, 0, 1)  # 0.4223, 0.1554, 0.4223
    assert Y[0].tolist() == pytest.approx([w[0] + w[2], w[1] + w[2]])
    assert Y[0].tolist() == pytest.approx([0.8446, 0.5777], abs=1e-4)


@pytest.mark.notes("N10", "N15")
def test_simplified_attention_over_what_came_before() -> None:
    """003: a_i = Σ_{j ≤ i} α_ij x_j."""
    A, Y = weigh(bare("dot", 2), X_OF_N10, causal=True)
    assert A[0].tolist() == [1, 0, 0]
    assert A[1].tolist() == pytest.approx([*softmax(0, 1), 0])
    assert Y[1].tolist() == pytest.approx([0.2689, 0.7311], abs=1e-4)
    assert A[2].tolist() == pytest.approx(softmax(1, 1, 2))


@pytest.mark.notes("N11")
@pytest.mark.parametrize("projections", ["linear", "relu"])
def test_queries_keys_and_values_by_hand(projections: str) -> None:
    """q = f(W_q x), k = f(W_k x), v = f(W_v x) for x = (1, −2), with f = relu or nothing."""
    attention = given(
        make_attention(projections=projections, h=1, d=2, d_memory=2, d_k=2, d_v=3),
        W_q=torch.tensor([[1.0, 1.0], [2.0, 0.0]]),
        W_k=torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
        W_v=torch.tensor([[1.0, 0.0], [0.0, -1.0], [3.0, 1.0]]),
    )
    x = torch.tensor([[[1.0, -2.0]]])
    with capture(attention, "q", "k", "v") as trace:
        attend(attention, x, x, square(1))
    expected = {"q": [-1, 2], "k": [-2, 1], "v": [1, 2, 1]}
    for name, numbers in expected.items():
        wanted = [max(0, number) for number in numbers] if projections == "relu" else numbers
        assert trace[name].flatten().tolist() == wanted


EMMA = ["Emma", "hates", "games", "but", "she", "is", "a", "great", "friend"]
# Like the figure of 001: names of women up, games to the right, the rest near the middle.
PLACES = {
    "Emma": (0.2, 3.0), "she": (-0.2, 2.8), "games": (3.0, 0.2), "hates": (1.0, -1.0), "but": (0.0, 0.1),
    "is": (0.1, 0.0), "a": (0.0, -0.1), "great": (-0.5, 0.5), "friend": (-3.0, 0.5),
}  # fmt: skip


@pytest.mark.notes("N10", "N11", "N12")
def test_emma_hates_games_but_she_is_a_great_friend() -> None:
    """The first idea looks at like words; a query made by W_Q looks at Emma and she, with W_K = I."""
    X = torch.tensor([PLACES[word] for word in EMMA])
    friend, games = EMMA.index("friend"), EMMA.index("games")
    A, _ = weigh(bare("dot", 2), X)
    assert int(A[friend].argmax()) == friend
    assert int(A[games].argmax()) == games

    turn = torch.tensor(
        [[0.0, 0.0], [-0.6, 0.4]]
    )  # friend (−3, 0.5) asks for (0, 2): up, where the names are
    attention = given(make_attention("dot", h=1, d=2, d_memory=2, d_k=2, d_v=2), W_q=turn, W_k=torch.eye(2),
                      W_v=torch.eye(2), W_o=torch.eye(2))  # fmt: skip
    A, Y = weigh(attention, X)
    scores = [2 * PLACES[word][1] for word in EMMA]  # z_j = x_j · (0, 2)
    assert A[friend].tolist() == pytest.approx(softmax(*scores), abs=1e-6)
    likely = sorted(zip(A[friend].tolist(), EMMA, strict=True), reverse=True)
    assert {word for _, word in likely[:2]} == {"Emma", "she"}
    assert likely[0][0] + likely[1][0] > 0.98
    average = sum(w * torch.tensor(PLACES[word]) for w, word in likely)
    assert torch.allclose(Y[friend], average, atol=1e-5)
    assert (
        A[games, friend] > A[friend, friend]
    )  # the same matrices answer another word's question differently


WEIGHTS = torch.tensor([[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.1, 0.5, 0.4]])
VALUES = torch.tensor([[2.0, 0.0], [0.0, 4.0], [10.0, -10.0]])


def attention_of_002(similarity: str, factor: float) -> tuple[Attention, Tensor, Tensor]:
    """Queries and keys whose scores are the logarithms of 002's weights, and something large in the future."""
    scores = WEIGHTS.log().masked_fill(WEIGHTS == 0, 5.0)
    return make_attention(similarity, h=1, d_k=3, d_v=2), factor * scores, torch.eye(3)


@pytest.mark.notes("N12", "N15")
@pytest.mark.parametrize(("similarity", "factor"), [("scaled_dot", math.sqrt(3)), ("dot", 1.0)])
def test_the_three_by_three_weights_of_002(similarity: str, factor: float) -> None:
    """h_1 = v_1, h_2 = 0.3 v_1 + 0.7 v_2, h_3 = 0.1 v_1 + 0.5 v_2 + 0.4 v_3, in one matrix product."""
    attention, Q, K = attention_of_002(similarity, factor)
    view = replace(square(3), causal=True)
    with capture(attention, "weights") as trace:
        H = plain(attention, Q[None, None], K[None, None], VALUES[None, None], view)
    assert torch.allclose(trace["weights"][0, 0], WEIGHTS, atol=1e-6)
    assert torch.allclose(H[0, 0], torch.tensor([[2.0, 0.0], [0.6, 2.8], [4.2, -2.0]]), atol=1e-5)
    for i in range(3):  # each row alone gives the same: no row waits for another
        at = replace(crossed(1, i + 1), at=torch.tensor([[i]]), causal=True)
        alone = plain(
            attention, Q[None, None, i : i + 1], K[None, None, : i + 1], VALUES[None, None, : i + 1], at
        )
        assert torch.allclose(alone[0, 0, 0], H[0, 0, i], atol=1e-6)


@pytest.mark.notes("N12")
def test_the_hidden_states_of_002() -> None:
    """h_3 = 0.3 v_1 + 0.5 v_2 + 0.2 v_3 and h_2 = 0.7 v_1 + 0.3 v_2."""
    attention, _, K = attention_of_002("dot", 1.0)
    view = replace(square(3), causal=True)
    Q = torch.tensor([[0.0, 0.0, 0.0], [0.7, 0.3, 1.0], [0.3, 0.5, 0.2]]).clamp(min=1e-9).log()
    H = plain(attention, Q[None, None], K[None, None], VALUES[None, None], view)[0, 0]
    assert torch.allclose(H[2], 0.3 * VALUES[0] + 0.5 * VALUES[1] + 0.2 * VALUES[2], atol=1e-5)
    assert torch.allclose(H[1], 0.7 * VALUES[0] + 0.3 * VALUES[1], atol=1e-5)


@pytest.mark.notes("N12", "N4")
def test_the_average_mexican_food_of_004() -> None:
    """v_q = Σ P(k_i | q) v_i: how much a burrito, a taco, sushi and an apple say about mexican food."""
    shares = [0.5, 0.25, 0.125, 0.125]  # burrito, taco, sushi, apple
    mexican = torch.tensor([[math.sqrt(2), 0.0]])  # undoes the division by √d_k
    keys = torch.tensor(
        [[math.log(share), flavour] for share, flavour in zip(shares, (3, -1, 7, 0), strict=True)]
    )
    price_calories_salt = torch.tensor([[8, 600, 1.2], [4, 200, 0.4], [16, 320, 1.6], [0.8, 80, 0.0]])
    attention = make_attention(h=1, d_k=2, d_v=3)
    with capture(attention, "weights") as trace:
        food = plain(
            attention, mexican[None, None], keys[None, None], price_calories_salt[None, None], crossed(1, 4)
        )
    assert trace["weights"].flatten().tolist() == pytest.approx(shares)
    # price 4 + 1 + 2 + 0.1, calories 300 + 50 + 40 + 10, salt 0.6 + 0.1 + 0.2 + 0
    assert food.flatten().tolist() == pytest.approx([7.1, 400, 0.9], abs=1e-4)


@pytest.mark.notes("N12")
def test_the_scale_of_each_set_of_notes() -> None:
    """004 divides by √d_k, 001 by √d of the input, 000 and 002 not at all: one setting, `scale`."""
    Q, K, view = some(1, 1, 2, 4), some(1, 1, 3, 4, seed=2), crossed(2, 3)
    product = Q @ K.mT
    for name, scale, divisor in (
        ("scaled_dot", None, 2.0),
        ("scaled_dot", 10**-0.5, 10**0.5),
        ("dot", None, 1.0),
    ):
        assert torch.allclose(SIMILARITIES[name](1, 4, scale)(Q, K, view), product / divisor)
    assert transformer(build(ModelConfig(d=10, h=1, d_k=4, scale=10**-0.5)).config).scale == 10**-0.5


@pytest.mark.notes("N12")
def test_without_a_scale_wide_keys_saturate_the_softmax() -> None:
    """004: 'the larger d_k is, the more terms in our dot product'."""
    largest = {}
    for d_k in (4, 1024):
        Q, K, view = some(1, 1, 200, d_k), some(1, 1, 8, d_k, seed=2), crossed(200, 8)
        for name in ("dot", "scaled_dot"):
            A = SIMILARITIES[name](1, d_k, None)(Q, K, view).softmax(-1)
            largest[name, d_k] = float(A.amax(-1).mean())
    assert largest["dot", 1024] > 0.95
    assert largest["scaled_dot", 1024] == pytest.approx(largest["scaled_dot", 4], abs=0.1)


@pytest.mark.notes("N13")
@pytest.mark.parametrize(
    ("similarity", "scores"),
    [
        ("cosine", [1, 0, -1]),
        ("gaussian", [-0.5, -1, -2]),  # −½|q − k|²
        ("additive", [math.tanh(3), 2 * math.tanh(1), math.tanh(0)]),  # v = (1, 1)
    ],
)
def test_other_measures_stand_where_the_dot_product_stands(similarity: str, scores: list[float]) -> None:
    """q = (1, 0) and the keys (2, 0), (0, 1), (−1, 0); the weights and the average follow from the scores."""
    attention = make_attention(similarity, h=1, d_k=2, d_v=3)
    for weight in attention.similarity.parameters():
        weight.data.fill_(1.0)
    q, K = torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]]])
    with capture(attention, "scores", "weights") as trace:
        y = plain(attention, q, K, torch.eye(3)[None, None], crossed(1, 3))
    assert trace["scores"].flatten().tolist() == pytest.approx(scores, abs=1e-6)
    assert y.flatten().tolist() == pytest.approx(softmax(*scores), abs=1e-6)


@pytest.mark.notes("N14")
def test_he_is_old_permuted() -> None:
    """'he', 'is' and 'old' get the same new vectors in whatever order they stand."""
    attention = make_attention(d=2, d_memory=2)
    old = {"he": (1.0, 0.5), "is": (0.0, -1.0), "old": (-0.5, 2.0)}
    found = []
    for order in (["he", "is", "old"], ["old", "he", "is"], ["is", "old", "he"]):
        _, Y = weigh(attention, torch.tensor([old[word] for word in order]))
        found.append({word: Y[i] for i, word in enumerate(order)})
    for word in old:
        assert torch.allclose(found[0][word], found[1][word], atol=1e-6)
        assert torch.allclose(found[0][word], found[2][word], atol=1e-6)


@pytest.mark.notes("N15")
def test_y_3_of_sos_i_have_a_car_sees_three_words() -> None:
    """001: the weights of y_3 are softmax(Z_13, Z_23, Z_33) and zeros, and order matters."""
    attention, X = make_attention(h=1, d=4, d_memory=4), some(5, 4)  # SOS, I, have, a, car
    with capture(attention, "scores") as trace:
        A, Y = weigh(attention, X, causal=True)
        scores = trace["scores"][0, 0]
    assert A[2].tolist() == pytest.approx([*softmax(*scores[2, :3].tolist()), 0, 0], abs=1e-6)
    assert A[0].tolist() == [1, 0, 0, 0, 0]
    for j in range(5):
        changed = X.clone()
        changed[j] += 1
        moved = (weigh(attention, changed, causal=True)[1] - Y).abs().amax(-1) > 1e-6
        assert moved.tolist() == [i >= j for i in range(5)]
    order = [1, 0, 2, 3, 4]
    assert not torch.allclose(weigh(attention, X[order], causal=True)[1], Y[order], atol=1e-3)


@pytest.mark.notes("N16")
def test_three_heads_as_wide_as_x() -> None:
    """The example of 001: n = 3, d = 2, h = 3; Ỹ stacks Y_1, Y_2, Y_3 and W_o brings it back to d."""
    n, d, h = 3, 2, 3
    attention, X = make_attention(h=h, d=d, d_memory=d, d_k=d, d_v=d), some(n, d)
    W = {name: weight.detach() for name, weight in attention.named_parameters()}
    stacked, total = [], torch.zeros(n, d)
    for c in range(h):
        rows = slice(c * d, (c + 1) * d)
        Q, K, V = (X @ W[f"W_{letter}.weight"][rows].T for letter in "qkv")
        Y = ((Q @ K.T) / math.sqrt(d)).softmax(-1) @ V
        stacked.append(Y)
        total += Y @ W["W_o.weight"][:, rows].T  # 004: W_{h,c} for each head, added up
    assert W["W_o.weight"].shape == (d, h * d)
    joined = torch.cat(stacked, -1) @ W["W_o.weight"].T
    found = weigh(attention, X)[1]
    assert torch.allclose(found, joined, atol=1e-6)
    assert torch.allclose(found, total, atol=1e-6)


@pytest.mark.notes("N17")
def test_tengo_un_coche_answers_sos_i_have_a_car() -> None:
    """y_4 asks with q_4 = W_Q x_4^D, and averages W_V x_j^E by softmax(k_jᵀ q_4 / √d_k): n_E = 3, n_D = 5."""
    d_E, d_D, d_k, d_v = 6, 4, 3, 5
    attention = make_attention(h=1, d=d_D, d_memory=d_E, d_k=d_k, d_v=d_v)
    source, target = some(3, d_E), some(5, d_D, seed=2)
    Y = attend(attention, target[None], source[None], crossed(5, 3))[0]
    assert Y.shape == (5, d_D)
    W = {name: weight.detach() for name, weight in attention.named_parameters()}
    q_4 = W["W_q.weight"] @ target[3]
    w = softmax(*(float(W["W_k.weight"] @ x @ q_4) / math.sqrt(d_k) for x in source))
    y_4 = W["W_o.weight"] @ sum(weight * (W["W_v.weight"] @ x) for weight, x in zip(w, source, strict=True))
    assert torch.allclose(Y[3], y_4, atol=1e-5)
    alone = attend(attention, target[None, 3:4], source[None], crossed(1, 3))[0, 0]
    assert torch.allclose(Y[3], alone, atol=1e-6)  # no mask is needed: y_4 sees x_4^D and X_E alone


def count(n: int) -> tuple[int, int]:
    """Multiplications and additions of one attention over n tokens, and the scores it makes."""
    attention = make_attention(h=2, d_k=4, d_v=4)
    Q, K, V = (some(1, 2, n, 4) for _ in range(3))
    with FlopCounterMode(display=False) as counter, capture(attention, "scores") as trace:
        plain(attention, Q, K, V, square(n))
    return counter.get_total_flops(), trace["scores"].numel()


@pytest.mark.notes("N18")
def test_the_cost_grows_with_the_square_of_the_length() -> None:
    """Every one of the n queries meets every one of the n keys, in each head: Q Kᵀ and A V are 2 n² d_k each."""
    for n in (8, 16, 32, 64):
        flops, scores = count(n)
        assert scores == 2 * n * n
        assert flops == 2 * (2 * n * n * 4 + 2 * n * n * 4)
    assert count(128)[0] == 4 * count(64)[0] == 16 * count(32)[0]


@pytest.mark.notes("N18")
def test_everything_but_attention_grows_linearly() -> None:
    """The whole model minus its attention costs the same for each token, however long the sentence."""
    model = build(ModelConfig(d=8, h=2, decoder_blocks=3, positions="none", similarity="dot", vocabulary=11))
    rest = {}
    for n in (16, 32, 64):
        with FlopCounterMode(display=False) as counter, capture(model, "scores"):
            model(Inputs(torch.zeros(1, n, dtype=torch.long)))
        attention = 3 * 2 * 2 * (2 * n * n * 4)  # blocks, heads, two products
        rest[n] = counter.get_total_flops() - attention
    assert rest[64] == 2 * rest[32] == 4 * rest[16] > 0


@pytest.mark.notes("N20")
def test_what_it_looks_at_in_a_head_of_the_fourth_layer() -> None:
    """One row of one head: how much 'it' attends to every word, which is q_it against all keys."""
    sentence = ["The", "chicken", "didn't", "cross", "the", "road", "because", "it", "was", "too", "tired"]
    config = ModelConfig(shape="encoder", vocabulary=11, d=12, h=3, encoder_blocks=4, positions="learned")
    model = randomise(build(config))
    it, head = sentence.index("it"), 1
    with capture(model, "encoder.3.self.*") as trace:
        model(Inputs(torch.arange(len(sentence))[None]))
    row = trace["encoder.3.self.weights"][0, head, it]
    assert row.shape == (len(sentence),)
    assert float(row.sum()) == pytest.approx(1)
    q, K = trace["encoder.3.self.q"][0, head, it], trace["encoder.3.self.k"][0, head]
    assert torch.allclose(row, (K @ q / math.sqrt(4)).softmax(0), atol=1e-6)
    gathered = row @ trace["encoder.3.self.v"][0, head]
    assert torch.allclose(trace["encoder.3.self.heads"][0, head, it], gathered, atol=1e-5)
