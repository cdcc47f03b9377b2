"""What is trained is what is read later: batches, logits and answers of several labels, of words, and of pairs."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import IGNORE, Batch, Position
from clearhead.data.prepare import Prepared, prepare
from clearhead.decoding.read import Reader
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.text.sources.read import read_split
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.loop.losses import inputs_of, loss_of, training_loss
from clearhead.training.run.plan import model_config

FILES = {
    "each-word": ("a.conll", "Ana B-X\nruns O\nfar O\n\nBo B-X\nLee I-X\nsat O\nin O\nOslo B-Y\n\nno O\n"),
    "several": ("a.csv", "text,label\nred soup,a|b\na song,b\nblue stone soup,\nred song again now,c\n"),
    "pairs": ("a.csv", "text,second,label\nred soup,no,x\na song,blue stone,y\nb,a red song in rain,x\n"),
}
KINDS = list(FILES)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))


def prepared(folder: Path, kind: str, tokens: str = "character", context: int = 64) -> Prepared:
    name, text = FILES[kind]
    (folder / name).write_text(text, encoding="utf-8")
    data: dict[str, Any] = {"train": str(folder / name), "validation": 0}
    data |= {"texts": 2} if kind == "pairs" else {"labels": kind}
    model = {"shape": "encoder", "d": 24, "h": 3, "encoder_blocks": 2, "context": context, "token_types": 2}
    tokenizer = {"kind": tokens, "minimum_frequency": 1}
    settings = {"task": "classify", "data": data, "tokenizer": tokenizer, "model": model}
    return prepare(RunConfig.model_validate(settings))


def bundle_of(data: Prepared) -> Bundle:
    config = model_config(data.run, data)
    assert isinstance(config, ModelConfig)
    return Bundle(build(config, 1).eval(), data.tokenizers.target, labels=list(data.labels))


def whole(data: Prepared) -> Batch:
    return data.batches("train", 4096, shuffle=False).at(Position())


@pytest.mark.parametrize("tokens", ["character", "word", "bpe", "byte"])
@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_reads_what_training_reads(tmp_path: Path, kind: str, tokens: str) -> None:
    data = prepared(tmp_path, kind, tokens)
    bundle, batch = bundle_of(data), whole(data)
    reader = read_split(data.run.data, "labelled", "train")
    assert reader is not None
    with torch.no_grad():
        loss = loss_of(bundle.module(inputs_of(batch)), batch)
    found = Evaluation(bundle).run(reader)
    assert found["loss"] == pytest.approx(float(loss.total) / batch.total, rel=1e-4)
    assert found["predictions"] == batch.total == loss.count


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_neighbours_change_no_answer(tmp_path: Path, kind: str) -> None:
    bundle = bundle_of(prepared(tmp_path, kind))
    reader = Reader(bundle)
    texts = ["red soup in Oslo", "Bo", "a song a song a song"]
    items = [reader.item(text, "no rain" if kind == "pairs" else None) for text in texts]
    for item, answer in zip(items, reader.classify(items), strict=True):
        (alone,) = reader.classify([item])
        assert type(alone) is type(answer)
        numbers = [
            list(one.probabilities.values()) if isinstance(one.probabilities, dict) else one.probabilities
            for one in (alone, answer)
        ]
        assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)


def test_labels_are_read_at_the_first_token_of_each_word(tmp_path: Path) -> None:
    data = prepared(tmp_path, "each-word")
    batch, decode = whole(data), data.tokenizers.target
    assert batch.targets is not None
    for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        letters = [decode.piece(id) for id, target in zip(row, targets, strict=True) if target != IGNORE]
        text = decode.decode(row)
        assert letters == [word[0] for word in text.split()]


def test_several_labels_have_the_loss_of_independent_choices(tmp_path: Path) -> None:
    data = prepared(tmp_path, "several")
    bundle, batch = bundle_of(data), whole(data)
    assert batch.labels is not None
    Z = bundle.module(inputs_of(batch))
    expected = F.binary_cross_entropy_with_logits(Z, batch.labels.float(), reduction="sum")
    assert float(training_loss(Z, batch)[0].detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert batch.labels.sum(1).sort().values.tolist() == [0, 1, 1, 2]


def test_a_rank_without_rows_has_nothing_to_predict(tmp_path: Path) -> None:
    for kind in KINDS:
        data = prepared(tmp_path, kind)
        batch = whole(data).share(7, 8)
        with torch.no_grad():
            assert loss_of(bundle_of(data).module(inputs_of(batch)), batch).count == 0


def test_the_longer_of_two_texts_is_truncated_first(tmp_path: Path) -> None:
    data = prepared(tmp_path, "pairs", context=12)
    batch = whole(data)
    reader = Reader(bundle_of(data))
    item = reader.item("b", "a red song in rain", truncate=True)
    assert item.ids in [row[: len(item.ids)] for row in batch.inputs.tolist()]
    assert (len(item.ids), item.is_truncated, item.types) == (12, True, [0] * 3 + [1] * 9)
