"""Laws that hold for every model: one battery over every kind of every axis."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.inspection.capture import capture
from clearhead.layers.sites import site_names
from clearhead.models.inputs import Inputs
from tests.models.cases import CASES, B, Case, M, N, gap, read, some_ids, some_source

TOLERANCE = 1e-5  # of float32 sums taken in another order, relative to the largest number


def cases(**wanted: bool) -> Any:
    """Parametrises a test over the cases that have these properties."""
    fitting = [
        case for case in CASES.values() if all(getattr(case, key) == is_so for key, is_so in wanted.items())
    ]
    return pytest.mark.parametrize("case", fitting, ids=lambda case: case.name)


@cases(is_causal=True)
@pytest.mark.notes("N15")
def test_a_token_changes_nothing_before_it(case: Case) -> None:
    tokens, source, model = some_ids(B, N), some_source(case), case.model()
    before = read(model, tokens, source)
    for j in (1, N - 1):
        changed = tokens.clone()
        changed[:, j] = (changed[:, j] + 1) % case.config.vocabulary
        after = read(model, changed, source)
        assert gap(after[:, :j], before[:, :j]) < TOLERANCE
        assert gap(after[:, j], before[:, j]) > 100 * TOLERANCE


@cases()
def test_padding_changes_nothing(case: Case) -> None:
    tokens, source, model = some_ids(B, N + 3), some_source(case), case.model()
    counts, source_counts = torch.tensor([N, N - 3]), torch.tensor([M, M - 5])
    padded = read(model, tokens, source, counts, source_counts if source is not None else None)
    for row in range(B):
        n, m = int(counts[row]), int(source_counts[row])
        alone = read(model, tokens[row : row + 1, :n], None if source is None else source[row : row + 1, :m])
        assert gap(padded[row : row + 1, :n], alone) < TOLERANCE


@cases(is_crossed=False)
def test_a_sequence_does_not_see_its_neighbours(case: Case) -> None:
    model = case.model()
    for n, m in ((N, M), (1, 1)):  # one token is a sequence too
        tokens, source = some_ids(3, n), some_source(case, 3)
        source = None if source is None else source[:, :m]
        together = read(model, tokens, source)
        alone = read(model, tokens[1:2], None if source is None else source[1:2])
        assert gap(together[1:2], alone) < TOLERANCE
        assert together.isfinite().all()


@cases(has_attention=True)
@pytest.mark.notes("N12")
def test_weights_of_a_query_sum_to_one(case: Case) -> None:
    tokens, source, model = some_ids(B, N), some_source(case), case.model()
    counts = None if case.is_causal else torch.tensor([N, N - 3])
    names = [name for name in site_names(model) if name.endswith(".weights")]
    with capture(model, *names) as trace:
        read(model, tokens, source, counts)
    assert len(trace) == len(names) == len(case.config.attentions())
    for name, A in trace.items():
        assert (A >= 0).all()
        seen = A.sum(-1)
        if case.window is not None and counts is not None:  # padding far from real tokens sees nothing
            seen = seen[:, :, : N - 3]
        assert gap(seen, torch.ones_like(seen)) < TOLERANCE
        check_visible(case, name, A, counts)


def check_visible(case: Case, name: str, A: Tensor, counts: Tensor | None) -> None:
    """Weights are exactly zero where a query may not look."""
    i, j = torch.arange(A.shape[-2])[:, None], torch.arange(A.shape[-1])
    if name.startswith("decoder") and name.endswith("self.weights"):
        assert (A[..., j > i] == 0).all()
    if not name.endswith("cross.weights") and case.window is not None:
        assert (A[..., (i - j).abs() >= case.window] == 0).all()
    if counts is not None:
        for row, count in enumerate(counts):
            assert (A[row, ..., int(count) :] == 0).all()


@cases()
def test_a_captured_pass_is_the_fast_pass(case: Case) -> None:
    tokens, source, model = some_ids(B, N), some_source(case), case.model()
    fast = read(model, tokens, source)
    with capture(model) as trace:
        watched = read(model, tokens, source)
    assert gap(watched, fast) < TOLERANCE
    missing = site_names(model).keys() - trace.keys()
    assert missing <= {"logits", "head.pooled"}  # where vectors were asked for
    assert gap(read(model, tokens, source), fast) == 0  # and nothing stays behind


@cases(is_causal=False)
@pytest.mark.notes("N14")
def test_without_positions_an_encoder_maps_sets_to_sets(case: Case) -> None:
    model, tokens, order = case.model(), some_ids(B, N), torch.tensor([3, 0, 4, 1, 2])
    change = gap(read(model, tokens[:, order]), read(model, tokens)[:, order])
    assert change < TOLERANCE if case.is_set_to_set else change > 100 * TOLERANCE


@cases(is_causal=True, has_blocks=True)
@pytest.mark.notes("N15")
def test_with_a_causal_mask_order_matters(case: Case) -> None:
    model, tokens, source = case.model(), some_ids(B, N), some_source(case)
    order = torch.tensor([3, 0, 4, 1, 2])
    assert gap(read(model, tokens[:, order], source), read(model, tokens, source)[:, order]) > 100 * TOLERANCE


@cases(has_source=True, has_blocks=True)
@pytest.mark.notes("N14", "N17")
def test_without_positions_a_source_is_a_set(case: Case) -> None:
    model, tokens, source = case.model(), some_ids(B, N), some_source(case)
    assert source is not None
    order = torch.tensor([6, 3, 0, 4, 1, 2, 5])
    change = gap(read(model, tokens, source[:, order]), read(model, tokens, source))
    assert change < TOLERANCE if case.is_set_to_set else change > 10 * TOLERANCE


@cases(is_writer=True, has_source=False)
def test_packed_documents_are_read_one_by_one(case: Case) -> None:
    model = case.model()
    tokens = some_ids(B, 9)
    documents = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [4, 4, 7, 7, 7, 7, 7, 4, 4]])
    spans = [[(0, 4), (4, 9)], [(0, 2), (2, 7), (7, 9)]]
    with torch.no_grad():
        packed = model(Inputs(tokens, documents=documents))
        for row, parts in enumerate(spans):
            for first, last in parts:
                alone = model(Inputs(tokens[row : row + 1, first:last]))
                assert gap(packed[row : row + 1, first:last], alone) < TOLERANCE
