"""The notes on vectors, with their own small numbers: N2, N4, N7."""

import math

import pytest
import torch
import torch.nn.functional as F

from clearhead.config.model import ModelConfig
from clearhead.inspection.capture import capture
from clearhead.layers.masks import masked_softmax
from clearhead.layers.similarity import SIMILARITIES
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from tests.layers.parts import crossed
from tests.models.cases import gap, randomise

SMALL = {"d": 6, "h": 1, "encoder_blocks": 1, "context": 9}


def words(sentence: str) -> tuple[list[str], torch.Tensor]:
    """The words of a sentence, each known once, and their ids."""
    pieces = sentence.lower().replace(",", " ,").replace("?", " ?").replace("!", " !").split()
    known = sorted(set(pieces))
    return known, torch.tensor([[known.index(piece) for piece in pieces]])


@pytest.mark.notes("N2")
def test_a_one_hot_vector_times_the_table_is_a_row_of_it() -> None:
    """003 writes ACGTAACG as (1,0,0,0), (0,1,0,0), …; with E the identity the model says just that."""
    letters = torch.tensor([["ACGT".index(letter) for letter in "ACGTAACG"]])
    one_hot = F.one_hot(letters, 4).float()
    assert one_hot[0, :4].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    model = build(ModelConfig(vocabulary=4, d=4, h=1, positions="none"))
    E = model.get_parameter("decoder.tokens.weight")
    for table in (torch.eye(4), torch.randn(4, 4, generator=torch.Generator().manual_seed(1))):
        with torch.no_grad():
            E.copy_(table)
        with capture(model, "embeddings.tokens") as trace:
            model(Inputs(letters))
        assert torch.allclose(trace["embeddings.tokens"], one_hot @ table)


@pytest.mark.notes("N2")
def test_one_hot_vectors_are_all_equally_different_and_learned_ones_are_not() -> None:
    """004: salt and savory, sugar and sweet are 'equally different' as one-hot vectors."""
    one_hot = torch.eye(4)  # salt, savory, sugar, sweet
    gaps = torch.cdist(one_hot, one_hot)
    assert torch.allclose(gaps, math.sqrt(2) * (1 - torch.eye(4)), atol=1e-6)
    E = torch.tensor([[0.0, 2.0], [0.2, 1.9], [2.0, 0.1], [1.9, 0.0]])  # narrower than the vocabulary
    learned = torch.cdist(one_hot @ E, one_hot @ E)
    assert learned[0, 1] < learned[0, 2]
    assert learned[2, 3] < learned[1, 3]


@pytest.mark.notes("N4")
def test_cosine_is_one_for_the_same_direction_zero_across_and_minus_one_against() -> None:
    q = torch.tensor([[[[3.0, 0.0]]]])
    K = torch.tensor([[[[5.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [1.0, 1.0]]]])
    S = SIMILARITIES["cosine"](1, 2, None)(q, K, crossed(1, 4))
    assert S.flatten().tolist() == pytest.approx([1, 0, -1, math.sqrt(0.5)])
    assert SIMILARITIES["dot"](1, 2, None)(q, K, crossed(1, 4)).flatten().tolist() == [15, 0, -3, 3]


@pytest.mark.notes("N4")
def test_softmax_turns_scores_into_probabilities() -> None:
    """P(b | a) = e^(a·b) / Σ e^(a·i), for a = (1, 0) and three words with a·b = 1, 0 and −1."""
    a = torch.tensor([[[[1.0, 0.0]]]])
    others = torch.tensor([[[[1.0, 5.0], [0.0, 2.0], [-1.0, 1.0]]]])
    view = crossed(1, 3)
    P = masked_softmax(SIMILARITIES["dot"](1, 2, None)(a, others, view), view.mask).flatten()
    total = math.e + 1 + 1 / math.e
    assert P.tolist() == pytest.approx([math.e / total, 1 / total, 1 / math.e / total])
    assert P.tolist() == pytest.approx([0.6652, 0.2447, 0.0900], abs=1e-4)


@pytest.mark.notes("N7", "N2")
def test_a_position_is_added_to_a_word() -> None:
    """x_i = E t_i + P p_i for 'He is happy!', where t_i and p_i are one-hot."""
    known, ids = words("He is happy!")
    config = ModelConfig(vocabulary=len(known), shape="encoder", positions="learned", **SMALL)  # type: ignore[arg-type]
    model = randomise(build(config))
    E, P = model.get_parameter("encoder.tokens.weight"), model.get_parameter("encoder.positions.weight")
    with capture(model, "embeddings.*") as trace:
        model(Inputs(ids))
    t, p = F.one_hot(ids[0], len(known)).float(), torch.eye(4, 9)
    assert torch.allclose(trace["embeddings.tokens"][0], t @ E)
    assert torch.allclose(trace["embeddings.positions"][0], p @ P)
    assert torch.allclose(trace["embeddings.out"][0], t @ E + p @ P)


@pytest.mark.notes("N7")
def test_the_first_position_has_the_same_vector_in_every_sequence() -> None:
    """002: p_1 is the same vector for the first position of every sequence, and so on."""
    model = randomise(build(ModelConfig(vocabulary=9, positions="learned", **SMALL)))  # type: ignore[arg-type]
    added = []
    for ids in ([[1, 2, 3]], [[7, 7, 0, 4]]):
        with capture(model, "embeddings.*") as trace:
            model(Inputs(torch.tensor(ids)))
        added.append(trace["embeddings.out"] - trace["embeddings.tokens"])
    assert torch.allclose(added[0], added[1][:, :3], atol=1e-6)


@pytest.mark.notes("N7", "N14")
@pytest.mark.parametrize("positions", ["none", "learned"])
def test_they_are_rich_but_are_they_happy(positions: str) -> None:
    """The two sentences are the same set of words; only positions tell them apart."""
    known, one = words("They are rich, but are they happy?")
    _, other = words("They are happy, but are they rich?")
    assert sorted(one[0].tolist()) == sorted(other[0].tolist())
    config = ModelConfig(vocabulary=len(known), shape="encoder", positions=positions, **SMALL)  # type: ignore[arg-type]
    model = randomise(build(config))
    rich, happy = known.index("rich"), known.index("happy")
    with torch.no_grad():
        said = [
            torch.stack([model(Inputs(ids))[0, ids[0] == word][0] for word in (rich, happy)])
            for ids in (one, other)
        ]
    assert (gap(said[0], said[1]) < 1e-5) == (positions == "none")
