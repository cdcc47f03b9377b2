"""Losses equal the formulas of the lecture, written as loops, whatever the padding and the split into batches."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.data.batching.batches import IGNORE, Batch
from clearhead.data.batching.collate import LabelledTexts, Masked, Pairs, Windows
from clearhead.data.shards.columns import TokenColumn
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder
from clearhead.training.loop.losses import inputs_of, loss_of, training_loss
from tests.models.cases import VOCABULARY, configure, randomise

BEGIN, END, PADDING, MASK = 1, 2, 0, 3
CLASSES = 4
CLOSE = 2e-5  # relative: float32 sums in another order

words = st.integers(4, VOCABULARY - 1)
texts = st.lists(words, min_size=1, max_size=6)
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=5)


@cache
def model_of(shape: str, **changes: object) -> Model:
    return randomise(build(configure(shape, {"source_vocabulary": None, "encoder_d": None, **changes})))


def surprise(logits: Tensor, wanted: int) -> float:
    """−log P(wanted) = log Σ exp(z) − z, in Python's own numbers."""
    Z = [float(z) for z in logits]
    return math.log(math.fsum(math.exp(z) for z in Z)) - Z[wanted]


def pair_batch(given: Sequence[tuple[list[int], list[int]]]) -> Batch:
    source = TokenColumn.of([[*x, END] for x, _ in given])
    target = TokenColumn.of([[BEGIN, *y, END] for _, y in given])
    return Pairs(source, target, PADDING, PADDING)(np.arange(len(given)), 0)


