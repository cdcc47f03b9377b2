"""Conversations become ids: a marker before every message, the end token after every answer.

    begin <user> What is 2 + 2? <assistant> 4 end <user> And 3 + 3? <assistant> 6 end

Messages enter, or a prompt in which the markers are spelled out; ids leave. Nothing else is added, not even a
space. Contents cannot spell a marker, so an id of a marker always is one; and what lies between the marker of
the assistant and the next end or marker always is an answer.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import InputError
from clearhead.examples import ANSWER, Conversation, Message
from clearhead.text.tokenizers.fast import Ids
from clearhead.text.tokenizers.tokenizer import Tokenizer


def encode(tokenizer: Tokenizer, conversations: Sequence[Conversation]) -> tuple[Ids, NDArray[np.int64]]:
    """The ids of many conversations in one array, and how many each has; without the beginning."""
    messages = [message for conversation in conversations for message in conversation.messages]
    ids, counts = tokenizer.encode_joined([message.content for message in messages])
    answers = np.array([message.role == ANSWER for message in messages])
    longer = counts + 1 + answers
    starts = np.cumsum(longer) - longer
    joined = np.empty(int(longer.sum()), ids.dtype)
    joined[starts] = [marker_of(tokenizer, message.role) for message in messages]
    joined[(starts + longer - 1)[answers]] = end_of(tokenizer)
    joined[np.arange(len(ids)) + np.repeat(starts + 1 - (np.cumsum(counts) - counts), counts)] = ids
    sizes = [len(conversation.messages) for conversation in conversations]
    return joined, np.add.reduceat(longer, np.cumsum([0, *sizes[:-1]]))


def spells_marker(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a prompt is a conversation, with its markers spelled out."""
    return any(str(tokenizer.spelling(marker)) in text for marker in tokenizer.markers.values())


def encode_prompt(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a prompt: where it spells markers, those of the conversation so far, its last message open."""
    roles = {tokenizer.spelling(marker): role for role, marker in tokenizer.markers.items()}
    first, *rest = re.split(f"({'|'.join(re.escape(str(name)) for name in roles) or '(?!)'})", text)
    if not rest:
        return tokenizer.encode(text)
    messages = [Message(roles[name], content) for name, content in zip(rest[::2], rest[1::2], strict=True)]
    ids = encode(tokenizer, [Conversation(tuple(messages))])[0].tolist()
    return [*tokenizer.encode(first), *(ids[:-1] if messages[-1].role == ANSWER else ids)]


def marker_of(tokenizer: Tokenizer, role: str) -> int:
    """The id before the messages of a role."""
    if role not in tokenizer.markers:
        raise InputError(
            f"This model's tokenizer has no marker for {role!r}: the model was not trained on conversations.\n"
            "Fine-tune it on conversations, with task = 'language-model'."
        )
    return tokenizer.markers[role]


def end_of(tokenizer: Tokenizer) -> int:
    """The id after every answer."""
    specials = tokenizer.specials
    end = specials.end if specials.end is not None else specials.separator
    if end is None:
        raise InputError(
            "The tokenizer has no end token, so an answer could never end.\nName one with `tokenizer.with_roles`."
        )
    return end


def borders_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids at which an answer is over."""
    return (end_of(tokenizer), *(marker for role, marker in tokenizer.markers.items() if role != ANSWER))
