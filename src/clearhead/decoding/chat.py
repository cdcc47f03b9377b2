"""A conversation that grows: messages enter; the prompt for the next answer leaves, with the latest turns that fit.

When the context is full, the oldest turns are dropped: a message of the user with its answer. What the system says
first stays. The caller learns how many messages were dropped, and says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.config.decoding import DecodingConfig
from clearhead.data.chats import prompt_ids
from clearhead.decoding.generate import Generator, Prompt
from clearhead.errors import InputError
from clearhead.examples import Message

SHARE_FOR_ANSWER = 4  # a fourth of the context, if answers may be that long


@dataclass(frozen=True)
class Turn:
    """The prompt for the next answer, and how many of the oldest messages it leaves out."""

    prompt: Prompt
    dropped: int = 0


def next_turn(generator: Generator, messages: Sequence[Message], settings: DecodingConfig) -> Turn:
    """The prompt for the answer to a conversation, whose oldest turns are dropped if it is too long."""
    first = next((at for at, one in enumerate(messages) if one.role != "system"), len(messages))
    head, rest = list(messages[:first]), list(messages[first:])
    limit = generator.config.context or generator.lengths.longest
    room = None if limit is None else limit - min(settings.max_tokens, limit // SHARE_FOR_ANSWER)
    kept = rest
    while room is not None and len(prompt_ids(generator.tokenizer, [*head, *kept])) > room:
        later = next((at for at, one in enumerate(kept) if at and one.role == "user"), None)
        if later is None:  # the last message alone; whether there is room for any answer is checked below
            break
        kept = kept[later:]
    try:
        return Turn(generator.ask([*head, *kept]), len(rest) - len(kept))
    except InputError as error:
        if len(kept) == len(rest):
            raise
        raise InputError(f"Even without the {len(rest) - len(kept)} messages before it: {error}") from None


def dropped_note(generator: Generator, dropped: int) -> str:
    """What is said about dropped messages."""
    messages = "The oldest message was" if dropped == 1 else f"The oldest {dropped} messages were"
    limit = generator.config.context or generator.lengths.longest
    return f"{messages} dropped: the model's context of {limit} tokens is full."
