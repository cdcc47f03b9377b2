"""Values of records become messages: what JSON holds enters, a conversation or the reason against it leaves."""

from clearhead.config.tokenizer import MARKERS
from clearhead.text.examples import ANSWER, Conversation, Message

FORMAT = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'


class NoConversation(ValueError):
    """A value that is no conversation, and why."""


def conversation_of(value: object, limit: int) -> Conversation:
    """The conversation of a list of objects with role and content, each of no more than `limit` bytes."""
    if not isinstance(value, list) or not value:
        raise NoConversation("has no messages")
    conversation = Conversation(
        tuple(_message(number, entry, limit) for number, entry in enumerate(value, 1))
    )
    if not any(message.role == ANSWER for message in conversation.messages):
        raise NoConversation(f"has no message of the {ANSWER}, so no answer to learn")
    return conversation


def _message(number: int, entry: object, limit: int) -> Message:
    if not isinstance(entry, dict) or not {"role", "content"} <= entry.keys():
        raise NoConversation(f"message {number} is no object with role and content")
    role, content = entry["role"], entry["content"]
    if not isinstance(role, str) or role not in MARKERS:
        raise NoConversation(f"message {number} is by {str(role)[:40]!r}, not by {', '.join(MARKERS)}")
    if fault := fault_of(content, limit):
        raise NoConversation(f"the content of message {number} {fault}")
    if role == ANSWER and not content.strip():
        raise NoConversation(f"message {number}, an answer, is empty")
    return Message(role, content)


def fault_of(value: object, limit: int) -> str | None:
    """Why a value is no text, if it is none."""
    if not isinstance(value, str):
        return "is missing" if value is None else f"is of type {type(value).__name__}, not text"
    if len(value) > limit:
        return f"is longer than {limit} bytes (data.max_line_bytes)"
    if "\0" in value:
        return "has a NUL character, which no text has"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"has half a character ({value[error.start]!a}), which no UTF-8 text has"
    return None
