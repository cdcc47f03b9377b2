"""Every field that a request may have changes the answer: a new one needs a row here."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from clearhead.serving.server.app import OPERATIONS
from clearhead.serving.server.schemas import ChatBody, CompletionBody
from tests.decoding.tiny import tokenizer

END = tokenizer("byte").specials.end
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
JSON = {"type": "json_object"}
DRAWN = {"temperature": 1.5, "seed": 1}
LONG = "the cat sat on the green table " * 20

PLAIN: dict[str, dict[str, Any]] = {
    COMPLETIONS: {"model": "talks", "prompt": "the", "temperature": 0, "max_tokens": 8},
    CHAT: {
        "model": "talks",
        "messages": [{"role": "user", "content": "the"}],
        "temperature": 0,
        "max_tokens": 8,
    },
    "/v1/embeddings": {"model": "decides", "input": "the cat"},
    "/v1/translate": {"model": "translates", "input": "My dog is old. The boy is happy.", "max_tokens": 12},
    "/v1/classify": {"model": "decides", "input": "the cat"},
    "/tokenize": {"model": "talks", "text": "the"},
    "/detokenize": {"model": "talks", "tokens": [70, 71]},
}

# Of each field: what both requests have, and the value that only the second has.
SAMPLED: dict[str, tuple[dict[str, Any], Any]] = {
    "model": ({}, "nobody"),
    "max_tokens": ({}, 3),
    "min_tokens": ({"logit_bias": {str(END): 100}}, 4),
    "n": ({}, 2),
    "temperature": ({"seed": 1}, 1.5),
    "top_p": (DRAWN, 1e-9),
    "top_k": (DRAWN, 1),
    "min_p": (DRAWN, 1.0),
    "presence_penalty": (DRAWN, -2),
    "frequency_penalty": (DRAWN, -2),
    "repetition_penalty": ({}, 5.0),
    "logit_bias": ({}, {"70": 100}),
    "seed": ({"temperature": 1.5, "seed": 2}, 1),
    "stop": ({"logit_bias": {"70": 100}}, tokenizer("byte").decode([70, 70])),
    "stream": ({}, True),
    "stream_options": ({"stream": True}, {"include_usage": True}),
    "response_format": ({}, JSON),
}
CHANGES: dict[str, dict[str, tuple[dict[str, Any], Any]]] = {
    COMPLETIONS: {**SAMPLED, "prompt": ({}, "my"), "echo": ({}, True), "logprobs": ({"logprobs": 1}, 3)},
    CHAT: {
        **SAMPLED,
        "messages": ({}, [{"role": "user", "content": "my"}]),
        "max_completion_tokens": ({"max_tokens": None}, 3),
        "logprobs": ({}, True),
        "top_logprobs": ({"logprobs": True}, 3),
    },
    "/v1/embeddings": {"model": ({}, "nobody"), "input": ({}, "my"), "encoding_format": ({}, "base64")},
    "/v1/translate": {
        "model": ({}, "nobody"),
        "input": ({}, "my"),
        "beam": ({}, 1),
        "length_penalty": ({}, 3.0),
        "max_tokens": ({}, 3),
        "split_sentences": ({"split_sentences": False}, True),
    },
    "/v1/classify": {"model": ({}, "nobody"), "input": ({}, "my"), "truncate": ({"input": LONG}, True)},
    "/tokenize": {"model": ({}, "nobody"), "text": ({}, "my")},
    "/detokenize": {"model": ({}, "nobody"), "tokens": ({}, [72])},
}


def test_every_field_has_a_row() -> None:
    bodies = {operation.path: operation.body for operation in OPERATIONS if operation.body is not None}
    fields = {path: set(body.model_fields) for path, body in bodies.items()}
    assert {path: set(rows) for path, rows in CHANGES.items()} == fields
    assert CompletionBody.model_fields.keys() - ChatBody.model_fields.keys() == {"prompt", "echo"}


@pytest.mark.parametrize(
    ("path", "field"), [(path, field) for path, rows in CHANGES.items() for field in rows]
)
def test_a_field_has_its_effect(client: TestClient, path: str, field: str) -> None:
    both, value = CHANGES[path][field]
    without = PLAIN[path] | both
    first, again = answer(client, path, without), answer(client, path, without)
    assert first == again
    assert answer(client, path, without | {field: value}) != first


def answer(client: TestClient, path: str, body: dict[str, Any]) -> Any:
    """What a request gets, without what differs each time."""
    found = client.post(path, json=body)
    if found.headers["content-type"].startswith("text/event-stream"):
        return sum(line.startswith("data: ") for line in found.text.splitlines())
    return {name: value for name, value in found.json().items() if name not in ("id", "created")}
