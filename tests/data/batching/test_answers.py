"""Of conversations only answers are predicted, each exactly once, whatever the batch; what is cut is counted."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.config.data import DataConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.batching.batches import IGNORE, Batches, Position
from clearhead.data.prepare import Prepared, prepare
from clearhead.errors import ConfigError, DataError
from clearhead.examples import ANSWER
from clearhead.models.build import build
from clearhead.training.loop.losses import inputs_of, loss_of
from clearhead.training.run.plan import model_config

TALKS = [(f"{k} and {k}?", f"{2 * k}.", "Sure?" * (k % 3 + 1), "Yes" + "!" * (k % 4)) for k in range(23)]


def written(path: Path, talks: Sequence[tuple[str, ...]]) -> str:
    """A file of conversations in which user and assistant take turns."""
    roles = ("user", "assistant") * 9
    records = [[{"role": r, "content": c} for r, c in zip(roles, talk, strict=False)] for talk in talks]
    path.write_text("".join(json.dumps({"messages": record}) + "\n" for record in records))
    return str(path)


def prepared(
    path: Path, talks: Sequence[tuple[str, ...]], context: int = 64, too_long: str | None = None
) -> Prepared:
    data = {"train": written(path / "talks.jsonl", talks), "validation": 0.0}
    data |= {} if too_long is None else {"too_long": too_long}
    return prepare(
        RunConfig(
            task="language-model",
            data=DataConfig.model_validate(data),
            tokenizer=TokenizerConfig(kind="byte"),
            model=ModelConfig(context=context, d=8, h=2, decoder_blocks=1),
        )
    )


def predicted(data: Prepared, batches: Batches, epoch: int = 0) -> list[str]:
    """What is predicted, row by row, as text; an end is a full line."""
    rows = []
    for batch in batches.epoch(epoch):
        assert batch.targets is not None
        assert batch.total == int((batch.targets != IGNORE).sum())
        for row in batch.targets:
            rows.append(data.tokenizers.target.decode(row[row != IGNORE].numpy(), keep_special=True))
    return rows


def test_answers_and_their_ends_are_predicted_and_nothing_else(tmp_path: Path) -> None:
    data = prepared(tmp_path, TALKS)
    expected = sorted(f"{one}</s>{two}</s>" for _, one, _, two in TALKS)
    for size in (1, 100, 1000):
        for epoch in (0, 1):
            assert sorted(predicted(data, data.batches("train", size), epoch)) == expected


def test_a_row_is_a_whole_conversation(tmp_path: Path) -> None:
    data = prepared(tmp_path, TALKS)
    tokenizer = data.tokenizers.target
    (batch,) = data.batches("train", 10_000, shuffle=False).epoch()
    limits = batch.counts.tolist() if batch.counts is not None else [batch.inputs.shape[1]] * batch.rows
    found = [
        tokenizer.decode(row[:count].numpy(), keep_special=True)
        for row, count in zip(batch.inputs, limits, strict=True)
    ]
    assert sorted(found) == sorted(
        f"<s><user>{a}<assistant>{b}</s><user>{c}<assistant>{d}" for a, b, c, d in TALKS
    )


def test_the_loss_asks_for_nothing_that_the_user_says(tmp_path: Path) -> None:
    """Whatever the model would say in the user's place, the loss is the same: only logits of answers count."""
    data = prepared(tmp_path, TALKS)
    batch = data.batches("train", 10_000).at(Position())
    assert batch.targets is not None
    logits = torch.randn(
        *batch.inputs.shape, data.tokenizers.target.size, generator=torch.Generator().manual_seed(1)
    )
    loss = loss_of(logits, batch)
    logits[batch.targets == IGNORE] = torch.randn(data.tokenizers.target.size)
    again = loss_of(logits, batch)
    assert torch.equal(loss.total, again.total)
    assert loss.count == again.count == batch.total


