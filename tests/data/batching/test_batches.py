"""Laws of the batches: every token a target once for any number of ranks, padding on the right, no state."""

from collections import Counter
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batching.batches import IGNORE, Batch, Batches, Position
from clearhead.data.batching.collate import LabelledTexts, Masked, Pairs, Windows
from clearhead.data.batching.plans import Bucketed, Even, Lengths
from clearhead.data.order import Integers
from clearhead.data.shards.columns import TokenColumn

BEGIN, END, PADDING, MASK = 0, 1, 2, 3
SPECIALS = (BEGIN, END, PADDING, MASK)
VOCABULARY = 40

texts = st.lists(st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=12), min_size=1, max_size=25)
ranks = st.integers(1, 5)


def framed(documents: list[list[int]]) -> list[list[int]]:
    return [[BEGIN, *document, END] for document in documents]


def in_pieces(examples: list[list[int]], cut: int) -> TokenColumn:
    """The same column, as two shards."""
    parts = [TokenColumn.of(examples[:cut]), TokenColumn.of(examples[cut:])]
    return TokenColumn(tuple(part.pieces[0] for part in parts), tuple(part.borders[0] for part in parts))


def windows(documents: list[list[int]], n: int, rows: int, cut: int = 0, **changes: object) -> Batches:
    options = {"begin": BEGIN, "predicts_begin": False, "padding": PADDING} | changes
    collate = Windows(in_pieces(framed(documents), cut), n, **options)  # type: ignore[arg-type]
    return Batches(Even(collate.size, rows, seed=5), collate)


def pairs(sources: list[list[int]], budget: int, pool: int = 10) -> Batches:
    source, target = (
        TokenColumn.of(framed(sources)),
        TokenColumn.of(framed([[*text[::-1], 4] for text in sources])),
    )

    def lengths(rows: Integers) -> Lengths:
        return np.stack([source.lengths(rows), target.lengths(rows) - 1], axis=1)

    plan = Bucketed(lengths, len(sources), budget, 5, pool=pool)
    return Batches(plan, Pairs(source, target, PADDING, PADDING))


def masked(documents: list[list[int]], budget: int) -> Batches:
    text = TokenColumn.of(framed(documents))
    plan = Bucketed(lambda rows: text.lengths(rows)[:, None], len(documents), budget, 5)
    return Batches(plan, Masked(text, 5, VOCABULARY, MASK, PADDING, SPECIALS))


def labelled(documents: list[list[int]], budget: int) -> Batches:
    text, labels = TokenColumn.of(framed(documents)), np.arange(len(documents)) % 3
    plan = Bucketed(lambda rows: text.lengths(rows)[:, None], len(documents), budget, 5)
    return Batches(plan, LabelledTexts(text, lambda rows: labels[rows], PADDING))


KINDS = {
    "windows": lambda documents: windows(documents, 7, 3, with_documents=True),
    "pairs": lambda documents: pairs(documents, 60),
    "masked": lambda documents: masked(documents, 50),
    "labelled": lambda documents: labelled(documents, 50),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def targets_of(batches: Batches, epoch: int, ranks: int) -> Counter[int]:
    """How often each id is a target in an epoch, all ranks together."""
    seen: Counter[int] = Counter()
    for rank in range(ranks):
        for batch in batches.epoch(epoch, rank, ranks):
            assert batch.targets is not None
            seen.update(batch.targets[batch.targets != IGNORE].tolist())
    return seen


@given(texts, st.integers(1, 9), st.integers(1, 4), ranks, st.integers(0, 3), st.data())
def test_every_token_of_the_corpus_is_a_target_once_an_epoch(
    documents: list[list[int]], n: int, rows: int, ranks: int, epoch: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(documents)))
    batches = windows(documents, n, rows, cut)
    expected = Counter(token for document in documents for token in [*document, END])
    assert targets_of(batches, epoch, ranks) == expected


def test_each_place_of_the_corpus_is_a_target_once() -> None:
    """With ids that are all different, not only the counts but the places are shown."""
    document = list(range(4, 1000))
    column = TokenColumn.of([[BEGIN, *document[:400], END], [BEGIN, *document[400:], END]])
    collate = Windows(column, 16, BEGIN, False, PADDING)
    batches = Batches(Even(collate.size, 4, seed=1), collate)
    seen = targets_of(batches, 0, 3)
    assert all(seen[token] == 1 for token in document)
    assert seen[END] == 2
    assert seen[BEGIN] == 0


