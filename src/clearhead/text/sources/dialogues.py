"""Conversations in the words of others: a record enters; a list of messages with role and content leaves.

Known are `messages`, the `conversations` of ShareGPT (`from` and `value`), and instruction data: a task and its answer,
such as the `instruction`, `input` and `output` of Alpaca.
"""

from clearhead.examples import ANSWER

LISTS = ("messages", "conversations")
ROLES = {"human": "user", "gpt": ANSWER, "chatgpt": ANSWER, "bot": ANSWER, "model": ANSWER}
# The question, what may be added to it, and the answer.
INSTRUCTIONS = (
    ("instruction", "input", "output"),
    ("instruction", "context", "response"),
    ("prompt", None, "completion"),
    ("prompt", None, "response"),
)
KEYS = (*LISTS, "system", *dict.fromkeys(key for row in INSTRUCTIONS for key in row if key))


def messages_in(record: object) -> object | None:
    """The messages of a record, or None if it is no conversation; a text beside them is what is meant."""
    if not isinstance(record, dict) or "text" in record:
        return None
    system = [{"role": "system", "content": record["system"]}] if record.get("system") else []
    for key in LISTS:
        if key in record:
            found = record[key]
            return system + [_renamed(entry) for entry in found] if isinstance(found, list) else found
    for question, more, answer in INSTRUCTIONS:
        if question in record and answer in record:
            asked = record[question]
            if more and record.get(more):
                asked = f"{asked}\n\n{record[more]}"
            return [*system, {"role": "user", "content": asked}, {"role": ANSWER, "content": record[answer]}]
    return None


def _renamed(entry: object) -> object:
    """A message with our keys and roles; what is none is left to be reported."""
    if not isinstance(entry, dict):
        return entry
    if "from" in entry and "value" in entry and "role" not in entry:
        entry = {"role": entry["from"], "content": entry["value"]}
    role = entry.get("role")
    return entry | {"role": ROLES.get(role, role)} if isinstance(role, str) else entry
