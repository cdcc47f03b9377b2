"""Evaluation gives the numbers that a plain computation gives, whatever the grouping and batching."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from clearhead import model_folder
from clearhead.cli.evaluate import first
from clearhead.config.decoding import DecodingConfig
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import DataError, InputError
from clearhead.examples import Example, Labelled, Pair, Text
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.training.evaluation import evaluate
from clearhead.training.evaluation.evaluate import Evaluation
from tests.commands import runner

TOKENIZER = Tokenizer.train([], TokenizerConfig(kind="byte"))
SMALL = {
    "vocabulary": TOKENIZER.size,
    "d": 16,
    "h": 2,
    "encoder_blocks": 1,
    "decoder_blocks": 1,
    "context": 12,
}
TEXTS = ["students opened their books", "he is old", "", "they are rich, but are they happy?"]


def bundle(labels: list[str] | None = None, **changes: object) -> Bundle:
    return Bundle(build(ModelConfig.model_validate(SMALL | changes)), TOKENIZER, labels=labels)


def test_a_language_model_is_read_in_windows_that_do_not_overlap() -> None:
    model = bundle()
    result = Evaluation(model).run(Text(text) for text in TEXTS)
    begin, end = TOKENIZER.specials.begin, TOKENIZER.specials.end
    assert begin is not None and end is not None  # noqa: PT018
    stream = [token for text in TEXTS for token in (begin, *TOKENIZER.encode(text), end)]
    nats, count = 0.0, 0
    for start in range(0, len(stream) - 1, 12):
        window = torch.tensor([stream[start : start + 13]])
        with torch.no_grad():
            losses = F.cross_entropy(model.module(Inputs(window[:, :-1]))[0], window[0, 1:], reduction="none")
        kept = window[0, 1:] != begin  # the beginning is no target
        nats, count = nats + float(losses[kept].sum()), count + int(kept.sum())
    assert result["predictions"] == count
    assert result["loss"] == pytest.approx(nats / count, rel=1e-5)
    assert result["perplexity"] == pytest.approx(math.exp(nats / count), rel=1e-4)
    size = sum(len(text.encode()) for text in TEXTS)
    assert result["bits_per_byte"] == pytest.approx(nats / math.log(2) / size, rel=1e-5)


@pytest.mark.parametrize(
    ("model", "examples"),
    [
        (bundle(), [Text(text) for text in TEXTS]),
        (bundle(shape="encoder-decoder"), [Pair("hola", "hello"), Pair("dos", "two"), Pair("a", "b")]),
        (
            bundle(["x", "y"], shape="encoder", head="classifier", classes=2),
            [Labelled("hola", "x"), Labelled("a", "y"), Labelled("dos mas", "x")],
        ),
    ],
    ids=["language model", "translator", "classifier"],
)
def test_grouping_and_batching_change_nothing(
    model: Bundle, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = DecodingConfig(max_tokens=4, beam=2)
    whole = Evaluation(model).run(examples, settings)
    monkeypatch.setattr(evaluate, "in_groups", lambda items: ([item] for item in items))
    single = Evaluation(model, batch_tokens=1).run(examples, settings)
    assert single.keys() == whole.keys()
    for name, value in whole.items():
        assert single[name] == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value)


def test_a_masked_language_model_guesses_the_same_tokens_each_time() -> None:
    tokenizer = Tokenizer.train(["he is old and she is rich"], TokenizerConfig(kind="word"))
    module = build(ModelConfig.model_validate(SMALL | {"shape": "encoder", "vocabulary": tokenizer.size}))
    model = Bundle(module, tokenizer)
    first = Evaluation(model).run([Text("he is old and she is rich")])
    assert first == Evaluation(model).run([Text("he is old and she is rich")])
    assert first["predictions"] >= 1
    assert 0 <= first["accuracy"] <= 1


def test_a_pair_that_is_too_long_is_left_out_and_counted() -> None:
    model = bundle(shape="encoder-decoder")
    result = Evaluation(model).run([Pair("a", "b"), Pair("a" * 50, "b"), Pair("a", "b" * 50)])
    assert (result["examples"], result["too_long"]) == (1, 2)
    with pytest.raises(DataError, match=r"all 1 are too long\.\nThe model's context is 12 tokens"):
        Evaluation(model).run([Pair("a" * 50, "b")])


def test_a_text_to_classify_is_cut_as_in_training_and_counted() -> None:
    model = bundle(["x", "y"], shape="encoder", head="classifier", classes=2)
    result = Evaluation(model).run([Labelled("a", "x"), Labelled("ab" * 50, "y"), Labelled("ab" * 5, "x")])
    assert (result["examples"], result["truncated"]) == (3, 1)
    short = [
        Labelled("a", "x"),
        Labelled("ab" * 5, "y"),
        Labelled("ab" * 5, "x"),
    ]  # what the context has room for
    assert Evaluation(model).run(short) == result | {"truncated": 0}


def test_what_cannot_be_evaluated_is_refused() -> None:
    model = bundle(["x", "y"], shape="encoder", head="classifier", classes=2)
    with pytest.raises(DataError, match="The label 'z' is unknown to the model, which has x, y"):
        Evaluation(model).run([Labelled("a", "z")])
    with pytest.raises(InputError, match="only computes vectors"):
        _ = Evaluation(bundle(shape="encoder", head="none")).kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "a.tsv", "--recipe", "b.toml"], "--data and --recipe both say what to evaluate on."),
        (["--columns", "text"], "--columns needs --data FILE."),
        (["--data", "a.tsv", "--columns", "²"], "data.columns = ['²'] does not fit"),
        (["--data", "a.tsv", "--split", "rest"], "--split rest is unknown."),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model_folder.save(tmp_path / "model", bundle(shape="encoder-decoder"))
    (tmp_path / "a.tsv").write_text("hola\thello\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, out, err = runner(capsys)("evaluate", "model", *options)
    assert (code, out) == (1, "")
    assert message in err


def test_the_command_gives_one_object_with_the_keys_of_design(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_folder.save(tmp_path / "model", bundle(shape="encoder-decoder"))
    (tmp_path / "pairs.tsv").write_text("hola\thello\ndos\ttwo\n", encoding="utf-8")
    run, model = runner(capsys, "evaluate"), tmp_path / "model"
    code, out, err = run(model, "--data", tmp_path / "pairs.tsv", "--json", "--beam", 2, "--max_tokens", 4)
    assert code == 0, err
    assert {"loss", "perplexity", "bleu", "chrf", "exact_match"} <= json.loads(out).keys()
    code, out, err = run(model)
    assert (code, out) == (1, "")
    assert "Give --data FILE or --recipe RECIPE" in err


def test_a_limit_counts_documents_and_not_their_pieces() -> None:
    pieces = [Text("a"), Text("b", starts=False), Text("c"), Text("d")]
    assert list(first(pieces, 2)) == pieces[:3]
    assert list(first(pieces, None)) == pieces
    pairs = [Pair("a", "b"), Pair("c", "d")]
    assert list(first(pairs, 1)) == pairs[:1]
