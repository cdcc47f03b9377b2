"""`clearhead vectors` as a user meets it."""

import json
from pathlib import Path

import pytest

from clearhead import vector_folder
from clearhead.api import Model
from tests.commands import Run, runner
from tests.decoding.tiny import SENTENCES, classifier
from tests.vectors.tables import small_table


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs `clearhead vectors` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return runner(capsys, "vectors")


@pytest.fixture
def words(tmp_path: Path) -> Path:
    vector_folder.save(tmp_path / "words", small_table())
    return tmp_path / "words"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    Model(classifier()).save(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    return tmp_path / "model"


def test_text_becomes_a_folder_that_is_recorded(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cats.csv").write_text("id,text\n" + '1,"a cat, a dog and a cat"\n' * 20, encoding="utf-8")
    code, out, err = run(
        *(
            "train",
            "cats.csv",
            "out",
            "--columns",
            "text",
            "--width",
            4,
            "--epochs",
            2,
            "--workers",
            1,
            "--method",
        ),
        *("cbow", "--json"),
    )
    facts = json.loads(out)
    assert code == 0, err
    assert (facts["words"], facts["width"], facts["words_read"]) == (4, 4, 140)
    assert facts["settings"]["method"] == "cbow"
    assert vector_folder.load("out").made["source"] == "cats.csv"
    assert "training" in err


def test_a_plain_report_says_what_to_try(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cats.txt").write_text("a cat and a dog\n" * 20, encoding="utf-8")
    code, out, _ = run("train", "cats.txt", "out", "--width", 4, "--epochs", 1, "--workers", 1)
    assert code == 0
    assert out.splitlines()[0] == "100 words in 20 sentences, 4 different ones with a vector of 4 numbers"
    assert out.endswith("Try: clearhead vectors nearest out a\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "builtin:words", "words"], "words already exists"),
        (["train", "builtin:word", "new"], "Did you mean words?"),
        (["train", "missing.txt", "new"], "missing.txt does not exist"),
        (["train", "builtin:words", "new", "--width", "0"], "vectors.width = 0 is invalid"),
        (["nearest", "words", "kin"], "'kin' has no vector"),
        (["nearest", "words", "king", "--by", "angle"], "--by angle is unknown"),
        (["nearest", "words", "king", "--among", "x"], "--among is for a model"),
        (["nearest", "nowhere", "king"], "nowhere does not exist"),
        (["similarity", "words", "king", "quean"], "'quean' has no vector"),
        (["analogy", "words", "king", "man"], "no + or - before 'man'"),
        (["evaluate", "words"], "nothing to measure"),
        (["evaluate", "words", "--analogies", "no.txt"], "no.txt does not exist"),
        (["map", "words", "map.png"], "is written as .svg or .html"),
        (["import", "no.txt", "new"], "no.txt does not exist"),
    ],
)
def test_a_mistake_is_explained_and_nothing_is_written(  # type: ignore[no-untyped-def]
    run, words: Path, arguments: list[str], message: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert sorted(path.name for path in words.parent.iterdir()) == ["words"]


def test_words_are_asked(run: Run, words: Path) -> None:
    assert run("nearest", words, "king", "--count", 1)[1].split() == ["queen", "0.8165"]
    assert run("similarity", words, "woman", "queen")[1].split() == ["cosine", "0.8165", "dot", "2.0000"]
    assert run("analogy", words, "king", "-", "man", "+", "woman", "--count", 1)[1].split()[0] == "queen"
    assert run("analogy", words, "king - man + woman", "--count", 1)[1].split()[0] == "queen"
    found = json.loads(run("analogy", words, "king - man + woman", "--json")[1])
    assert (found["sum"], found["nearest"][0]["word"]) == ("king - man + woman", "queen")
    assert json.loads(run("nearest", words, "king", "--by", "dot", "--json")[1])["by"] == "dot"


def test_a_model_is_asked_about_words_in_sentences(run: Run, model: Path) -> None:
    one, other = "the cat sat on the *table*", "the boy kicks the *table*"
    found = json.loads(run("similarity", model, one, other, "--json")[1])
    assert -1 <= found["cosine"] < 0.9999
    rows = json.loads(run("nearest", model, one, "--among", "text.txt", "--json")[1])["nearest"]
    assert rows[0]["sentence"].count("*") == 2
    shown = run("nearest", model, one, "--among", "text.txt", "--count", 2)[1]
    assert len(shown.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["similarity", "model", "cat", "dog"], "does not mark one word"),
        (["nearest", "model", "a *cat*"], "model is not in a run folder"),
        (["nearest", "model", "a *cat*", "--by", "dot"], "--by dot is for a vectors folder"),
        (["analogy", "model", "king - man + woman"], "model is no vectors folder"),
    ],
)
def test_what_a_model_cannot_answer_is_explained(  # type: ignore[no-untyped-def]
    run, model: Path, arguments: list[str], message: str
) -> None:
    code, _, err = run(*arguments)
    assert code == 1
    assert message in err


def test_scores_name_their_counts_and_the_restriction(run: Run, words: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(
        ": family\nman woman king queen\na b c d\n: gram1\nman king woman queen\n"
    )
    (tmp_path / "p.csv").write_text("man,woman,9\nking,queen,8\nman,Paris,1\nx,y,1\n")
    code, out, _ = run("evaluate", words, "--analogies", "q.txt", "--pairs", "p.csv")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert out.startswith("7 of 7 words are looked at")
    assert ["family", "1", "1", "2", "1.0000"] in lines
    assert ["syntactic", "1", "1", "1", "1.0000"] in lines
    assert "3 of 4 pairs known" in out
    found = json.loads(run("evaluate", words, "--analogies", "q.txt", "--restrict", 3, "--json")[1])
    assert (found["restriction"], found["analogies"]["all"]["in_vocabulary"]) == (3, 0)


def test_a_file_from_elsewhere_becomes_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 1 2\ncat 3 4\nthe 5 6\n", encoding="utf-8")
    code, out, _ = run("import", "glove.txt", "out")
    assert code == 0
    assert out.splitlines() == [
        "glove.txt: GloVe, 2 words, 2 numbers each",
        "repeated words: 1; the first vector of each counts",
        "Wrote the vectors folder out.",
    ]
    assert vector_folder.load("out").words == ["the", "cat"]
    assert json.loads(run("import", "glove.txt", "one", "--vocabulary", 1, "--json")[1])["words"] == 1


def test_a_map_is_drawn(run: Run, words: Path) -> None:
    code, out, _ = run("map", words, "map.svg", "man:woman", "king:queen")
    assert code == 0
    assert out == "Wrote map.svg: 4 words; the axes explain 100 % of the variance.\n"
