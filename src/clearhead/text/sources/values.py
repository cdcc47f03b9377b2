"""Values of records: what JSON, or a row, contains enters; a text, a label, a conversation, or the fault leaves."""

import json
from collections.abc import Iterable

from clearhead.config.data import Column
from clearhead.config.tokenizer import MARKERS
from clearhead.examples import ANSWER, Conversation, Message

FORMAT = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'


class Absent(LookupError):
    """A record without the column or key that was asked for."""


class NoConversation(ValueError):
    """A value that is not a conversation, and why."""


def conversation_of(value: object, limit: int) -> Conversation:
    """The conversation of a list of objects with role and content, each of no more than `limit` bytes."""
    if not isinstance(value, list) or not value:
        raise NoConversation("has no messages")
    conversation = Conversation(
        tuple(_message(number, entry, limit) for number, entry in enumerate(value, 1))
    )
    if not any(message.role == ANSWER for message in conversation.messages):
        raise NoConversation(f"has no message of the {ANSWER}, so there is no answer to learn")
    return conversation


def _message(number: int, entry: object, limit: int) -> Message:
    if not isinstance(entry, dict) or not {"role", "content"} <= entry.keys():
        raise NoConversation(f"message {number} is not an object with role and content")
    role, content = entry["role"], entry["content"]
    if not isinstance(role, str) or role not in MARKERS:
        raise NoConversation(
            f"message {number} has the role {str(role)[:40]!r}, not one of {', '.join(MARKERS)}"
        )
    if fault := fault_of(content, limit):
        raise NoConversation(f"the content of message {number} {fault}")
    if role == ANSWER and not content.strip():
        raise NoConversation(f"message {number}, an answer, is empty")
    return Message(role, content)


def fault_of(value: object, limit: int) -> str | None:
    """Why a value is not text, or None if it is."""
    if not isinstance(value, str):
        return "is missing" if value is None else f"is of type {type(value).__name__}, not text"
    if len(value) > limit:
        return f"is longer than {limit} bytes (data.max_line_bytes)"
    if "\0" in value:
        return "contains a NUL character, so it is not text"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"contains half a character ({value[error.start]!a}), which UTF-8 cannot represent"
    return None


def value_of(record: object, column: Column) -> object:
    """A column of an object by its name (`outer.inner` reaches inside), or of a list by its number."""
    if isinstance(record, dict):
        if column in record:
            return record[column]
        if (near := named_alike(record, str(column))) is not None:
            return record[near]
        outer, dot, inner = str(column).partition(".")
        if dot and isinstance(record.get(outer), dict):
            return value_of(record[outer], inner)
        raise Absent(f"has no {column!r}; it has {', '.join(map(repr, record)) or 'nothing'}")
    if isinstance(record, list):
        if isinstance(column, int) and column <= len(record):
            return record[column - 1]
        raise Absent(f"is a list of {len(record)} values, so there is no column {column!r}")
    raise Absent(f"is {json.dumps(record)[:40]}, not an object with keys")


def folded(name: str) -> str:
    """The name of a column without case and without space around it."""
    return name.strip().casefold()


def named_alike(names: Iterable[str], wanted: str) -> str | None:
    """The one name that differs from the wanted one in case alone."""
    found = [name for name in names if folded(str(name)) == folded(wanted)]
    return found[0] if len(found) == 1 else None
