"""A pass or a step that is watched says what one says that is not, with padding and through the cache too."""

import pytest
import torch

from clearhead.inspection.capture import capture
from clearhead.layers import cache
from tests.models.cases import B, Case, M, N, gap, read, some_ids, some_source
from tests.models.test_laws import TOLERANCE, cases
from tests.models.test_steps import RAGGED, T, check, decoder_of, write


@cases()
def test_padding_is_the_same_for_who_watches(case: Case) -> None:
    tokens, source, model = some_ids(B, N + 3), some_source(case), case.model()
    counts, source_counts = torch.tensor([N, N - 3]), torch.tensor([M, M - 5])
    given = (tokens, source, counts, source_counts if source is not None else None)
    fast = read(model, *given)
    with capture(model) as trace:
        watched = read(model, *given)
    for row, count in enumerate(counts.tolist()):
        assert gap(watched[row, :count], fast[row, :count]) < TOLERANCE
    assert all(X.isfinite().all() for name, X in trace.items() if not name.endswith("scores"))


@cases(is_writer=True, is_sampled=True)
@pytest.mark.notes("N40")
def test_a_step_is_the_same_for_who_watches(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FIRST_SLOTS", 4)
    model, tokens, source = decoder_of(case), some_ids(B, T), some_source(case)
    unseen, seen = model.start(B, T, source), model.start(B, T, source)
    expected = write(model, tokens, unseen, RAGGED, extra=2)
    with capture(model) as trace:
        found = write(model, tokens, seen, RAGGED, extra=2)
    assert trace
    check(model, tokens, source, found)
    for ours, theirs in zip(found, expected, strict=True):
        assert gap(torch.stack(ours), torch.stack(theirs)) < TOLERANCE
    assert torch.equal(seen.lengths, unseen.lengths)


@cases(is_writer=True, is_sampled=True)
def test_watching_may_begin_and_end_between_two_steps(case: Case) -> None:
    """What a watched step puts into the cache is what the next, unwatched one needs."""
    model, tokens, source = decoder_of(case), some_ids(B, 6), some_source(case)
    state, heard = model.start(B, 6, source), []
    for i in range(6):
        if i % 2:
            with capture(model):
                heard.append(model.step(tokens[:, i : i + 1], state))
        else:
            heard.append(model.step(tokens[:, i : i + 1], state))
    assert gap(torch.cat(heard, 1), read(model, tokens, source)) < TOLERANCE
