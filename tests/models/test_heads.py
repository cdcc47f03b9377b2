"""Heads: what is read from the top of a stack."""

import pytest
import torch

from clearhead.models.build import build
from clearhead.models.heads import POOL_DENSE, POOLS, pool
from clearhead.models.inputs import Inputs
from clearhead.models.transformer.encoder import Encoder
from tests.models.cases import VOCABULARY, B, N, configure, gap, randomise, some_ids

X = torch.randn(B, N, 4, generator=torch.Generator().manual_seed(1))
COUNTS = torch.tensor([N, 2])


def test_pools_are_what_they_are_called() -> None:
    assert torch.equal(pool(X, COUNTS, "first"), X[:, 0])
    assert torch.equal(pool(X, COUNTS, "last"), torch.stack([X[0, N - 1], X[1, 1]]))
    assert torch.allclose(pool(X, COUNTS, "mean"), torch.stack([X[0].mean(0), X[1, :2].mean(0)]))
    sums = torch.stack([X[0].sum(0) / N**0.5, X[1, :2].sum(0) / 2**0.5])
    assert torch.allclose(pool(X, COUNTS, "root"), sums)
    for kind in POOLS:
        assert torch.allclose(pool(X, None, kind), pool(X, torch.tensor([N, N]), kind))


@pytest.mark.notes("N30")
@pytest.mark.parametrize("dense", ["none", "tanh", "relu"])
@pytest.mark.parametrize("kind", POOLS)
def test_a_classifier_reads_one_vector_for_the_sentence(kind: str, dense: str) -> None:
    settings = {"head": "classifier", "classes": 3, "pool": kind, "pool_dense": dense}
    model = randomise(build(configure("encoder", settings)))
    assert isinstance(model, Encoder)
    tokens = some_ids(B, N)
    logits = model(Inputs(tokens, COUNTS))
    assert logits.shape == (B, 3)
    vector = pool(model.vectors(Inputs(tokens, COUNTS)), COUNTS, kind)
    if dense != "none":
        vector = getattr(torch, dense)(model.head.dense(vector))  # type: ignore[operator]
    assert torch.allclose(logits, model.head.out(vector), atol=1e-6)  # type: ignore[operator]
    changed = tokens.clone()
    changed[1, 2:] = 0  # padding of the second sentence
    assert gap(model(Inputs(changed, COUNTS)), logits) < 1e-5


@pytest.mark.notes("N30")
@pytest.mark.parametrize("dense", POOL_DENSE)
@pytest.mark.parametrize(
    ("shape", "kind"), [*(("encoder", kind) for kind in POOLS), ("decoder", "mean"), ("decoder", "last")]
)
def test_a_padded_sentence_has_the_class_it_has_alone(shape: str, kind: str, dense: str) -> None:
    settings = {"head": "classifier", "classes": 3, "pool": kind, "pool_dense": dense}
    model = randomise(build(configure(shape, settings)))
    tokens, counts = some_ids(3, N + 2), torch.tensor([N + 2, 1, 3])
    together = model(Inputs(tokens, counts))
    for row, count in enumerate(counts.tolist()):
        assert gap(together[row : row + 1], model(Inputs(tokens[row : row + 1, :count]))) < 1e-5
    assert gap(together[1:], model(Inputs(tokens))[1:]) > 1e-3  # padding that is read as text shows


def test_a_tied_head_is_the_table_of_embeddings() -> None:
    model = randomise(build(configure("decoder", {"head_scale": 0.5, "head_bias": True})))
    tokens = some_ids(B, N)
    vectors = model.vectors(Inputs(tokens))
    expected = 0.5 * vectors @ model.decoder.tokens.weight.T + model.head.bias  # type: ignore[union-attr,operator]
    assert torch.allclose(model(Inputs(tokens)), expected, atol=1e-5)
    own = build(configure("decoder", {"tied": False}))
    assert own.head.table.weight is not own.decoder.tokens.weight  # type: ignore[union-attr]


def test_a_soft_cap_bounds_the_logits_and_keeps_their_order() -> None:
    free, capped = (build(configure("decoder", {"soft_cap": cap})) for cap in (None, 2.0))
    tokens = some_ids(B, N)
    expected = free(Inputs(tokens))
    assert capped(Inputs(tokens)).abs().max() <= 2
    assert torch.allclose(capped(Inputs(tokens)), 2 * torch.tanh(expected / 2), atol=1e-6)
    assert torch.equal(capped(Inputs(tokens)).argmax(-1), expected.argmax(-1))


@pytest.mark.notes("N28")
def test_a_language_head_speaks_of_every_token_of_the_vocabulary() -> None:
    P = build(configure("decoder", {}))(Inputs(some_ids(B, N))).softmax(-1)
    assert P.shape == (B, N, VOCABULARY)
    assert torch.allclose(P.sum(-1), torch.ones(B, N))