@pytest.mark.notes("N8")
@given(texts, st.integers(2, 9))
def test_documents_are_packed_with_a_beginning_and_an_end(documents: list[list[int]], n: int) -> None:
    collate = windows(documents, n, 4).collate
    assert isinstance(collate, Windows)
    joined = [token for document in framed(documents) for token in document]
    unshuffled = Batches(Even(collate.size, 4, seed=1, shuffle=False), collate)
    inputs: list[int] = []
    for batch in unshuffled.epoch():
        inputs += [token for row in real(batch.inputs, batch.counts) for token in row]
        assert batch.targets is not None
        assert not (batch.targets == BEGIN).any()
    assert inputs == joined[:-1]


@given(texts, st.integers(1, 9), st.integers(1, 4))
def test_only_the_last_window_is_padded(documents: list[list[int]], n: int, rows: int) -> None:
    padding = [batch.inputs.numel() - batch.tokens for batch in windows(documents, n, rows).epoch()]
    assert sum(amount > 0 for amount in padding) <= 1
    assert sum(padding) < n


def test_a_window_knows_its_documents() -> None:
    stream = TokenColumn.of([[BEGIN, 5, END], [BEGIN, 6, 7, END]])
    collate = Windows(stream, 6, BEGIN, False, PADDING, with_documents=True)
    batch = collate(np.array([0]), 0)
    assert batch.inputs.tolist() == [[BEGIN, 5, END, BEGIN, 6, 7]]
    assert batch.documents is not None
    assert batch.documents.tolist() == [[1, 1, 1, 2, 2, 2]]
    assert batch.targets is not None
    assert batch.targets.tolist() == [[5, END, IGNORE, 6, 7, END]]
    assert batch.counts is None
    assert batch.total == 5


def test_a_beginning_token_that_also_ends_documents_is_predicted() -> None:
    collate = Windows(
        TokenColumn.of([[BEGIN, 5], [BEGIN, 6]]), 3, BEGIN, predicts_begin=True, padding=PADDING
    )
    batch = collate(np.array([0]), 0)
    assert batch.targets is not None
    assert batch.targets.tolist() == [[5, BEGIN, 6]]


@pytest.mark.notes("N8")
@given(texts, st.integers(10, 200))
def test_the_decoder_starts_with_begin_and_learns_to_end(sources: list[list[int]], budget: int) -> None:
    seen = []
    for batch in pairs(sources, budget).epoch():
        assert batch.source is not None
        assert batch.targets is not None
        sources_seen = real(batch.source, batch.source_counts)
        rows = zip(
            sources_seen, real(batch.inputs, batch.counts), real(batch.targets, batch.counts), strict=True
        )
        for source, given_, wanted in rows:
            assert given_[0] == BEGIN
            assert wanted[-1] == END
            assert given_[1:] == wanted[:-1]
            seen.append((source, wanted))
    expected = [([BEGIN, *text, END], [*text[::-1], 4, END]) for text in sources]
    assert sorted(seen) == sorted(expected)


def real(ids: torch.Tensor, counts: torch.Tensor | None) -> list[list[int]]:
    """The rows without their padding, after a look at the padding."""
    limits = [ids.shape[1]] * len(ids) if counts is None else counts.tolist()
    for row, count in zip(ids, limits, strict=True):
        assert torch.isin(row[count:], torch.tensor([PADDING, IGNORE])).all()
    return [row[:count] for row, count in zip(ids.tolist(), limits, strict=True)]


@kinds
@given(documents=texts, ranks=ranks, epoch=st.integers(0, 3))
def test_the_ranks_together_see_the_same_rows_as_one(
    kind: str, documents: list[list[int]], ranks: int, epoch: int
) -> None:
    batches = KINDS[kind](documents)
    for step in range(batches.count(epoch)):
        whole = batches.at(Position(epoch, step))
        parts = [batches.at(Position(epoch, step), rank, ranks) for rank in range(ranks)]
        assert sorted(row for part in parts for row in rows_of(part)) == sorted(rows_of(whole))
        assert {part.total for part in parts} == {whole.total}
        assert whole.total == sum(predicted(part) for part in parts)
        assert all(part.rows > 0 for part in parts)


def predicted(batch: Batch) -> int:
    wanted = batch.targets if batch.labels is None else batch.labels
    assert wanted is not None
    return int((wanted != IGNORE).sum())


def rows_of(batch: Batch) -> list[tuple[str, ...]]:
    """The rows of a batch without padding, apart from those that predict nothing."""
    rows = []
    for index in range(batch.rows):
        row: list[object] = []
        for field in fields(batch):
            value = getattr(batch, field.name)
            if isinstance(value, torch.Tensor) and "counts" not in field.name:
                counts = batch.source_counts if field.name == "source" else batch.counts
                one = value[index].tolist()
                row.append(one if value.dim() == 1 or counts is None else one[: int(counts[index])])
        wanted = batch.targets if batch.labels is None else batch.labels
        assert wanted is not None
        if (wanted[index] != IGNORE).any():
            rows.append(tuple(map(str, row)))
    return rows


