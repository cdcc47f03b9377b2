"""Conversations as ids: by markers or by a template, the same in training, evaluation and chat."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import MARKERS, TokenizerConfig
from clearhead.data.batching.batches import IGNORE
from clearhead.data.batching.collate import Turns
from clearhead.data.chats import (
    answer_ends,
    can_chat,
    encode_turns,
    first_question,
    messages_of,
    prompt_ids,
)
from clearhead.data.prepare import prepare
from clearhead.data.shards.columns import TokenColumn
from clearhead.data.tokenizers import Tokenizers
from clearhead.errors import InputError
from clearhead.examples import Conversation, Message
from clearhead.text.tokenizers.conversations import encode_prompt
from clearhead.text.tokenizers.templates import ChatTemplate
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.tokenizers.chats import TALK, tokenizer_of

PLAIN = Tokenizer.train(["hello world"] * 3, TokenizerConfig(kind="byte"))
MARKED = PLAIN.with_markers(MARKERS)


def test_the_first_question_is_a_prompt_for_the_first_answer() -> None:
    question = first_question(MARKED, Conversation(TALK))
    assert (question.text, question.answer) == ("<user>hello  world\n<assistant>", TALK[1].content)
    assert question.ids == [MARKED.specials.begin, *encode_prompt(MARKED, question.text)]
    assert question.ids == prompt_ids(MARKED, TALK[:1])
    templated = first_question(tokenizer_of("Llama 3"), Conversation(TALK))
    assert templated.ids == ChatTemplate(tokenizer_of("Llama 3")).prompt(TALK[:1])
    assert templated.text.startswith("<s><|start_header_id|>user")


def test_an_answer_ends_at_its_end_or_at_another_marker() -> None:
    end, user, system = MARKED.specials.end, MARKED.markers["user"], MARKED.markers["system"]
    assert set(answer_ends(MARKED)) == {end, user, system}
    tokenizer = tokenizer_of("ChatML")
    assert [tokenizer.spelling(id) for id in answer_ends(tokenizer)] == ["<|im_end|>"]


def test_a_model_that_knows_no_conversations_says_so() -> None:
    assert [can_chat(one) for one in (PLAIN, MARKED, tokenizer_of("Zephyr"))] == [False, True, True]
    with pytest.raises(InputError, match="knows no conversations"):
        prompt_ids(PLAIN, TALK[:1])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "is a list of messages"),
        (3, "is a list of messages"),
        ([{"role": "user"}], "Message 1 is not an object"),
        ([{"role": "user", "content": None}], "Message 1 is not an object"),
        (["hello"], "Message 1 is not an object"),
        ([{"role": "tool", "content": "x"}], "the role 'tool', not one of system, user, assistant"),
        ([{"role": "assistant", "content": "x"}], "nothing to answer"),
    ],
)
def test_what_is_no_conversation_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        messages_of(value)


def test_a_text_is_a_message_of_the_user() -> None:
    assert (
        messages_of("hello")
        == messages_of([{"role": "user", "content": "hello"}])
        == [Message("user", "hello")]
    )


def test_only_answers_are_targets() -> None:
    tokenizer = tokenizer_of("ChatML")
    talks = [Conversation(TALK), Conversation(TALK[:2])]
    joined, counts = encode_turns(tokenizer, talks)
    rows = np.split(joined, np.cumsum(counts)[:-1])
    batch = Turns(TokenColumn.of(rows), tokenizer.size, 0)(np.arange(2), 0)
    assert batch.targets is not None
    for row, talk in enumerate(talks):
        ids, learned = ChatTemplate(tokenizer).answers(talk.messages)
        n = len(ids) - 1
        assert batch.inputs[row, :n].tolist() == ids[:-1]
        expected = [id if is_learned else IGNORE for id, is_learned in zip(ids, learned, strict=True)][1:]
        assert batch.targets[row, :n].tolist() == expected
        assert (batch.targets[row, n:] == IGNORE).all()
    assert batch.total == int((batch.targets != IGNORE).sum())


def test_a_model_with_a_template_learns_by_it_and_gets_no_new_tokens(tmp_path: Path) -> None:
    record = {"messages": [{"role": one.role, "content": one.content} for one in TALK]}
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(record | {"id": k}) + "\n" for k in range(8)), encoding="utf-8")
    settings: dict[str, Any] = {
        "data": {"train": str(path), "validation": 0},
        "model": {"context": 200, "vocabulary": 400},
    }
    run = RunConfig(task="language-model", **settings)
    tokenizer = tokenizer_of("ChatML")
    data = prepare(run, tokenizers=Tokenizers(tokenizer, tokenizer))
    assert data.tokenizers.target.document == tokenizer.document
    batch = next(data.batches("train", 400).epoch())
    ids, learned = ChatTemplate(tokenizer).answers(TALK)
    assert batch.inputs[0].tolist() == ids[:-1]
    assert batch.targets is not None
    assert (batch.targets[0] != IGNORE).tolist() == learned[1:]
