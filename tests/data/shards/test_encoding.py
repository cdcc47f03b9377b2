"""Laws of encoding: chunks change nothing, frames stand around documents, what is lost is counted."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.frames import Frame, document_frame, input_frame, target_frame
from clearhead.data.shards import encoding
from clearhead.data.shards.encoding import ExampleEncoder, Rules, Side
from clearhead.data.shards.manifest import Account
from clearhead.data.shards.ragged import EncodedExamples
from clearhead.errors import TokenizerError
from clearhead.examples import Example, Labelled, Pair, Text
from clearhead.text.tokenizers.roles import Specials
from clearhead.text.tokenizers.tokenizer import Tokenizer

BYTE = Tokenizer.train([], TokenizerConfig(kind="byte"))
BEGIN, END = BYTE.specials.begin, BYTE.specials.end
TEXT = (Side("text", BYTE, document_frame(BYTE.specials)),)
PAIR = (Side("source", BYTE, input_frame(BYTE.specials)), Side("target", BYTE, target_frame(BYTE.specials)))

words = st.text(min_size=1, max_size=12)
pieces = st.lists(st.builds(Text, words, st.booleans()), min_size=1, max_size=20)
pairs = st.lists(st.builds(Pair, words, words), min_size=1, max_size=20)
sizes = st.integers(1, 30)


def run(
    examples: list[Example], sides: tuple[Side, ...], rules: Rules, chunk: int = 50
) -> tuple[list[EncodedExamples], ExampleEncoder]:
    job = ExampleEncoder(sides, rules)
    with patch.object(encoding, "CHUNK_CHARACTERS", chunk):
        return list(job.encode(examples, lambda _: None)), job


def rows(parts: list[EncodedExamples], column: int = 0) -> list[list[int]]:
    """The examples of one column as lists."""
    return [
        ids.tolist()
        for part in parts
        for ids in np.split(part.ids[column], np.cumsum(part.counts[column])[:-1])
        if len(part.counts[column])
    ]


def ids(text: str) -> list[int]:
    return BYTE.encode(text)


@pytest.mark.notes("N8")
@given(pieces, sizes)
def test_a_document_in_pieces_has_one_beginning_and_one_end(texts: list[Text], chunk: int) -> None:
    texts = [Text(texts[0].text), *texts[1:]]
    parts, job = run(list(texts), TEXT, Rules(packed=True), chunk)
    documents: list[list[int]] = []
    for piece in texts:
        if piece.starts:
            documents.append([])
        documents[-1] += ids(piece.text)
    expected = [token for document in documents for token in [BEGIN, *document, END]]
    assert [token for row in rows(parts) for token in row] == expected
    assert job.account.documents == len(documents)
    assert job.account.tokens == {"text": sum(map(len, documents))}


@pytest.mark.notes("N8")
@given(pairs, sizes)
def test_both_sides_of_a_pair_are_framed(examples: list[Pair], chunk: int) -> None:
    parts, job = run(list(examples), PAIR, Rules(), chunk)
    assert rows(parts) == [[BEGIN, *ids(pair.source), END] for pair in examples]
    assert rows(parts, 1) == [[BEGIN, *ids(pair.target), END] for pair in examples]
    assert job.account.characters == {
        "source": sum(len(pair.source) for pair in examples),
        "target": sum(len(pair.target) for pair in examples),
    }


@given(pairs, sizes, st.integers(3, 12))
def test_a_pair_with_a_side_that_is_too_long_is_dropped_and_counted(
    examples: list[Pair], chunk: int, limit: int
) -> None:
    parts, job = run(list(examples), PAIR, Rules(limit, "drop"), chunk)
    kept = [pair for pair in examples if max(len(ids(pair.source)), len(ids(pair.target))) <= limit - 2]
    assert rows(parts) == [[BEGIN, *ids(pair.source), END] for pair in kept]
    assert rows(parts, 1) == [[BEGIN, *ids(pair.target), END] for pair in kept]
    assert sum(job.account.dropped.values()) == len(examples) - len(kept)


@given(pairs, sizes, st.integers(3, 12))
def test_what_is_too_long_is_cut_inside_its_frame_and_counted(
    examples: list[Pair], chunk: int, limit: int
) -> None:
    parts, job = run(list(examples), PAIR, Rules(limit, "truncate"), chunk)
    assert rows(parts) == [[BEGIN, *ids(pair.source)[: limit - 2], END] for pair in examples]
    assert rows(parts, 1) == [[BEGIN, *ids(pair.target)[: limit - 2], END] for pair in examples]
    long = [pair for pair in examples if max(len(ids(pair.source)), len(ids(pair.target))) > limit - 2]
    assert job.account.truncated == len(long)


@given(st.lists(words, min_size=1, max_size=20), sizes, st.integers(3, 12))
def test_what_is_divided_loses_nothing(texts: list[str], chunk: int, limit: int) -> None:
    side = (Side("text", BYTE, input_frame(BYTE.specials)),)
    parts, job = run([Text(text) for text in texts], side, Rules(limit, "split"), chunk)
    assert all(len(row) <= limit and row[0] == BEGIN and row[-1] == END for row in rows(parts))
    assert [token for row in rows(parts) for token in row[1:-1]] == [
        token for text in texts for token in ids(text)
    ]
    assert job.account.divided == sum(len(ids(text)) > limit - 2 for text in texts)
    assert all(len(part.hashes) == len(part.counts[0]) for part in parts)


def test_the_parts_of_one_text_are_no_duplicates() -> None:
    side = (Side("text", BYTE, input_frame(BYTE.specials)),)
    parts, _ = run([Text("aaaaaaaaaa"), Text("b")], side, Rules(4, "split"))
    assert len(parts[0].hashes) == 6
    assert len(np.unique(parts[0].hashes)) == 6


def test_an_example_without_tokens_is_dropped_and_counted() -> None:
    words_only = Tokenizer.train(["a b"], TokenizerConfig(kind="word", minimum_frequency=1))
    side = (Side("text", words_only, input_frame(words_only.specials)),)
    parts, job = run([Labelled(" ", "x"), Labelled("a", "y")], side, Rules())
    assert len(rows(parts)) == 1
    assert job.account.dropped == {"empty": 1}
    assert job.labels == {"x": 0, "y": 1}
    assert parts[0].labels is not None
    assert parts[0].labels.tolist() == [1]


def test_unknown_tokens_are_counted() -> None:
    words_only = Tokenizer.train(["a b"], TokenizerConfig(kind="word", minimum_frequency=1))
    side = (Side("text", words_only, document_frame(words_only.specials)),)
    _, job = run([Text("a c b d")], side, Rules(packed=True))
    assert job.account.unknown == {"text": 2}
    assert job.account.tokens == {"text": 4}


@given(pairs)
def test_hashes_tell_inputs_and_whole_examples_apart(examples: list[Pair]) -> None:
    parts, _ = run(list(examples), PAIR, Rules())
    hashes = np.concatenate([part.hashes for part in parts])
    assert len(np.unique(hashes[:, 0])) == len({pair.source for pair in examples})
    assert len(np.unique(hashes[:, 1])) == len(set(examples))


def test_frames_of_other_projects() -> None:
    gpt2 = Specials(begin=5, end=5)
    assert document_frame(gpt2) == Frame((5,), ())
    only_end = Specials(end=7, padding=3)
    assert document_frame(only_end) == Frame((7,), ())
    assert input_frame(only_end) == Frame((), (7,))
    assert target_frame(only_end) == Frame((3,), (7,))
    bert = Specials(begin=1, separator=2)
    assert input_frame(bert) == Frame((1,), (2,))
    assert input_frame(Specials()) == Frame()
    assert Frame((1,), (2,)).wrap([5, 6]) == [1, 5, 6, 2]


def test_a_tokenizer_that_cannot_frame_is_refused() -> None:
    with pytest.raises(TokenizerError, match="neither a beginning nor an end token"):
        document_frame(Specials(padding=0))
    with pytest.raises(TokenizerError, match="no token for an end, which a decoder needs"):
        target_frame(Specials(begin=0))
    with pytest.raises(TokenizerError, match="no token for a beginning"):
        target_frame(Specials(separator=0))


def test_an_account_says_what_it_counts() -> None:
    assert all(field.description for field in Account.model_fields.values())
