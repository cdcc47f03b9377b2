"""Analogy questions and similarity judgements: the numbers of gensim, and files that cannot be read."""

import gzip
from pathlib import Path

import pytest
import torch

from clearhead.errors import DataError, InputError
from clearhead.vector_folder import VectorTable
from clearhead.vectors.evaluation import evaluate_analogies, evaluate_pairs, read_pairs, read_questions
from clearhead.vectors.words import WordVectors
from tests.vectors.tables import small_table


def random_vectors(words: int = 60) -> WordVectors:
    """Vectors that answer some questions by chance, of words some of which differ in case only."""
    generator = torch.Generator().manual_seed(1)
    names = [f"w{k}" for k in range(words - 10)] + [f"W{k}" for k in range(10)]
    return WordVectors(VectorTable(names, torch.randn(words, 3, generator=generator)))


def write_questions(path: Path, vectors: WordVectors) -> Path:
    """Questions whose answer is often the one that the vectors give."""
    lines = [": one"]
    for k in range(40):
        a, b, c = (f"w{(k * step + step) % 50}" for step in (1, 3, 7))
        near = vectors.analogy(f"{b} - {a} + {c}", 1)[0].word if k % 3 else "w5"
        lines += [": gram2-two"] * (k == 20) + [f"{a} {b.upper()} {c} {near}"]
    path.write_text("\n".join([*lines, "w1 w2 w3 unknown", ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize("restriction", [300_000, 55, 20])
def test_the_scores_are_those_of_gensim(tmp_path: Path, restriction: int) -> None:
    from gensim.models import KeyedVectors

    vectors = random_vectors()
    path = write_questions(tmp_path / "questions.txt", vectors)
    theirs = KeyedVectors(3)
    theirs.add_vectors(vectors.words, vectors.E.numpy())
    _, sections = theirs.evaluate_word_analogies(str(path), restrict_vocab=restriction)
    ours = evaluate_analogies(vectors, read_questions(path), restriction)
    for section in sections[:-1]:
        score = ours.sections[section["section"]]
        assert score.right == len(section["correct"])
        assert score.in_vocabulary == len(section["correct"]) + len(section["incorrect"])
    assert ours.total().right > 0
    assert ours.total("semantic").questions == 20
    assert ours.total("syntactic").questions == 21
    assert ours.restriction == min(restriction, 60)


def test_pairs_are_ranked_as_gensim_ranks_them(tmp_path: Path) -> None:
    from gensim.models import KeyedVectors

    vectors = random_vectors()
    path = tmp_path / "pairs.tsv"
    rows = [f"w{k}\tw{(k * 7 + 1) % 40}\t{k % 10}" for k in range(30)]
    path.write_text("\n".join([*rows, "w1\tunknown\t3"]), encoding="utf-8")
    theirs = KeyedVectors(3)
    theirs.add_vectors(vectors.words, vectors.E.numpy())
    _, spearman, _ = theirs.evaluate_word_pairs(str(path))
    ours = evaluate_pairs(vectors, read_pairs(path))
    assert ours.spearman == pytest.approx(spearman[0], abs=1e-6)
    assert (ours.pairs, ours.in_vocabulary) == (31, 30)


def test_the_first_line_of_pairs_may_name_the_columns(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("Word 1,Word 2,Human\ntiger,cat,7.35\n", encoding="utf-8")
    assert list(read_pairs(tmp_path / "p.csv")) == [("tiger", "cat", 7.35)]


def test_a_gzipped_file_of_questions_is_read(tmp_path: Path) -> None:
    (tmp_path / "q.txt.gz").write_bytes(gzip.compress(b": s\nman woman king queen\n"))
    scores = evaluate_analogies(WordVectors(small_table()), read_questions(tmp_path / "q.txt.gz"))
    assert scores.sections["s"].accuracy == 1.0


def test_questions_without_known_words_have_no_accuracy(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("a b c d\n", encoding="utf-8")
    assert (
        evaluate_analogies(WordVectors(small_table()), read_questions(tmp_path / "q.txt")).total().accuracy
        is None
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [(": s\na b c\n", "line 2: 3 words"), (": s\n", "no analogy question"), ("", "no analogy question")],
)
def test_questions_that_cannot_be_read_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "q.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        evaluate_analogies(WordVectors(small_table()), read_questions(tmp_path / "q.txt"))


def test_pairs_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a,b,1\na,b\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: 'a,b' is not two words and a number"):
        list(read_pairs(tmp_path / "p.csv"))
    with pytest.raises(InputError, match="Of 1 pairs, 0 have both words"):
        evaluate_pairs(WordVectors(small_table()), [("x", "y", 1.0)])