@kinds
@given(documents=texts, steps=st.integers(1, 40), data=st.data())
def test_resuming_from_any_position_gives_the_same_remaining_batches(
    kind: str, documents: list[list[int]], steps: int, data: st.DataObject
) -> None:
    batches, position = KINDS[kind](documents), Position()
    trail = []
    for _ in range(steps):
        trail.append((position, batches.at(position)))
        position = batches.after(position)
    start = data.draw(st.integers(0, steps - 1))
    fresh, position = KINDS[kind](documents), trail[start][0]
    for _, batch in trail[start:]:
        assert_same(fresh.at(position), batch)
        position = fresh.after(position)


def assert_same(one: Batch, other: Batch) -> None:
    for field in fields(Batch):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b, field.name


@kinds
def test_epochs_come_in_different_orders(kind: str) -> None:
    documents = [[4 + (i * 7 + j) % 36 for j in range(1 + i % 9)] for i in range(200)]
    batches = KINDS[kind](documents)
    first, second = ([rows_of(batch) for batch in batches.epoch(epoch)] for epoch in (0, 1))
    assert first != second


def test_masking_is_15_percent_of_which_80_10_10() -> None:
    documents = np.random.default_rng(3).integers(4, VOCABULARY, size=(400, 100)).tolist()
    batches = masked(documents, 4000)
    chosen = hidden = kept = replaced = 0
    for batch in batches.epoch():
        assert batch.targets is not None
        at = batch.targets != IGNORE
        now, was = batch.inputs[at], batch.targets[at]
        chosen += int(at.sum())
        hidden += int((now == MASK).sum())
        kept += int((now == was).sum())
        other = now[(now != MASK) & (now != was)]
        replaced += len(other)
        assert not np.isin(other.numpy(), SPECIALS).any()
        assert not np.isin(was.numpy(), SPECIALS).any()
    tokens = 400 * 100
    assert abs(chosen / tokens - 0.15) < 0.01
    assert abs(hidden / chosen - 0.8) < 0.02
    # a replacement is by chance the token itself once in 36
    assert abs(replaced / chosen - 0.1 * 35 / 36) < 0.015
    assert abs(kept / chosen - 0.1 - 0.1 / 36) < 0.015


@given(texts, st.integers(0, 3))
def test_what_is_not_chosen_is_left_alone_and_each_text_has_a_target(
    documents: list[list[int]], epoch: int
) -> None:
    batches = masked(documents, 50)
    for step in range(batches.count(epoch)):
        batch = batches.at(Position(epoch, step))
        assert batch.targets is not None
        chosen = batch.targets != IGNORE
        assert chosen.any(dim=1).all()
        original = torch.where(chosen, batch.targets, batch.inputs)
        texts = [framed(documents)[index] for index in batches.plan.examples(epoch, step)]
        assert real(original, batch.counts) == texts


def test_masks_change_from_epoch_to_epoch_but_not_with_the_batch() -> None:
    text = TokenColumn.of(framed([list(range(4, 40))] * 3))
    collate = Masked(text, 5, VOCABULARY, MASK, PADDING, SPECIALS)
    alone, among = collate(np.array([1]), 2), collate(np.array([0, 1, 2]), 2)
    assert torch.equal(alone.inputs[0], among.inputs[1])
    assert not torch.equal(among.inputs[0], among.inputs[1])
    assert not torch.equal(alone.inputs, collate(np.array([1]), 3).inputs)


def test_a_rank_without_a_row_predicts_nothing() -> None:
    batch = labelled([[5, 6], [7]], 50).at(Position(), rank=2, ranks=3)
    assert batch.rows == 1
    assert batch.labels is not None
    assert batch.labels.tolist() == [IGNORE]
    assert batch.total == 2


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=12), st.data())
def test_a_column_reads_the_same_in_one_piece_and_in_two(
    examples: list[list[int]], data: st.DataObject
) -> None:
    column = in_pieces(examples, data.draw(st.integers(0, len(examples))))
    wanted = np.array(data.draw(st.lists(st.integers(0, len(examples) - 1), min_size=1)))
    ids, counts = column.gather(wanted)
    assert ids.tolist() == [token for index in wanted for token in examples[index]]
    assert counts.tolist() == [len(examples[index]) for index in wanted]
    assert column.lengths(wanted).tolist() == counts.tolist()
    joined = [token for example in examples for token in example]
    start = data.draw(st.integers(0, len(joined)))
    stop = data.draw(st.integers(start, len(joined)))
    assert column.take(np.array([start]), np.array([stop - start])).tolist() == joined[start:stop]
    assert column.tokens == len(joined)