def pair_surprises(given: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """−log P(y_i given y_<i, x) of every pair alone and every i but the first, by one pass for each prefix."""
    model, found = model_of("encoder-decoder"), []
    for x, y in given:
        whole = [BEGIN, *y, END]
        for i in range(1, len(whole)):
            with torch.no_grad():
                Z = model(Inputs(torch.tensor([whole[:i]]), source=torch.tensor([[*x, END]])))
            found.append(surprise(Z[0, -1], whole[i]))
    return found


def widened(batch: Batch, columns: int, source_columns: int) -> Batch:
    """The same batch with more padding on the right, filled with a token that could be read by mistake."""

    def wider(X: Tensor, extra: int, filling: int) -> Tensor:
        return torch.cat([X, X.new_full((len(X), extra), filling)], 1)

    assert batch.targets is not None
    assert batch.source is not None
    n, m = batch.inputs.shape[1], batch.source.shape[1]
    return replace(
        batch,
        inputs=wider(batch.inputs, columns, 7),
        targets=wider(batch.targets, columns, IGNORE),
        counts=torch.full((batch.rows,), n) if batch.counts is None else batch.counts,
        source=wider(batch.source, source_columns, 7),
        source_counts=torch.full((batch.rows,), m) if batch.source_counts is None else batch.source_counts,
    )


@pytest.mark.notes("N33")
@settings(max_examples=15)
@given(st.lists(texts, min_size=1, max_size=4), st.integers(1, 6))
def test_the_loss_is_the_mean_surprise_of_the_true_next_token(documents: list[list[int]], n: int) -> None:
    stream = [token for text in documents for token in (BEGIN, *text, END)]
    windows = Windows(TokenColumn.of([[BEGIN, *text, END] for text in documents]), n, BEGIN, False, PADDING)
    model, expected = model_of("decoder"), []
    for start in range(0, len(stream) - 1, n):
        window = stream[start : start + n]
        for i, wanted in enumerate(stream[start + 1 : start + n + 1]):
            if wanted != BEGIN:
                with torch.no_grad():
                    Z = model(Inputs(torch.tensor([window[: i + 1]])))
                expected.append(surprise(Z[0, -1], wanted))
    batch = windows(np.arange(windows.size), 0)
    loss = loss_of(model(inputs_of(batch)), batch)
    assert loss.count == batch.total == len(expected)
    assert float(loss.total.detach()) == pytest.approx(math.fsum(expected), rel=CLOSE)


@pytest.mark.notes("N33", "N35")
@settings(max_examples=15)
@given(pairs, st.integers(0, 3), st.integers(0, 3))
def test_padding_and_the_split_change_nothing(
    given: list[tuple[list[int], list[int]]], columns: int, source_columns: int
) -> None:
    model, whole = model_of("encoder-decoder"), pair_batch(given)
    expected = loss_of(model(inputs_of(whole)), whole)
    wide = widened(whole, columns, source_columns)
    found = loss_of(model(inputs_of(wide)), wide)
    assert (found.count, found.right) == (expected.count, expected.right)
    assert float(found.total.detach()) == pytest.approx(float(expected.total.detach()), rel=CLOSE)
    for parts in (2, 3, len(given) + 1):  # with more parts than rows some have nothing to predict
        shares = [whole.share(part, parts) for part in range(parts)]
        losses = [loss_of(model(inputs_of(share)), share) for share in shares]
        assert sum(loss.count for loss in losses) == expected.count
        assert sum(loss.right for loss in losses) == expected.right
        total = math.fsum(float(loss.total.detach()) for loss in losses)
        assert total == pytest.approx(float(expected.total.detach()), rel=CLOSE)


@pytest.mark.notes("N35")
@settings(max_examples=15)
@given(pairs)
def test_the_risk_is_a_sum_over_pairs_and_positions_without_the_start_token(
    given: list[tuple[list[int], list[int]]],
) -> None:
    batch = pair_batch(given)
    loss = loss_of(model_of("encoder-decoder")(inputs_of(batch)), batch)
    expected = pair_surprises(given)
    assert loss.count == batch.total == len(expected) == sum(len(y) + 1 for _, y in given)
    assert float(loss.total.detach()) == pytest.approx(math.fsum(expected), rel=CLOSE)
    assert batch.targets is not None
    assert not (batch.targets == BEGIN).any()  # i = 1 is given, never predicted
    assert (batch.inputs[:, 0] == BEGIN).all()


@pytest.mark.notes("N34")
@pytest.mark.parametrize("shape", ["decoder", "encoder-decoder"])
def test_one_parallel_pass_is_stepping_with_the_true_tokens(shape: str) -> None:
    given = [([5, 9, 4], [8, 6, 6, 11, 7]), ([7], [4, 21]), ([12, 12], [9, 9, 9])]
    model, batch = model_of(shape), pair_batch(given)
    assert isinstance(model, Decoder)
    if shape == "decoder":
        batch = replace(batch, source=None, source_counts=None)
    parallel = model(inputs_of(batch)).detach()
    state = model.start(batch.rows, batch.inputs.shape[1], batch.source, batch.source_counts)
    assert batch.targets is not None
    for i in range(batch.inputs.shape[1]):
        alone = model.step(batch.inputs[:, i : i + 1], state)[:, 0]
        for row in range(batch.rows):
            wanted = int(batch.targets[row, i])
            if wanted != IGNORE:
                assert surprise(alone[row], wanted) == pytest.approx(
                    surprise(parallel[row, i], wanted), abs=1e-4
                )


@pytest.mark.notes("N34")
@settings(max_examples=15)
@given(pairs, st.data())
def test_what_is_to_be_predicted_does_not_leak_into_its_own_prediction(
    given: list[tuple[list[int], list[int]]], data: st.DataObject
) -> None:
    row = data.draw(st.integers(0, len(given) - 1))
    place = data.draw(st.integers(0, len(given[row][1]) - 1))
    model, before = model_of("encoder-decoder"), pair_batch(given)
    y = list(given[row][1])
    y[place] = 4 if y[place] != 4 else 5
    changed = [*given[:row], (given[row][0], y), *given[row + 1 :]]
    after = pair_batch(changed)
    old, new = model(inputs_of(before)).detach(), model(inputs_of(after)).detach()
    # TokenColumn `place` predicts the token that was changed; the columns after it have read it.
    assert torch.equal(new[row, : place + 1], old[row, : place + 1])
    assert not torch.equal(new[row, place + 1], old[row, place + 1])
    others = [other for other in range(len(given)) if other != row]
    assert torch.equal(new[others], old[others])


@pytest.mark.notes("N33")
@settings(max_examples=15)
@given(pairs, st.floats(0.01, 0.9))
def test_smoothing_is_minimised_and_never_reported(
    given: list[tuple[list[int], list[int]]], share: float
) -> None:
    model, batch = model_of("encoder-decoder"), pair_batch(given)
    with torch.no_grad():
        logits = model(inputs_of(batch))
    minimised, reported = training_loss(logits, batch, share)
    assert batch.targets is not None
    plain, spread = 0.0, 0.0
    for Z, wanted in zip(logits.flatten(0, 1), batch.targets.flatten().tolist(), strict=True):
        if wanted != IGNORE:
            plain += surprise(Z, wanted)
            spread += math.fsum(surprise(Z, token) for token in range(VOCABULARY)) / VOCABULARY
    assert float(reported) == pytest.approx(plain, rel=CLOSE)
    assert float(minimised) == pytest.approx((1 - share) * plain + share * spread, rel=CLOSE)
    assert float(loss_of(logits, batch).total) == pytest.approx(plain, rel=CLOSE)


def test_without_smoothing_what_is_minimised_is_what_is_reported() -> None:
    batch = pair_batch([([5, 9], [8, 6, 4])])
    logits = model_of("encoder-decoder")(inputs_of(batch))
    minimised, reported = training_loss(logits, batch)
    assert torch.equal(minimised.detach(), reported)
    assert minimised.requires_grad
    assert not reported.requires_grad


@pytest.mark.notes("N30")
@settings(max_examples=15)
@given(st.lists(st.tuples(texts, st.integers(0, CLASSES - 1)), min_size=1, max_size=5))
def test_a_classifier_is_surprised_by_the_true_class(given: list[tuple[list[int], int]]) -> None:
    model = model_of("encoder", head="classifier", classes=CLASSES)
    labels = np.array([label for _, label in given])
    batch = LabelledTexts(TokenColumn.of([text for text, _ in given]), labels.__getitem__, PADDING)(
        np.arange(len(given)), 0
    )
    with torch.no_grad():
        alone = [model(Inputs(torch.tensor([text])))[0] for text, _ in given]
        loss = loss_of(model(inputs_of(batch)), batch)
    expected = math.fsum(surprise(Z, label) for Z, (_, label) in zip(alone, given, strict=True))
    assert float(loss.total) == pytest.approx(expected, rel=CLOSE)
    assert loss.count == len(given)
    assert loss.right == sum(int(Z.argmax()) == label for Z, (_, label) in zip(alone, given, strict=True))


@settings(max_examples=15)
@given(st.lists(texts, min_size=1, max_size=4), st.integers(0, 3))
def test_a_masked_model_is_asked_for_hidden_tokens_only(given: list[list[int]], epoch: int) -> None:
    column = TokenColumn.of([[BEGIN, *text, END] for text in given])
    masked = Masked(column, 1, VOCABULARY, MASK, PADDING, (PADDING, BEGIN, END, MASK))
    model, batch = model_of("encoder"), masked(np.arange(len(given)), epoch)
    assert batch.targets is not None
    with torch.no_grad():
        loss = loss_of(model(inputs_of(batch)), batch)
        expected = []
        for row, text in enumerate(given):
            Z = model(Inputs(batch.inputs[row : row + 1, : len(text) + 2]))[0]
            wanted = batch.targets[row, : len(text) + 2].tolist()
            expected += [surprise(Z[i], token) for i, token in enumerate(wanted) if token != IGNORE]
    assert loss.count == batch.total == len(expected) >= len(given)
    assert float(loss.total) == pytest.approx(math.fsum(expected), rel=CLOSE)


def test_a_batch_with_nothing_to_predict_asks_for_no_change() -> None:
    model, whole = model_of("encoder-decoder"), pair_batch([([5, 9], [8, 6, 4])])
    idle = whole.share(1, 2)
    minimised, reported = training_loss(model(inputs_of(idle)), idle, 0.1)
    assert (float(minimised.detach()), float(reported)) == (0.0, 0.0)
    gradients = torch.autograd.grad(minimised, list(model.parameters()), materialize_grads=True)
    assert not any(gradient.any() for gradient in gradients)
