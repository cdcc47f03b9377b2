"""Conversations as a model reads them: messages enter; ids leave, by its chat template or by its markers.

A model that came with a chat template keeps it. One that was trained on conversations here has a marker for each role
(see `text.tokenizers.conversations`). Either way a conversation has the same ids in training, evaluation and chat.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from clearhead.data.frames import prompt_frame
from clearhead.errors import InputError
from clearhead.examples import ANSWER, Conversation, Message
from clearhead.text.tokenizers.conversations import borders_of, encode
from clearhead.text.tokenizers.fast import Ids
from clearhead.text.tokenizers.templates import ChatTemplate
from clearhead.text.tokenizers.tokenizer import Tokenizer

TURNS = "turns"  # the column of conversations by a chat template
ROLES = ("system", "user", ANSWER)


@lru_cache(maxsize=8)
def template_of(tokenizer: Tokenizer) -> ChatTemplate | None:
    """The chat template of a tokenizer; None where it has markers of its own, or neither."""
    return None if tokenizer.chat_template is None or tokenizer.markers else ChatTemplate(tokenizer)


def can_chat(tokenizer: Tokenizer) -> bool:
    """Whether a model knows how a conversation looks."""
    return tokenizer.chat_template is not None or {"user", ANSWER} <= tokenizer.markers.keys()


def check_chat(tokenizer: Tokenizer) -> None:
    """Rejects a model that does not know conversations."""
    if not can_chat(tokenizer):
        raise InputError(
            "This model knows no conversations: it has no chat template, and was not trained on conversations.\n"
            "Use generate; or fine-tune it on conversations: "
            "clearhead train language-model chats.jsonl --training.init_from MODEL"
        )


def prompt_ids(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    """The ids of a conversation up to where the next answer starts."""
    check_chat(tokenizer)
    if template := template_of(tokenizer):
        return template.prompt(messages)
    asked = Conversation((*messages, Message(ANSWER, "")))
    ids = encode(tokenizer, [asked])[0].tolist()[:-1]  # without the end of the answer
    return [*prompt_frame(tokenizer.specials).before, *ids]


@dataclass(frozen=True)
class Question:
    """What comes before the first answer of a conversation, as ids and as people read it; and that answer."""

    ids: list[int]
    text: str
    answer: str


def first_question(tokenizer: Tokenizer, conversation: Conversation) -> Question:
    """The conversation up to its first answer, which is still to be written."""
    messages = conversation.messages
    first = [message.role for message in messages].index(ANSWER)
    ids = prompt_ids(tokenizer, messages[:first])
    before = len(prompt_frame(tokenizer.specials)) if tokenizer.markers else 0
    return Question(ids, tokenizer.decode(ids[before:], keep_special=True), messages[first].content)


def answer_ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids at which an answer is over, besides the end of a text."""
    template = template_of(tokenizer)
    return borders_of(tokenizer) if template is None else template.ends


def encode_turns(tokenizer: Tokenizer, talks: Sequence[Conversation]) -> tuple[Ids, NDArray[np.int64]]:
    """The ids of conversations by their template, in one array, and how many each has.

    An id that the model has to write is stored higher by the size of the vocabulary; `is_learned` says which they are.
    """
    template = template_of(tokenizer)
    assert template is not None
    rows = []
    for talk in talks:
        ids, learned = template.answers(talk.messages)
        rows.append(np.array(ids, np.int64) + tokenizer.size * np.array(learned, np.int64))
    counts = np.array([len(row) for row in rows], np.int64)
    return np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int32), counts


def messages_of(value: object) -> list[Message]:
    """The messages of a conversation: one text by the user, or a list of objects with role and content."""
    if isinstance(value, str):
        return [Message("user", value)]
    if not isinstance(value, Sequence) or not value:
        raise InputError(
            "A conversation is a list of messages, each with a role and a content:\n"
            '[{"role": "user", "content": "Hello"}]'
        )
    messages = [message_of(number, one) for number, one in enumerate(value, 1)]
    if messages[-1].role == ANSWER:
        raise InputError(
            f"The last message is by the {ANSWER}, so there is nothing to answer.\nAdd the user's."
        )
    return messages


def message_of(number: int, value: object) -> Message:
    """One message."""
    if isinstance(value, Message):
        return value
    role, content = (value.get("role"), value.get("content")) if isinstance(value, dict) else (None, None)
    if not isinstance(role, str) or not isinstance(content, str):
        raise InputError(
            f"Message {number} is not an object with a role and a content, both texts: {value!r:.80}."
        )
    if role not in ROLES:
        raise InputError(f"Message {number} has the role {role!r:.40}, not one of {', '.join(ROLES)}.")
    return Message(role, content)