def test_the_mean_is_over_answer_tokens_however_batches_are_split(tmp_path: Path) -> None:
    data = prepared(tmp_path, TALKS)
    model = build(model_config(data.run, data))
    means = []
    with torch.no_grad():
        for size, ranks in ((1, 1), (300, 1), (10_000, 1), (10_000, 3)):
            losses = [
                loss_of(model(inputs_of(part)), part)
                for batch in data.batches("train", size).epoch()
                for part in (batch.share(rank, ranks) for rank in range(ranks))
            ]
            assert sum(loss.count for loss in losses) == sum(len(b) + len(d) + 2 for _, b, _, d in TALKS)
            means.append(sum(float(loss.total) for loss in losses) / sum(loss.count for loss in losses))
    assert np.ptp(means) < 1e-5


def test_batches_are_a_function_of_their_position(tmp_path: Path) -> None:
    data = prepared(tmp_path, TALKS)
    one, other = data.batches("train", 100, seed=5), data.batches("train", 100, seed=5)
    for position in (Position(1, 2), Position(0, 0), Position(3, 1)):
        assert torch.equal(one.at(position).inputs, other.at(position).inputs)
    orders = [[tuple(batch.inputs.flatten().tolist()) for batch in one.epoch(epoch)] for epoch in (0, 1)]
    assert orders[0] != orders[1]


def test_what_is_cut_and_what_has_no_answer_left_is_counted(tmp_path: Path) -> None:
    talks = [("Hi", "Hello"), ("Hi", "Hello" * 9), ("Hi" * 30, "Hello")]
    cut = prepared(tmp_path, talks, context=16)
    report = cut.audit.splits["train"]
    assert (report.examples, report.truncated, report.dropped_for) == (
        2,
        1,
        {"no answer within the context": 1},
    )
    assert sorted(predicted(cut, cut.batches("train", 99))) == sorted(["Hello</s>", ("Hello" * 9)[: 16 - 5]])
    dropped = prepared(tmp_path, talks, context=16, too_long="drop").audit.splits["train"]
    assert (dropped.examples, dropped.truncated, dropped.dropped_for) == (1, 0, {"too long": 2})
    with pytest.raises(ConfigError, match="has no meaning for conversations"):
        prepared(tmp_path, talks, context=16, too_long="split")


TALK = json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"role": ANSWER, "content": "Yes"}]})
PLAIN = '{"text": "Hello"}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([TALK, TALK, PLAIN], "line 3 is a plain text, but the lines before are conversations"),
        ([PLAIN, TALK], "line 2 is a conversation, but the lines before are plain texts"),
        ([TALK, '{"messages": "hi"}'], "line 2: the messages are not a list"),
    ],
)
def test_conversations_and_texts_do_not_mix(lines: list[str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    file.write_text("\n".join(lines))
    run = RunConfig(
        task="language-model",
        data=DataConfig(train=str(file), validation=0.0),
        tokenizer=TokenizerConfig(kind="byte"),
    )
    with pytest.raises(DataError, match=f"{file}, {message}"):
        prepare(run)
    skipping = prepare(run.replace(data=run.data.replace(on_error="skip")))
    assert skipping.audit.splits["train"].examples == lines.index(lines[-1])


def test_files_of_conversations_and_of_texts_do_not_mix(tmp_path: Path) -> None:
    for number, line in enumerate((PLAIN, TALK, PLAIN)):
        (tmp_path / f"{number}.jsonl").write_text(line)
    for order in ("01", "12"):
        data = DataConfig(train=tuple(str(tmp_path / f"{number}.jsonl") for number in order), validation=0.0)
        with pytest.raises(DataError, match="conversations and plain texts"):
            prepare(RunConfig(task="language-model", data=data, tokenizer=TokenizerConfig(kind="byte")))


def test_only_a_language_model_learns_conversations(tmp_path: Path) -> None:
    data = DataConfig(train=written(tmp_path / "a.jsonl", TALKS), validation=0.0)
    with pytest.raises(
        DataError, match="contains conversations, which task = 'masked-language-model' cannot learn"
    ):
        prepare(RunConfig(task="masked-language-model", data=data))


def test_own_markers_can_be_spelled(tmp_path: Path) -> None:
    run = prepared(tmp_path, TALKS).run
    tokenizer = run.tokenizer.replace(markers={"user": "[U]", "assistant": "[A]"})
    found = prepare(run.replace(tokenizer=tokenizer)).tokenizers.target
    assert [found.spelling(marker) for marker in found.markers.values()] == ["<system>", "[U]", "[A]"]
