"""A conversation with a model: prompts by its own rules, the oldest turns dropped, answers that end."""

import logging
from typing import Any

import pytest
import torch

from clearhead.api import Model
from clearhead.config.decoding import DecodingConfig
from clearhead.config.tokenizer import MARKERS
from clearhead.data.chats import prompt_ids
from clearhead.decoding.chat import next_turn
from clearhead.decoding.generate import Generator
from clearhead.errors import InputError
from clearhead.examples import Message
from clearhead.model_folder import Bundle
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.decoding.tiny import random_model, tokenizer
from tests.text.tokenizers.chats import tokenizer_of

MARKED = tokenizer("byte").with_markers(MARKERS)
GREEDY = {"temperature": 0.0, "max_tokens": 6}


def talker(words: Tokenizer = MARKED, **settings: Any) -> Model:
    return Model(Bundle(random_model("decoder", vocabulary=words.size, **settings).module, words))


def said(count: int, text: str = "hello") -> list[Message]:
    pairs = [(Message("user", f"{text} {k}"), Message("assistant", "yes")) for k in range(count)]
    return [message for pair in pairs for message in pair][:-1]


@pytest.mark.parametrize("words", [MARKED, tokenizer_of("ChatML"), tokenizer_of("[INST]")])
def test_a_model_answers_by_its_own_rules(words: Tokenizer) -> None:
    model = talker(words, context=200)
    messages = said(2)
    answer = model.chat([{"role": one.role, "content": one.content} for one in messages], **GREEDY)
    ids = torch.tensor([prompt_ids(words, messages)])
    assert answer.tokens[0] == int(model.logits(ids)[0, -1].argmax())
    assert "".join(piece.text for piece in model.stream_chat(messages, **GREEDY)) == answer.text


def test_the_oldest_turns_are_dropped_and_the_system_stays(caplog: pytest.LogCaptureFixture) -> None:
    model, settings = talker(context=60), DecodingConfig(max_tokens=10)
    messages = [Message("system", "Hi."), *said(5)]
    turn = next_turn(model.generator, messages, settings)
    assert 0 < turn.dropped < 9
    assert turn.dropped % 2 == 0
    assert turn.prompt.ids == prompt_ids(MARKED, [messages[0], *messages[1 + turn.dropped :]])
    assert len(turn.prompt.ids) <= 50
    with caplog.at_level(logging.WARNING):
        model.chat(messages, max_tokens=10, seed=1)
    assert f"The oldest {turn.dropped} messages were dropped: the model's context of 60 tokens" in caplog.text
    assert next_turn(model.generator, messages[:2], settings).dropped == 0


def test_a_message_that_does_not_fit_alone_is_refused() -> None:
    model = talker(context=60, positions="learned")
    with pytest.raises(InputError, match=r"The conversation has \d+ tokens, but this model has room for 59"):
        model.chat("long " * 20)
    with pytest.raises(InputError, match="Even without the 4 messages before it: The conversation has"):
        model.chat([*said(3)[:-1], Message("user", "long " * 20)])


def test_an_answer_ends_at_its_own_end() -> None:
    words = tokenizer_of("ChatML").with_roles(end="</s>")
    model = talker(words, context=200)
    end = words._library.token_to_id("<|im_end|>")
    settings = GREEDY | {"logit_bias": {end: 1e6}}
    assert (model.chat("hello", **settings).reason, model.chat("hello", **settings).text) == ("end", "")
    assert model.generate("hello", **settings).reason == "length"  # a text has no turns


def test_a_plain_prompt_is_asked_of_a_model_trained_on_conversations() -> None:
    generator = Generator(talker().bundle)
    asked = generator.prompt("hello")
    assert asked == generator.prompt("<user>hello<assistant>", chat=False).__class__(
        asked.ids, ends=asked.ends
    )
    assert asked.ids == prompt_ids(MARKED, [Message("user", "hello")])
    assert generator.prompt("<user>hello<assistant>").ids == asked.ids
    assert generator.prompt("hello", chat=False).ids == [MARKED.specials.begin, *MARKED.encode("hello")]
    assert generator.prompt("").ids == [MARKED.specials.begin]
    told = generator.prompt("hello", system="Hi.")
    assert told.ids == prompt_ids(MARKED, [Message("system", "Hi."), Message("user", "hello")])


def test_a_template_is_used_where_it_is_asked_for() -> None:
    words = tokenizer_of("ChatML")
    generator = Generator(talker(words, context=200).bundle)
    assert generator.prompt("hello", chat=True).ids == prompt_ids(words, [Message("user", "hello")])
    assert words.specials.begin is not None
    assert generator.prompt("hello").ids == [words.specials.begin, *words.encode("hello")]
    with pytest.raises(InputError, match="knows no conversations"):
        Generator(random_model("decoder")).prompt("hello", chat=True)
